"""The log of a run, against a service that takes uploads of a certain size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from worker.artifacts import CUT_OFF, Artifacts
from worker.claim import Claim
from worker.tasklog import SHORTEST, TaskLog


class Service:
    """Serves createArtifact with a URL of its own; what is put there is kept, up to a limit that may differ."""

    def __init__(self, limit: int, direct: int) -> None:
        self._limits = {"relay": limit, "direct": direct}
        self.kept = b""
        self.tries = 0
        self.url = ""
        self.createArtifact = self._create

    async def _create(self, task_id: str, run_id: int, name: str, request: dict[str, Any]) -> dict[str, str]:
        """Direct where the length is stated."""
        return {"putUrl": f"{self.url}/{'direct' if 'contentLength' in request else 'relay'}"}

    async def put(self, request: web.Request) -> web.Response:
        """Takes all of it, and refuses afterwards."""
        content = await request.read()
        self.tries += 1
        if len(content) > self._limits[request.match_info["way"]]:
            return web.Response(status=413)
        self.kept = content
        return web.Response(status=201)


class Run:
    """What an upload has to know of a claim."""

    task_id, run_id = "task", 0

    def __init__(self, service: Service) -> None:
        self.queue = service
        self.definition = {"expires": "2030-01-01T00:00:00.000Z"}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def serve(service: Service) -> web.AppRunner:
    app = web.Application(client_max_size=1 << 30)
    app.router.add_put("/{way}", service.put)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    return runner


SIZE = 1_000_000


@pytest.mark.parametrize(
    ("limit", "direct", "kept"),
    [
        (1 << 30, 1 << 30, SIZE),
        (SIZE // 2, 1 << 30, SIZE),
        (SIZE // 2, SIZE // 2, None),
        (0, 0, 0),
    ],
    ids=["all is taken", "only directly", "half of it", "nothing"],
)
async def test_log_is_sent_directly_or_cut_and_fails_nothing(
    session: aiohttp.ClientSession, tmp_path: Path, limit: int, direct: int, kept: int | None
) -> None:
    service = Service(limit, direct)
    runner = await serve(service)
    path = tmp_path / "log"
    path.write_bytes(b"x" * SIZE)
    await TaskLog(path, Artifacts(cast(Claim, Run(service)), session)).finish()
    if kept is None:
        assert service.kept.endswith(CUT_OFF)
        assert SHORTEST < len(service.kept) <= limit
    else:
        assert len(service.kept) == kept
    assert service.tries < 20
    await runner.cleanup()


async def test_log_that_grows_finds_out_once_how_much_is_taken(session: aiohttp.ClientSession, tmp_path: Path) -> None:
    service = Service(SIZE // 2, 0)
    runner = await serve(service)
    path = tmp_path / "log"
    path.write_bytes(b"x" * SIZE)
    log = TaskLog(path, Artifacts(cast(Claim, Run(service)), session))
    await log.upload()
    tries = service.tries
    await log.upload()
    assert service.tries == tries + 1
    assert service.kept.endswith(CUT_OFF)
    await runner.cleanup()
