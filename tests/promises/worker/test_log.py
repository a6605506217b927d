"""The log of a run on its way into its artifact, against a storage that keeps blocks as Azure does."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

import aiohttp
import pytest
from aiohttp import web

from worker.context import TROUBLE, Context, insist
from worker.log import BLOCK, CONTENT_TYPE, LiveLog, LogStore

LIMIT = 40_000
TRIES = 4


class Storage:
    """One blob that is written by Put Block and Put Block List, and the queue that hands out its URL."""

    def __init__(self) -> None:
        self.url = ""
        self.blocks: dict[str, bytes] = {}
        self.listed: list[str] = []
        self.content_type = ""
        self.created = self.put_blocks = 0
        self.fails: list[int | None] = []
        """Statuses of the next answers; None: as it should be, but the answer is an error."""

    @property
    def content(self) -> bytes:
        return b"".join(self.blocks[block_id] for block_id in self.listed)

    async def create(self, name: str, **request: str) -> dict[str, str]:
        """Answers createArtifact."""
        assert (name, request) == ("log", {"storageType": "azure", "contentType": CONTENT_TYPE})
        self.created += 1
        return {"putUrl": f"{self.url}/blob?sig=a%2Bb", "expires": "2029-01-01T00:00:00.000Z"}

    async def put(self, request: web.Request) -> web.Response:
        """Answers Put Block and Put Block List."""
        assert request.rel_url.raw_query_string.startswith("sig=a%2Bb&")
        body = await request.read()
        status = self.fails.pop(0) if self.fails else 201
        if status not in (None, 201):
            return web.Response(status=status)
        if request.query["comp"] == "block":
            self.blocks[request.query["blockid"]] = body
            self.put_blocks += 1
        elif (ids := re.findall("<Latest>(.*?)</Latest>", body.decode())) and not set(ids) <= self.blocks.keys():
            return web.Response(status=400)
        else:
            self.listed = ids
            self.blocks = {block_id: self.blocks[block_id] for block_id in ids}  # others are dropped
            self.content_type = request.headers["x-ms-blob-content-type"]
        return web.Response(status=500 if status is None else 201)


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


@contextmanager
def stored(limit: int) -> Iterator[LogStore]:
    with tempfile.TemporaryFile() as file:
        yield LogStore(file.fileno(), limit)


@pytest.fixture
def store() -> Iterator[LogStore]:
    with stored(LIMIT) as store:
        yield store


def context(storage: Storage, session: aiohttp.ClientSession) -> Context:
    return cast(Context, SimpleNamespace(create=storage.create, session=session))


async def finish(live: LiveLog) -> None:
    """Uploads the rest."""
    await insist("storing the log", lambda: live.upload(is_over=True), TRIES)


@pytest.fixture
def live(storage: Storage, store: LogStore, session: aiohttp.ClientSession) -> LiveLog:
    return LiveLog("log", store, context(storage, session))


async def test_what_comes_is_shown_byte_by_byte_in_few_blocks(storage: Storage, store: LogStore, live: LiveLog) -> None:
    written = b""
    for number in range(20):
        piece = b"\x1b[31m%d %%\r\xff" % number
        store.write(piece)
        written += piece
        await live.upload()
        assert storage.content == written
    assert len(storage.listed) == 1
    await finish(live)
    assert storage.content == written
    assert storage.content_type == CONTENT_TYPE
    assert storage.created == 1


async def test_nothing_is_sent_when_nothing_has_come(storage: Storage, store: LogStore, live: LiveLog) -> None:
    store.say("a line")
    await live.upload()
    storage.fails = [500]
    await live.upload()
    assert storage.fails == [500]


async def test_a_log_at_its_limit_is_whole(storage: Storage, store: LogStore, live: LiveLog) -> None:
    content = b"".join(b"line %d\n" % number for number in range(10_000))[:LIMIT]
    store.write(content[: LIMIT // 2])
    await live.upload()
    store.write(content[LIMIT // 2 :])
    await finish(live)
    assert storage.content == content


async def test_a_longer_log_loses_its_middle_and_says_so(storage: Storage, store: LogStore, live: LiveLog) -> None:
    lines = [b"line %d\n" % number for number in range(10_000)]
    for line in lines:
        store.write(line)
    await live.upload()
    shown = storage.content
    assert b"".join(lines).startswith(shown)
    assert len(shown) == LIMIT * 3 // 4
    await finish(live)
    notice = rb"\n(\[taskcluster .*\] \d+ bytes of this log are left out.*)\n"
    beginning, said, end = re.split(notice, storage.content)
    assert beginning == shown
    assert b"".join(lines).endswith(b"\n" + end), "it begins with a line"
    left_out = int(re.findall(rb"\] (\d+) bytes", said)[0])
    assert len(beginning) + left_out + len(end) == len(b"".join(lines))
    assert len(end) > LIMIT // 5


@pytest.mark.parametrize("is_another", [False, True], ids=["", "another process goes on"])
async def test_lines_longer_than_any_block(storage: Storage, session: aiohttp.ClientSession, is_another: bool) -> None:
    """Full blocks are uploaded once, whoever goes on with the log."""
    with stored(4 * BLOCK) as store:
        live = LiveLog("log", store, context(storage, session))
        store.write(b"x" * (BLOCK + BLOCK // 2))
        await live.upload()
        store.write(b"y" * 8 * BLOCK)
        if is_another:
            store = LogStore(store._file, 4 * BLOCK)
            live = LiveLog("log", store, context(storage, session))
        put = storage.put_blocks
        await finish(live)
        assert storage.put_blocks - put == 2 + 1 + 1, "not the first one again"
    assert storage.content.startswith(b"x" * (BLOCK + BLOCK // 2) + b"y")
    assert b" bytes of this log are left out" in storage.content
    assert storage.content.endswith(b"y" * (BLOCK // 2))


@pytest.mark.parametrize("fails", [[500], [None], [201, 500], [201, None], [403], [201, 403], [400], [201, 400]])
async def test_failures_that_pass_lose_nothing(
    storage: Storage, store: LogStore, live: LiveLog, fails: list[int | None]
) -> None:
    for number in range(3):
        store.say(str(number))
        await live.upload()
    store.say("last")
    storage.fails = [*fails]
    await finish(live)
    assert storage.content == store.read(0, store.size)


async def test_blocks_that_are_gone_are_uploaded_again(storage: Storage, session: aiohttp.ClientSession) -> None:
    with stored(8 * BLOCK) as store:
        live = LiveLog("log", store, context(storage, session))
        store.write(b"x" * 3 * BLOCK)
        await live.upload()
        storage.blocks.clear()
        store.write(b"y")
        await finish(live)
        assert storage.content == b"x" * 3 * BLOCK + b"y"


async def test_storage_that_takes_nothing_is_given_up(storage: Storage, store: LogStore, live: LiveLog) -> None:
    store.say("a line")
    storage.fails = [500] * 10
    with pytest.raises(TROUBLE):
        await finish(live)


def test_the_store_takes_no_more_of_the_disk_than_its_limit() -> None:
    with stored(1000) as store:
        for _ in range(100):
            store.write(b"0123456789" * 7)
        assert store.size == 7000
        assert os.fstat(store._file).st_size < 1100
        assert store.read(store.size - 250, store.size) == (b"0123456789" * 7 * 100)[-250:]
        assert LogStore(store._file, 1000).size == 7000, "another process can go on"
