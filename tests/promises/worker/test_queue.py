"""How soon the worker asks again, and that a URL that signs is not in its log."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from worker.context import Json
from worker.options import Options
from worker.queue import SHORT, ClaimWork, SignedUrls
from worker.worker import take_work

OPTIONS = Options(
    root_url="https://tc.example.com",
    credentials={},
    task_queue_id="p/w",
    worker_group="g",
    worker_id="w",
    work_dir=Path("/nowhere"),
    watch_seconds=9999,
)


class Slow:
    """A queue without work, in which a call takes so long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self._now, self._seconds = 1000.0, seconds
        monkeypatch.setattr("worker.queue.time.monotonic", lambda: self._now)

    async def claimWork(self, task_queue_id: str, request: Json) -> Json:  # noqa: N802 - the client's name
        assert request == {"workerGroup": "g", "workerId": "w", "tasks": 1}
        self._now += self._seconds
        return {"tasks": []}


@pytest.mark.parametrize(
    ("waited", "advised", "least", "most"),
    [
        (0.0, 0.0, SHORT / 2, SHORT),
        (20.0, 0.0, 0.0, 0.0),
        (3.0, 0.0, 0.0, 0.0),
        (20.0, 8.0, 4.0, 8.0),
        (0.0, 8.0, 4.0, 8.0),
    ],
)
async def test_a_call_follows_at_once_on_one_that_waited_unless_the_queue_asks_for_a_pause(
    monkeypatch: pytest.MonkeyPatch, waited: float, advised: float, least: float, most: float
) -> None:
    source = ClaimWork(Slow(monkeypatch, waited), cast(Any, SimpleNamespace(trace_configs=[])), OPTIONS)
    assert await source.claim() is None
    source._advised = advised
    assert least <= max(source.pause(), 0.0) <= most


async def test_a_poll_url_that_fails_is_logged_without_its_signature(caplog: pytest.LogCaptureFixture) -> None:
    asked = asyncio.Event()

    async def fail(_: web.BaseRequest) -> web.Response:
        asked.set()
        return web.Response(status=503)

    runner = web.ServerRunner(web.Server(fail))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/queue/messages?sp=p&sig=SECRET"

    class FakeQueue:
        async def _makeHttpRequest(self, *_: object) -> object:  # noqa: N802 - the client's name
            until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
            return {"queues": [{"signedPollUrl": url}], "expires": until}

    shutdown, guard = asyncio.Event(), cast(Any, SimpleNamespace(is_lost=False))
    async with aiohttp.ClientSession() as session:
        source = SignedUrls(FakeQueue(), session, OPTIONS)
        working = asyncio.create_task(take_work(OPTIONS, source, cast(Any, None), guard, shutdown))
        await asyncio.wait_for(asked.wait(), 30)
        shutdown.set()
        await asyncio.wait_for(working, 30)
    await runner.cleanup()
    assert "/queue/messages?…" in caplog.text
    assert "SECRET" not in caplog.text
