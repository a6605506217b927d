"""The log of a run: on the worker's disk, its beginning and its end, and from there on its way into its artifact.

The artifact has the type `azure`: createArtifact answers a URL that allows Put Block and Put Block List. Full blocks
are uploaded once, the last one again whenever it has grown; a new list of all blocks makes what has come readable.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import itertools
import os
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import quote

from yarl import URL

from worker.context import NEVER, REFUSED, TROUBLE, Context, use_until
from worker.text import lines, log, shown

CONTENT_TYPE = "text/plain; charset=utf-8"
BLOCK = 512 << 10
"""Bytes of a full block."""

_HEAD = struct.Struct("<qq")
"""What the file begins with: the length of the log, and how many of its full blocks are uploaded."""


class LogStore:
    """Bytes as they come, in a file with which another process can go on. Of a log beyond the limit the middle is
    dropped: three quarters of the limit are its beginning, one is its end."""

    def __init__(self, file: int, limit: int) -> None:
        """`file`: its descriptor. `limit`: bytes that are kept at most."""
        self._file = file
        self._tail = max(1, limit // 4)
        self.head = max(0, limit - self._tail)
        """Bytes at the beginning that are kept for certain."""
        self.size, self.blocks = map(int, _HEAD.unpack(os.pread(file, _HEAD.size, 0) or bytes(_HEAD.size)))
        """Bytes that were written, kept or not; full blocks that are uploaded."""

    def write(self, data: bytes) -> None:
        """Adds bytes. Raises OSError."""
        while data:
            place, room = self._place(self.size)
            count = os.pwrite(self._file, data[:room], place)
            self.size += count
            data = data[count:]
        self.note(self.blocks)

    def note(self, blocks: int) -> None:
        """Notes how many full blocks are uploaded."""
        self.blocks = blocks
        os.pwrite(self._file, _HEAD.pack(self.size, blocks), 0)

    def say(self, text: str) -> None:
        """Adds lines of the worker's own, where there is room. Everybody who may read the log may read them."""
        with contextlib.suppress(OSError):
            self.write(said(text))

    def read(self, start: int, end: int) -> bytes:
        """Returns bytes by their positions in the whole log; both must be in what is kept."""
        found = b""
        while start + len(found) < end:
            place, room = self._place(start + len(found))
            found += os.pread(self._file, min(room, end - start - len(found)), place)
        return found

    def blocks_of(self, start: int, end: int) -> Iterator[bytes]:
        """Returns what is between two positions, in blocks."""
        return (self.read(each, min(each + BLOCK, end)) for each in range(start, end, BLOCK))

    def end(self) -> int:
        """Returns where the end begins that is kept: at `head`, or at the start of a line if the log is too long."""
        start = max(self.head, self.size - self._tail)
        return start if start == self.head else start + self.read(start, min(start + BLOCK, self.size)).find(b"\n") + 1

    def _place(self, position: int) -> tuple[int, int]:
        """Returns where in the file a byte of the log is, and how many follow it there."""
        if position < self.head:
            return _HEAD.size + position, self.head - position
        offset = (position - self.head) % self._tail
        return _HEAD.size + self.head + offset, self._tail - offset


def said(text: str) -> bytes:
    """Returns a text as lines of the worker's own, with the time."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return "".join(f"[taskcluster {now}] {line}\n" for line in lines(text)).encode(errors="replace")


class LiveLog:
    """One log on its way to its artifact."""

    def __init__(self, name: str, store: LogStore, task: Context) -> None:
        self._store = store
        self._task = task
        self._name = name
        self._readable = -1
        """Bytes that can be read by now."""
        self._url, self._use_until = "", NEVER

    async def stream(self, pause: float) -> None:
        """Uploads what has come, again and again, until cancelled; what failed is tried again the next time."""
        while True:
            await asyncio.sleep(pause)
            try:
                await self.upload()
            except (*REFUSED, *TROUBLE) as problem:
                log.warning("the log is not shown yet: %s", shown(problem))

    async def upload(self, *, is_over: bool = False) -> None:
        """Uploads what was added to the part of the log that is certainly kept; the rest when the log is over. Raises
        REFUSED, TROUBLE."""
        store, kept = self._store, min(self._store.size, self._store.head)
        if kept == self._readable and not (is_over and store.size > kept):
            return
        contents, count = store.blocks_of(store.blocks * BLOCK, kept), store.blocks
        if is_over and store.size > kept:
            end = store.end()
            notice = b"\n" + said(f"{end - kept} bytes of this log are left out here: it is too long.")
            contents = itertools.chain(contents, [notice] * (end > kept), store.blocks_of(end, store.size))
        for content in contents:
            await self._send(f"comp=block&blockid={quote(_id(count), safe='')}", content, {})
            count += 1
            if count * BLOCK <= kept:
                store.note(count)
        listed = "".join(f"<Latest>{_id(number)}</Latest>" for number in range(count))
        document = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{listed}</BlockList>'
        headers = {"x-ms-blob-content-type": CONTENT_TYPE, "x-ms-blob-content-disposition": "inline"}
        await self._send("comp=blocklist", document.encode(), headers)
        self._readable = kept

    async def _send(self, query: str, content: bytes, headers: dict[str, str]) -> None:
        if datetime.now(UTC) >= self._use_until:
            answer = await self._task.create(self._name, storageType="azure", contentType=CONTENT_TYPE)
            self._url, self._use_until = answer["putUrl"], use_until(answer["expires"])
        url, data, skipped = URL(f"{self._url}&{query}", encoded=True), io.BytesIO(content), ("Content-Type",)
        async with self._task.session.put(url, data=data, headers=headers, skip_auto_headers=skipped) as answer:
            if answer.status == HTTPStatus.FORBIDDEN:  # the URL ended early: a key may have been replaced
                self._use_until = NEVER
            if answer.status == HTTPStatus.BAD_REQUEST:  # blocks are gone that were thought to be there
                self._store.note(0)
            answer.raise_for_status()


def _id(number: int) -> str:
    return base64.b64encode(b"%08d" % number).decode()
