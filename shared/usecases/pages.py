"""Pages of tasks with their definitions: as many as fit into one answer, and few at a time (design 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shared.concurrency import in_waves
from shared.domain.definition import Definition, Json
from shared.domain.priority import Priority
from shared.storage.definitions import MOST_IN_ANSWER, NoRoom, Share
from shared.storage.tasks import Loaded, TaskStore

READS = 32
"""Tasks read in parallel."""
AT_ONCE = 4
"""Pages that a process reads at a time. Each has up to a megabyte of rows in memory; more pages are no faster."""

T = TypeVar("T")
F = TypeVar("F")
S = TypeVar("S")


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A task in an answer with others. It has the definition itself, whose room is free when nothing refers to it."""

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
        self.turn = asyncio.Semaphore(AT_ONCE)
        """To be held from reading a page's rows to having its definitions."""

    async def fill(
        self,
        items: Sequence[S],
        find: Callable[[S], Awaitable[F | None]],
        unpack: Callable[[F, Share], Awaitable[T | None]],
    ) -> tuple[list[T], int | None]:
        """What `unpack` makes of what `find` finds, without the Nones, and which item was the first without room.

        One is answered however large it is. Raises NoRoom when there is no room for that.
        """
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
