"""Definitions: unpacked from their rows, and kept in memory for later calls (design 2.8). A definition never changes,
so a process may keep it for as long as its task can exist."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar

from shared.base import bounds
from shared.base.concurrency import in_waves, turns
from shared.base.frozen import dataclass
from shared.base.jsontext import memory_of, read_back
from shared.base.memory import Memory, NoRoom
from shared.base.shares import OWN, RESERVED_PART, Place
from shared.queue.tasks.codec import PackedDefinition, complete, unpacked_text
from shared.queue.tasks.definition import Definition
from shared.store import keys
from shared.store.interface import Tables
from shared.store.partitions import rows_of

T = TypeVar("T")
F = TypeVar("F")
S = TypeVar("S")


class MemoryShare:
    """The memory that one call takes for the definitions that it has at a time, and its limit."""

    def __init__(self, memory: Memory, most: float = math.inf) -> None:
        """Takes the limit in bytes, which a single definition may exceed."""
        self._memory = memory
        self._most = most
        self._used = 0

    def count(self, memory: int) -> None:
        """Counts a definition of that size that needs no room, as it is small or kept. Raises NoRoom."""
        if self._used and self._used + memory > self._most:
            raise NoRoom
        self._used += memory

    async def take(self, memory: int, peak: int) -> Place:
        """Takes `peak` bytes of the room to read a definition that will then have `memory` bytes. Only the first
        definition is waited for: two calls that both wait for more would wait for each other. Raises NoRoom."""
        is_first, place = not self._used, Place(units=peak)
        self.count(memory)
        try:
            if is_first:
                await self._memory.take(place)
            elif not self._memory.try_take(place):
                raise NoRoom
        except BaseException:
            self._used -= memory
            raise
        return place


@dataclass(frozen=True, slots=True)
class Cached:
    """A definition, and the fingerprint by which a status row names it."""

    definition: Definition
    fingerprint: str
    memory: int
    """About how many bytes the definition takes."""


class Definitions:
    """Unpacks definitions, and keeps those used last, up to a total weight: about the bytes of memory that they take.

    An id may be used again once its task has expired and was deleted. So a definition is not returned after its
    expiration, half an hour before its task may be deleted. Who has read the status row compares the fingerprint."""

    memory: Memory
    """The memory budget of the process. Kept definitions that are large are dropped when calls need their room."""

    def __init__(self, tables: Tables, capacity: int, now: Callable[[], datetime]) -> None:
        self._tables = tables
        self._capacity = capacity
        self._now = now
        self._entries: OrderedDict[str, Cached] = OrderedDict()
        self._large: OrderedDict[str, None] = OrderedDict()
        self._weight = 0
        self._turns = turns(bounds.LISTS_AT_A_TIME, bounds.LISTS_WAITING)
        self.memory = Memory(capacity + bounds.IN_HAND, self._forget_large, reserve=bounds.IN_HAND // RESERVED_PART)

    def share(self, most: float = math.inf) -> MemoryShare:
        """Returns the memory that one call may take for the definitions that it has at a time: `most` bytes."""
        return MemoryShare(self.memory, most)

    async def unpack(
        self, task_id: str, packed: PackedDefinition, share: MemoryShare | None = None, *, keep: bool = True
    ) -> Definition:
        """Unpacks a definition, and keeps it for later calls if `keep`. A definition of several rows takes a request,
        once there is room for it. Raises NoRoom, StorageUnavailable."""
        share = share or self.share()
        if packed.memory < bounds.SMALL_DEFINITION:
            share.count(packed.memory)
            return await self._read_definition(task_id, packed, keep=keep)
        place = await share.take(packed.memory, 2 * packed.memory)
        try:
            kept = self.kept_definition(task_id)  # another call may have read it while this one waited
            if kept is not None and kept.fingerprint == packed.fingerprint:
                return kept.definition
            definition = await self._read_definition(task_id, packed, keep=keep)
            self.memory.shrink(place, packed.memory)
            self.memory.free_with(definition, place)
            return definition
        finally:
            self.memory.leave(place)

    async def fill(
        self,
        items: Sequence[S],
        find: Callable[[S], Awaitable[F | None]],
        unpack: Callable[[F, MemoryShare], Awaitable[T | None]],
    ) -> tuple[list[T], int | None]:
        """Reads definitions in order, until the answer has as many bytes as it may have. Returns the results of
        `unpack` for what `find` finds, without the Nones, and the index of the first item for which there was no room.

        It waits for its turn. The caller must have read the page's rows before: reading a slow group or pool must not
        block a turn that others wait for. A single item is returned however large it is. Raises NoRoom when there is no
        room for that, ServiceUnavailable when too many wait."""
        filled: list[T] = []
        async with self._turns.hold():
            share = self.share(bounds.DEFINITIONS_IN_ANSWER)
            for start in range(0, len(items), bounds.TASKS_AT_A_TIME):
                wave = items[start : start + bounds.TASKS_AT_A_TIME]
                for index, found in enumerate(await in_waves(bounds.TASKS_AT_A_TIME, find, wave), start):
                    if found is None:
                        continue
                    try:
                        unpacked = await unpack(found, share)
                    except NoRoom:
                        if not filled:
                            raise
                        return filled, index
                    if unpacked is not None:
                        filled.append(unpacked)
        return filled, None

    def keep(self, definition: Definition, packed: PackedDefinition) -> None:
        """Keeps the definition of a new task, whose claim may follow at once, if there is room for it."""
        if packed.memory >= bounds.SMALL_DEFINITION:
            place = Place(units=packed.memory, share=OWN)
            if not self.memory.try_take(place):
                return
            self.memory.free_with(definition, place)
        self.remember(definition, packed.fingerprint, packed.memory)

    async def _read_definition(self, task_id: str, packed: PackedDefinition, *, keep: bool) -> Definition:
        whole = packed
        if packed.whole is not None:
            start, end = keys.REST_OF_DEFINITION
            pages = rows_of(self._tables, keys.TASKS, task_id, start=start, end=end)
            whole = complete(packed, [row async for page in pages for row in page])
        text = await unpacked_text(whole)
        definition = Definition(task_id=task_id, body=read_back(text))
        if keep:
            self.remember(definition, packed.fingerprint, memory_of(text))
        return definition

    def kept_definition(self, task_id: str) -> Cached | None:
        """Returns the definition of a task that has not expired."""
        entry = self._entries.get(task_id)
        if entry is None:
            return None
        if entry.definition.expires <= self._now():
            self.forget(task_id)
            return None
        self._entries.move_to_end(task_id)
        if task_id in self._large:
            self._large.move_to_end(task_id)
        return entry

    def remember(self, definition: Definition, fingerprint: str, weight: int) -> None:
        """Remembers a definition, and forgets those that were not used for longest if it gets too much. The caller has
        taken room for a large one before."""
        self.forget(definition.task_id)
        self._entries[definition.task_id] = Cached(definition, fingerprint, weight)
        self._weight += weight
        if weight >= bounds.SMALL_DEFINITION:
            self._large[definition.task_id] = None
        while self._weight > self._capacity and self._entries:
            self.forget(next(iter(self._entries)))

    def forget(self, task_id: str) -> None:
        """Drops the definition of a task that was deleted, or whose id is used by a new task."""
        entry = self._entries.pop(task_id, None)
        self._large.pop(task_id, None)
        if entry is not None:
            self._weight -= entry.memory

    def _forget_large(self) -> bool:
        """Forgets the large definition that was not used for longest; returns whether there was one."""
        if self._large:
            self.forget(next(iter(self._large)))
            return True
        return False
