"""A scheduler that keeps its own graph: a task is scheduled when the tasks that it needs have completed.

Subscription on task-completed with the pattern `primary.*.*.*.*.*.*.<schedulerId>.#`. (The queue does this by itself
for `dependencies`; a scheduler of one's own is for rules that the queue does not have.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

Schedule = Callable[[str], Awaitable[None]]
"""Calls scheduleTask, which may be called again for a task that is scheduled already."""


class Graph:
    """The tasks by what they need. After a restart, hand over the completed ones again (listTaskGroup lists them)."""

    def __init__(self, needs: Mapping[str, Iterable[str]], schedule: Schedule) -> None:
        self._needs = {task_id: frozenset(needed) for task_id, needed in needs.items()}
        self._schedule = schedule
        self._completed: set[str] = set()

    async def handle(self, exchange: str, message: dict[str, Any]) -> None:
        """A task has completed; a repeat of the message repeats the calls, so none is lost half-way."""
        completed = message["status"]["taskId"]
        self._completed.add(completed)
        for task_id, needed in self._needs.items():
            if completed in needed and needed <= self._completed:
                await self._schedule(task_id)
