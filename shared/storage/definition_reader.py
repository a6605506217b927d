"""Reads definitions from their stored form: unpacked, from a blob if they did not fit into the row (design 3)."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace

from shared.domain.definition import Definition
from shared.domain.task import Task
from shared.jsontext import memory_of, read_back
from shared.storage import keys
from shared.storage.codec import PackedDefinition, unpacked_text
from shared.storage.definitions import LARGE, DefinitionCache, Share
from shared.storage.interface import BlobMissing, Blobs


class DefinitionReader:
    """Unpacks definitions, and keeps those that later calls are likely to ask for."""

    def __init__(self, blobs: Blobs, cache: DefinitionCache, status: Callable[[str], Awaitable[Task | None]]) -> None:
        """`status` reads a task's status row: without one, the task was deleted."""
        self._blobs = blobs
        self._cache = cache
        self._status = status

    def share(self, most: float = math.inf) -> Share:
        """Bytes of memory that one call may take for the definitions that it has at a time."""
        return Share(self._cache.room, most)

    async def spill(self, path: str, content: bytes) -> None:
        """Writes a definition that does not fit into a row to its blob, ahead of the commit."""
        await self._blobs.upload(keys.DEFINITIONS, path, content, content_type="application/zlib")

    async def unpack(
        self, task_id: str, packed: PackedDefinition, share: Share | None = None, *, keep: bool = True
    ) -> Definition | None:
        """A definition as stored, which is kept for later calls if `keep`.

        None for a task that was deleted between the reads of its row and its blob. Raises NoRoom.
        """
        share = share or self.share()
        if packed.memory < LARGE:
            share.count(packed.memory)
            return await self._read(task_id, packed, keep=keep)
        room, peak = self._cache.room, 2 * packed.memory
        await share.take(packed.memory, peak)
        try:
            kept = self._cache.get(task_id)  # another call may have read it while this one waited
            if kept is not None and kept.fingerprint == packed.fingerprint:
                room.free(peak)
                return kept.definition
            definition = await self._read(task_id, packed, keep=keep)
        except BaseException:
            room.free(peak)
            raise
        if definition is None:
            room.free(peak)
        else:
            room.free(peak - packed.memory)
            room.free_with(definition, packed.memory)
        return definition

    def keep(self, definition: Definition, packed: PackedDefinition) -> None:
        """Keeps the definition of a new task, whose claim may follow at once, if there is room for it."""
        if packed.memory >= LARGE:
            if not self._cache.room.try_take(packed.memory):
                return
            self._cache.room.free_with(definition, packed.memory)
        self._cache.put(definition, packed.fingerprint, packed.memory)

    async def _read(self, task_id: str, packed: PackedDefinition, *, keep: bool) -> Definition | None:
        content = packed
        if packed.spilled_to is not None:
            try:
                content = replace(packed, content=await self._blobs.download(keys.DEFINITIONS, packed.spilled_to))
            except BlobMissing:
                if await self._status(task_id) is None:
                    return None
                raise
        text = await unpacked_text(content)
        definition = Definition(task_id=task_id, body=read_back(text))
        if keep:
            self._cache.put(definition, packed.fingerprint, memory_of(text))
        return definition
