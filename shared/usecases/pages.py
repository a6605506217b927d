"""Reading by a list, for few callers at a time (design 12): pages of tasks with their definitions, and lookups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from shared.concurrency import TOO_MANY_LISTS, Turns, in_waves
from shared.domain.definition import Definition, Json
from shared.domain.priority import Priority
from shared.errors import ServiceUnavailable
from shared.frozen import dataclass
from shared.storage.definitions import MOST_IN_ANSWER, NoRoom, Share
from shared.storage.tasks import Loaded, TaskStore

READS = 32
"""Tasks read in parallel."""
AT_ONCE = 4
"""Pages whose definitions a process reads at a time; more are no faster."""
MOST_WAITING = 24
"""Pages that wait for that. Each has up to a megabyte of rows in memory."""
LOOKED_UP_AT_ONCE = 64
"""What a process reads at a time for all lookups together."""
MOST_LOOKUPS = 28
"""Lookups under way; with pages and sign-ins fewer than the calls from which on long polls have to end."""

T = TypeVar("T")
F = TypeVar("F")
S = TypeVar("S")


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A task in an answer with others.

    Holds the definition directly: its memory is released when this object is garbage-collected.
    """

    definition: Definition
    priority: Priority
    status: Json

    @classmethod
    def of(cls, loaded: Loaded) -> Listed:
        """A task as it is now."""
        return cls(definition=loaded.definition, priority=loaded.task.priority, status=loaded.task.as_json())

    @property
    def task(self) -> Json:
        """The definition, with the priority that the task has by now."""
        return self.definition.at_priority(self.priority)


class Pages:
    """Reads definitions in order, until the answer has as many bytes as it may have."""

    def __init__(self, tasks: TaskStore) -> None:
        self._tasks = tasks
        self._turns = Turns(AT_ONCE, MOST_WAITING)

    async def fill(
        self,
        items: Sequence[S],
        find: Callable[[S], Awaitable[F | None]],
        unpack: Callable[[F, Share], Awaitable[T | None]],
    ) -> tuple[list[T], int | None]:
        """What `unpack` makes of what `find` finds, without the Nones, and which item was the first without room.

        It waits for its turn. So the caller has the page's rows by now: a group or pool that cannot be read must not
        hold a turn that others wait for. One is answered however large it is. Raises NoRoom when there is no room for
        that, ServiceUnavailable when too many wait.
        """
        async with self._turns.turn():
            return await self._filled(items, find, unpack)

    async def _filled(
        self,
        items: Sequence[S],
        find: Callable[[S], Awaitable[F | None]],
        unpack: Callable[[F, Share], Awaitable[T | None]],
    ) -> tuple[list[T], int | None]:
        share = self._tasks.definitions.share(MOST_IN_ANSWER)
        filled: list[T] = []
        for start in range(0, len(items), READS):
            wave = items[start : start + READS]
            for index, found in enumerate(await in_waves(READS, find, wave), start):
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


class Lookups:
    """Reads something small for each of a list.

    All lists share the reads that may be under way, so that one with something that cannot be read holds up no other.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._reads = asyncio.Semaphore(LOOKED_UP_AT_ONCE)

    async def each(self, find: Callable[[S], Awaitable[T]], items: Iterable[S]) -> list[T]:
        """What `find` finds for each item. Raises what it raises, ServiceUnavailable when too many lists are read."""

        async def found(item: S) -> T:
            async with self._reads:
                return await find(item)

        if self._calls >= MOST_LOOKUPS:
            raise ServiceUnavailable(TOO_MANY_LISTS)
        self._calls += 1
        try:
            return await in_waves(READS, found, items)
        finally:
            self._calls -= 1
