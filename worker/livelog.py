"""Uploads a log while it grows: an artifact of the type `azure`, whose blob the worker writes block by block.

createArtifact answers a URL that allows Put Block and Put Block List. Each new piece becomes a block, and a new list of
all blocks makes it readable. Sixteen small blocks are replaced by one, sixteen of those again, so that the list stays
short.
"""

from __future__ import annotations

import asyncio
import base64
import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import quote

import aiohttp
from yarl import URL

from worker.claim import Claim
from worker.hiding import shown
from worker.logstore import LogStore
from worker.queue import REFUSED, TROUBLE

log = logging.getLogger("worker")

CONTENT_TYPE = "text/plain; charset=utf-8"
BLOCK = 4 << 20
"""Most bytes of a block that is uploaded at once."""
MERGED = 16
"""Number of blocks of one level that are merged into a block of the next level."""
LEVELS = 4
FRESH = 0.75
"""Share of its life for which a URL is used."""
REQUEST_SECONDS = 60
TRIES = 6


class NotStored(Exception):
    """The storage did not take a part of the log."""


@dataclass(frozen=True)
class _Block:
    id: str
    start: int
    end: int
    level: int = 0


class LiveLog:
    """One log on its way to its artifact."""

    def __init__(self, name: str, store: LogStore, claim: Claim, session: aiohttp.ClientSession) -> None:
        self._name = name
        self._store = store
        self._claim = claim
        self._session = session
        self._blocks: list[_Block] = []
        self._count = 0
        self._url = ""
        self._use_until = datetime.min.replace(tzinfo=UTC)

    async def stream(self, pause: float) -> None:
        """Uploads what has come, again and again, until cancelled; what failed is tried again the next time."""
        while True:
            await asyncio.sleep(pause)
            try:
                await self._append()
            except (NotStored, *TROUBLE, *REFUSED) as problem:
                log.warning("%s: the log is not shown yet: %s", self._claim, shown(problem))

    async def finish(self) -> bool:
        """Uploads the rest; returns whether that worked. It raises nothing, since no task fails because of its log."""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(2**attempt / 4)
            try:
                await self._append()
                await self._add_end()
            except REFUSED as refused:
                log.warning("%s: the queue does not take the log: %s", self._claim, shown(refused))
                return False
            except (NotStored, *TROUBLE) as problem:
                log.warning("%s: the log is not stored: %s", self._claim, shown(problem))
            else:
                return True
        return False

    async def _append(self) -> None:
        """Uploads what was added since the last time to the part of the log that is certainly kept."""
        end = min(self._store.size, self._store.head)
        shown = self._blocks[-1].end if self._blocks else 0
        if end == shown and self._blocks:
            return
        blocks = list(self._blocks)
        for start in range(shown, end, BLOCK):
            blocks.append(await self._put(start, min(start + BLOCK, end)))
            blocks = await self._merged(blocks)
        await self._commit(blocks)
        self._blocks = blocks

    async def _merged(self, blocks: list[_Block]) -> list[_Block]:
        """The list of blocks; the last ones are merged into one if there are enough of the same level."""
        last = blocks[-MERGED:]
        level = last[-1].level
        if level == LEVELS or len(last) < MERGED or any(block.level != level for block in last):
            return blocks
        size = last[-1].end - last[0].start
        if size > BLOCK:
            merged = [_Block(block.id, block.start, block.end, LEVELS) for block in last]
        else:
            merged = [await self._put(last[0].start, last[-1].end, level + 1)]
        return await self._merged([*blocks[:-MERGED], *merged])

    async def _add_end(self) -> None:
        """What follows the part that is kept for certain; a notice where something is missing."""
        store = self._store
        if store.size <= store.head:
            return
        rest = []
        if store.resumes > store.head:
            rest.append(await self._put_bytes(store.notice))
        for start in range(store.resumes, store.size, BLOCK):
            rest.append((await self._put(start, min(start + BLOCK, store.size))).id)
        await self._commit(self._blocks, rest)

    async def _put(self, start: int, end: int, level: int = 0) -> _Block:
        return _Block(await self._put_bytes(self._store.read(start, end)), start, end, level)

    async def _put_bytes(self, content: bytes) -> str:
        self._count += 1
        block_id = base64.b64encode(b"%08d" % self._count).decode()
        await self._send(f"comp=block&blockid={quote(block_id, safe='')}", content, {})
        return block_id

    async def _commit(self, blocks: Sequence[_Block], rest: Sequence[str] = ()) -> None:
        ids = [*(block.id for block in blocks), *rest]
        listed = "".join(f"<Latest>{block_id}</Latest>" for block_id in ids)
        document = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{listed}</BlockList>'
        headers = {"x-ms-blob-content-type": CONTENT_TYPE, "x-ms-blob-content-disposition": "inline"}
        await self._send("comp=blocklist", document.encode(), headers)

    async def _send(self, query: str, content: bytes, headers: dict[str, str]) -> None:
        """Raises NotStored, or what createArtifact does."""
        if datetime.now(UTC) >= self._use_until:
            await self._renew_url()
        async with self._session.put(
            URL(f"{self._url}&{query}", encoded=True),
            data=io.BytesIO(content),
            headers=headers,
            skip_auto_headers=("Content-Type",),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        ) as answer:
            if answer.status == HTTPStatus.FORBIDDEN:  # the URL ended early: a key may have been replaced
                self._use_until = datetime.min.replace(tzinfo=UTC)
            if answer.status == HTTPStatus.BAD_REQUEST:
                # An earlier list may have been committed although its answer was lost. That has dropped the blocks not
                # in it.
                self._blocks = []
            if not answer.ok:
                raise NotStored(f"the storage answered {answer.status}")

    async def _renew_url(self) -> None:
        claim, asked = self._claim, datetime.now(UTC)
        request = {"storageType": "azure", "contentType": CONTENT_TYPE, "expires": claim.definition["expires"]}
        answer = await claim.queue.createArtifact(claim.task_id, claim.run_id, self._name, request)
        self._url = answer["putUrl"]
        self._use_until = asked + (datetime.fromisoformat(answer["expires"]) - asked) * FRESH
