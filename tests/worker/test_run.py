"""How a worker that is to end lets go of its runs, whatever the queue does meanwhile."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from taskcluster.exceptions import TaskclusterRestFailure

from worker import artifacts, content, logstore
from worker import run as module
from worker.caches import Caches
from worker.claim import Claim
from worker.execution import Site
from worker.folders import Folders
from worker.options import Options
from worker.process import END_SECONDS
from worker.run import Run
from worker.users import Users

QUIET = {"features": {"liveLog": False, "backingLog": False}}
STOP_SECONDS = 30.0
"""That whatever stops a worker leaves it (worker/README.md): what Container Apps does by default."""


class FakeClaim:
    """A claim that nobody takes away, whose queue answers as `answer` does."""

    task_id = "task"
    run_id = 0

    def __init__(self, payload: dict[str, Any], answer: Callable[[str], Awaitable[object]]) -> None:
        later = "2100-01-01T00:00:00.000Z"
        self.definition = {"payload": payload, "taskGroupId": "task", "deadline": later, "expires": later}
        self.queue = self
        self.asked: list[str] = []
        self._answer = answer

    async def keep(self) -> str:
        await asyncio.Event().wait()
        return "never"

    async def createArtifact(self, *_: object) -> object:  # noqa: N802 - the client's names
        return await self._answer("createArtifact")

    async def reportCompleted(self, *_: object) -> object:  # noqa: N802
        self.asked.append("completed")
        return await self._answer("reportCompleted")

    async def reportFailed(self, *_: object) -> object:  # noqa: N802
        self.asked.append("failed")
        return await self._answer("reportFailed")

    async def reportException(self, task_id: str, run_id: int, body: dict[str, str]) -> object:  # noqa: N802
        self.asked.append(body["reason"])
        return await self._answer("reportException")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    options = Options(
        root_url="https://tc.example.com",
        credentials={},
        task_queue_id="a/b",
        worker_group="g",
        worker_id="w",
        work_dir=tmp_path / "work",
        log_seconds=0.05,
    )
    folders = Folders(options.work_dir)
    folders.sweep()
    async with aiohttp.ClientSession() as session:
        yield Site(
            options=options, session=session, folders=folders, caches=Caches(options.work_dir, 0), users=Users([])
        )


async def test_a_result_that_is_being_reported_is_not_given_back(site: Site) -> None:
    """The task is not done a second time."""
    reporting, go_on = asyncio.Event(), asyncio.Event()

    async def answer(call: str) -> object:
        reporting.set()
        await go_on.wait()
        return {}

    claim, shutdown = FakeClaim({"command": ["true"], **QUIET}, answer), asyncio.Event()
    running = asyncio.create_task(Run(cast(Claim, claim), site).run(shutdown))
    await asyncio.wait_for(reporting.wait(), 30)
    shutdown.set()
    await asyncio.wait([running], timeout=0.05)
    go_on.set()
    await asyncio.wait_for(running, 30)
    assert claim.asked == ["completed"]


@pytest.mark.parametrize("payload", [{"command": ["sleep", "600"]}, {"command": ["true"]}, {}])
async def test_a_queue_that_is_away_does_not_keep_a_worker_from_ending(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payload: dict[str, Any]
) -> None:
    """Whether the task is running, its result is being reported, or its log is being stored."""
    monkeypatch.setattr(module, "REPORT_SECONDS", 0.1)
    monkeypatch.setattr(module, "LOG_SECONDS", 0.1)
    asked = asyncio.Event()

    async def answer(call: str) -> object:
        asked.set()
        raise aiohttp.ClientConnectionError("no connection")

    claim, shutdown = FakeClaim(payload, answer), asyncio.Event()
    running = asyncio.create_task(Run(cast(Claim, claim), site).run(shutdown))
    await asyncio.wait_for(asked.wait(), 30)
    shutdown.set()
    await asyncio.wait_for(running, 30)
    assert "worker-shutdown" in claim.asked
    assert list((tmp_path / "work" / "tasks").iterdir()) == []


def test_the_time_that_it_takes_to_end_is_what_a_worker_is_left() -> None:
    longest = Options.grace_seconds + END_SECONDS + module.REPORT_SECONDS + module.LOG_SECONDS
    assert longest < STOP_SECONDS


async def nothing(_: str) -> object:
    return {}


async def ran(site: Site, payload: dict[str, Any], answer: Callable[[str], Awaitable[object]] = nothing) -> list[str]:
    """What is reported of a task."""
    claim = FakeClaim({**QUIET, **payload}, answer)
    await Run(cast(Claim, claim), site).run(asyncio.Event())
    return claim.asked


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("payload", "module", "name"),
    [
        pytest.param({"command": ["sh", "-c", "echo PRINTED; sleep 60"]}, os, "pwrite", id="the log"),
        pytest.param(
            {
                "command": ["touch", "a"],
                "artifacts": [{"type": "file", "path": "a", "contentEncoding": "gzip"}],
            },
            artifacts,
            "_compress",
            id="a compressed artifact",
        ),
        pytest.param(
            {"command": ["true"], "mounts": [{"file": "a", "content": {"raw": "x"}}]},
            content,
            "_write_inline",
            id="a mount",
        ),
    ],
)
async def test_a_full_disk_is_no_fault_of_the_task(
    site: Site, monkeypatch: pytest.MonkeyPatch, payload: dict[str, Any], module: Any, name: str
) -> None:
    original = getattr(module, name)

    def write(*arguments: Any) -> int:
        is_meant = name != "pwrite" or b"PRINTED" in bytes(arguments[1])
        return full() if is_meant else int(original(*arguments))

    monkeypatch.setattr(module, name, write)
    assert await ran(site, payload) == ["resource-unavailable"]


async def test_a_log_on_a_full_disk_does_not_keep_the_report_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    original, is_full = os.pwrite, False

    def write(descriptor: int, data: bytes, place: int) -> int:
        nonlocal is_full
        is_full = is_full or b"PRINTED" in bytes(data)
        return full() if is_full else original(descriptor, data, place)

    monkeypatch.setattr(os, "pwrite", write)
    assert await ran(site, {"command": ["echo", "PRINTED"]}) == ["resource-unavailable"]


@pytest.mark.parametrize(("path", "reported"), [("there", "failed"), ("missing", "malformed-payload")])
async def test_an_artifact_that_the_queue_refuses(site: Site, path: str, reported: str) -> None:
    """As one whose `expires` is over."""

    async def refuse(call: str) -> object:
        if call == "createArtifact":
            raise TaskclusterRestFailure("`expires` must be in the future", None, status_code=400)
        return {}

    artifact = {"type": "file", "path": path, "expires": "2001-01-01T00:00:00Z"}
    assert await ran(site, {"command": ["touch", "there"], "artifacts": [artifact]}, refuse) == [reported]


async def test_no_signature_is_in_the_log_of_a_task(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A mount whose server answers 5xx, and an error that nobody has expected."""
    url, lines = "http://127.0.0.1:9/private?sig=SECRET", list[bytes]()
    monkeypatch.setattr(content, "TRIES", 1)
    original = logstore.LogStore.write

    def write(self: logstore.LogStore, data: bytes) -> None:
        lines.append(data)
        original(self, data)

    monkeypatch.setattr(logstore.LogStore, "write", write)
    mount = {"file": "a", "content": {"url": url}}
    assert await ran(site, {"command": ["true"], "mounts": [mount]}) == ["intermittent-task"]
    log = b"".join(lines).decode()
    assert "http://127.0.0.1:9/private?…" in log
    assert "SECRET" not in log
    assert "SECRET" not in caplog.text
