"""Limits the artifacts of a task without a counter in any row (design 2, principle 6)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from shared.domain import artifacts as rules
from shared.errors import RequestConflict
from shared.recent import Recent
from shared.storage.artifacts import ArtifactStore

_TASKS = 10_000
"""Tasks whose new artifacts a process keeps count of; the one that it saw least recently goes."""
_FULL_FOR = timedelta(minutes=1)
"""For so long a process remembers that a task is full, so that refusals are cheap."""


class ArtifactQuota:
    """A process counts what it creates, and has all artifacts of a task counted now and then."""

    def __init__(self, artifacts: ArtifactStore, now: Callable[[], datetime]) -> None:
        self._artifacts = artifacts
        self._now = now
        self._created: Recent[str, int] = Recent(_TASKS)
        self._full: Recent[str, datetime] = Recent(_TASKS)

    async def check(self, task_id: str, run_id: int, name: str) -> None:
        """Raises RequestConflict for another artifact of a task that has too many; one that exists may be repeated."""
        if (self._created.get(task_id) or 0) < rules.COUNTED_EVERY:
            return
        full_until = self._full.get(task_id)
        if full_until is None or full_until <= self._now():
            self._full.pop(task_id)
            number = await self._artifacts.count(task_id)
            try:
                rules.check_number(number)
            except RequestConflict:
                self._full[task_id] = self._now() + _FULL_FOR
            else:
                self._created[task_id] = 0
                return
        if await self._artifacts.get(task_id, run_id, name) is None:
            rules.check_number(rules.MAX_OF_TASK)

    def add(self, task_id: str) -> None:
        """Counts a new artifact of the task."""
        self._created[task_id] = (self._created.get(task_id) or 0) + 1
