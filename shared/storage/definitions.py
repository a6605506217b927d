"""Definitions never change, so a process may keep them (design 2.8), for as long as their task can be there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from shared.domain.definition import Definition


@dataclass(frozen=True, slots=True)
class Cached:
    """A definition, and the fingerprint by which a status row names it."""

    definition: Definition
    fingerprint: str


class DefinitionCache:
    """The definitions used last, up to a total weight: about the bytes of memory that they take.

    An id may be used again once its task has expired and was deleted. So a definition is of no use after its
    expiration, which is half an hour before the expiry job may delete the task; and who has read the task's status
    row compares the fingerprint.
    """

    def __init__(self, capacity: int, now: Callable[[], datetime]) -> None:
        self._capacity = capacity
        self._now = now
        self._entries: OrderedDict[str, tuple[Cached, int]] = OrderedDict()
        self._weight = 0

    def get(self, task_id: str) -> Cached | None:
        """The definition of a task that has not expired."""
        entry = self._entries.get(task_id)
        if entry is None:
            return None
        if entry[0].definition.expires <= self._now():
            self.forget(task_id)
            return None
        self._entries.move_to_end(task_id)
        return entry[0]

    def put(self, definition: Definition, fingerprint: str, weight: int) -> None:
        """Remembers a definition, and forgets those that were not used for longest if it gets too much."""
        self.forget(definition.task_id)
        self._entries[definition.task_id] = (Cached(definition, fingerprint), weight)
        self._weight += weight
        while self._weight > self._capacity and self._entries:
            self.forget(next(iter(self._entries)))

    def forget(self, task_id: str) -> None:
        """For a task that is gone, or is another one by now."""
        entry = self._entries.pop(task_id, None)
        if entry is not None:
            self._weight -= entry[1]
