"""Definitions never change, so a process may keep them (design 2.8)."""

from __future__ import annotations

from collections import OrderedDict

from shared.domain.definition import Definition


class DefinitionCache:
    """The definitions used last, up to a total weight in bytes (of their packed form)."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[str, tuple[Definition, int]] = OrderedDict()
        self._weight = 0

    def get(self, task_id: str) -> Definition | None:
        entry = self._entries.get(task_id)
        if entry is None:
            return None
        self._entries.move_to_end(task_id)
        return entry[0]

    def put(self, definition: Definition, weight: int) -> None:
        self.forget(definition.task_id)
        self._entries[definition.task_id] = (definition, weight)
        self._weight += weight
        while self._weight > self._capacity and self._entries:
            self.forget(next(iter(self._entries)))

    def forget(self, task_id: str) -> None:
        """For a task that has expired and whose id may come back."""
        entry = self._entries.pop(task_id, None)
        if entry is not None:
            self._weight -= entry[1]
