"""The log of a run on its way into its artifact, against a storage that keeps blocks as Azure does."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from worker.claim import Claim
from worker.livelog import BLOCK, CONTENT_TYPE, MERGED, LiveLog
from worker.logstore import LogStore

LIMIT = 40_000


class Storage:
    """One blob that is written by Put Block and Put Block List, and the queue that hands out its URL."""

    def __init__(self) -> None:
        self.url = ""
        self.blocks: dict[str, bytes] = {}
        self.listed: list[str] = []
        self.content_type = ""
        self.created = 0
        self.fails: list[int | None] = []
        """Statuses of the next answers; None: as it should be, but the answer is an error."""
        self.createArtifact = self._create

    @property
    def content(self) -> bytes:
        return b"".join(self.blocks[block_id] for block_id in self.listed)

    async def _create(self, task_id: str, run_id: int, name: str, request: dict[str, Any]) -> dict[str, str]:
        assert (task_id, run_id, name) == ("task", 0, "log")
        assert request == {"storageType": "azure", "contentType": CONTENT_TYPE, "expires": "2030-01-01T00:00:00.000Z"}
        self.created += 1
        return {"putUrl": f"{self.url}/blob?sig=a%2Bb", "expires": "2029-01-01T00:00:00.000Z"}

    async def put(self, request: web.Request) -> web.Response:
        """Put Block, Put Block List."""
        assert request.rel_url.raw_query_string.startswith("sig=a%2Bb&")
        body = await request.read()
        status = self.fails.pop(0) if self.fails else 201
        if status not in (None, 201):
            return web.Response(status=status)
        if request.query["comp"] == "block":
            self.blocks[request.query["blockid"]] = body
        elif (ids := re.findall("<Latest>(.*?)</Latest>", body.decode())) and not set(ids) <= self.blocks.keys():
            return web.Response(status=400)
        else:
            self.listed = ids
            self.blocks = {block_id: self.blocks[block_id] for block_id in ids}  # others are dropped
            self.content_type = request.headers["x-ms-blob-content-type"]
        return web.Response(status=500 if status is None else 201)


class Run:
    """What the log has to know of a claim."""

    task_id, run_id = "task", 0

    def __init__(self, storage: Storage) -> None:
        self.queue = storage
        self.definition = {"expires": "2030-01-01T00:00:00.000Z"}


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    storage = Storage()
    app = web.Application(client_max_size=1 << 30)
    app.router.add_put("/blob", storage.put)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    storage.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield storage
    await runner.cleanup()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with closing(LogStore(tmp_path, LIMIT)) as store:
        yield store


@pytest.fixture
def live(storage: Storage, store: LogStore, session: aiohttp.ClientSession) -> LiveLog:
    return LiveLog("log", store, cast(Claim, Run(storage)), session)


async def test_what_has_come_is_shown_byte_for_byte_and_by_few_blocks(
    storage: Storage, store: LogStore, live: LiveLog
) -> None:
    written = b""
    for number in range(4 * MERGED + 3):
        piece = b"\x1b[31m%d %%\r\xff" % number
        store.write(piece)
        written += piece
        await live._append()
        assert storage.content == written
    assert len(storage.listed) < 2 * MERGED
    assert await live.finish()
    assert storage.content == written
    assert storage.content_type == CONTENT_TYPE
    assert storage.created == 1


async def test_nothing_is_sent_when_nothing_has_come(storage: Storage, store: LogStore, live: LiveLog) -> None:
    store.say("a line")
    await live._append()
    storage.fails = [500]
    await live._append()
    assert storage.fails == [500]


async def test_a_log_at_its_limit_is_whole(storage: Storage, store: LogStore, live: LiveLog) -> None:
    content = b"".join(b"line %d\n" % number for number in range(10_000))[:LIMIT]
    store.write(content[: LIMIT // 2])
    await live._append()
    store.write(content[LIMIT // 2 :])
    assert await live.finish()
    assert storage.content == content


async def test_a_longer_log_loses_its_middle_and_says_so(storage: Storage, store: LogStore, live: LiveLog) -> None:
    lines = [b"line %d\n" % number for number in range(10_000)]
    for line in lines:
        store.write(line)
    await live._append()
    shown = storage.content
    assert b"".join(lines).startswith(shown)
    assert len(shown) == LIMIT * 3 // 4
    assert await live.finish()
    beginning, notice, end = re.split(
        rb"\n(\[taskcluster .*\] (?:\d+) bytes of this log are left out.*)\n", storage.content
    )
    assert beginning == shown
    assert b"".join(lines).endswith(b"\n" + end), "it begins with a line"
    left_out = int(re.findall(rb"\] (\d+) bytes", notice)[0])
    assert len(beginning) + left_out + len(end) == len(b"".join(lines))
    assert len(end) > LIMIT // 5


async def test_lines_longer_than_any_block(storage: Storage, tmp_path: Path, session: aiohttp.ClientSession) -> None:
    with closing(LogStore(tmp_path, 4 * BLOCK)) as store:
        live = LiveLog("log", store, cast(Claim, Run(storage)), session)
        store.write(b"x" * (BLOCK + BLOCK // 2))
        await live._append()
        store.write(b"y" * 8 * BLOCK)
        assert await live.finish()
    assert storage.content.startswith(b"x" * (BLOCK + BLOCK // 2) + b"y")
    assert b" bytes of this log are left out" in storage.content
    assert storage.content.endswith(b"y" * (BLOCK // 2))


@pytest.mark.parametrize("fails", [[500], [None], [201, 500], [201, None], [403], [201, 403], [400], [201, 400]])
async def test_failures_that_pass_lose_nothing(
    storage: Storage, store: LogStore, live: LiveLog, fails: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.livelog.TRIES", 4)
    for number in range(MERGED - 1):
        store.say(str(number))
        await live._append()
    store.say("last")
    storage.fails = [*fails]
    assert await live.finish()
    assert storage.content == store.read(0, store.size)


async def test_a_list_that_was_taken_though_its_answer_was_lost(
    storage: Storage, store: LogStore, live: LiveLog
) -> None:
    """It names one block in place of many, which are gone now."""
    for number in range(MERGED - 1):
        store.say(str(number))
        await live._append()
    store.say("merges")
    storage.fails = [201, 201, None]
    assert await live.finish()
    assert storage.content == store.read(0, store.size)


async def test_storage_that_takes_nothing_fails_nothing(
    storage: Storage, store: LogStore, live: LiveLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.livelog.TRIES", 2)
    store.say("a line")
    storage.fails = [500] * 10
    assert not await live.finish()


def test_the_store_has_no_name(store: LogStore, tmp_path: Path) -> None:
    store.say("secret")
    assert list(tmp_path.iterdir()) == []


def test_the_store_takes_no_more_of_the_disk_than_its_limit(tmp_path: Path) -> None:
    with closing(LogStore(tmp_path, 1000)) as store:
        for _ in range(100):
            store.write(b"0123456789" * 7)
        assert store.size == 7000
        assert os.fstat(store._file.fileno()).st_size == 1000
        assert store.read(store.size - 250, store.size) == (b"0123456789" * 7 * 100)[-250:]
