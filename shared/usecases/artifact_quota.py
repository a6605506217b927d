"""Limits the artifacts of a task without a counter in any row (design 2, principle 6)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from shared import remembered
from shared.domain import artifacts as rules
from shared.errors import RequestConflict
from shared.memo import Memo
from shared.storage.artifacts import ArtifactStore


class ArtifactQuota:
    """A process counts what it creates, and has all artifacts of a task counted now and then."""

    def __init__(self, artifacts: ArtifactStore, now: Callable[[], datetime]) -> None:
        self._artifacts = artifacts
        self._created: Memo[str, int] = Memo(remembered.NEW_ARTIFACTS)
        self._full: Memo[str, bool] = Memo(remembered.FULL, now)

    async def check(self, task_id: str, run_id: int, name: str) -> None:
        """Raises RequestConflict for another artifact of a task that has too many; one that exists may be repeated."""
        if (self._created.get(task_id) or 0) < rules.COUNTED_EVERY:
            return
        if task_id not in self._full:
            number = await self._artifacts.count(task_id)
            try:
                rules.check_number(number)
            except RequestConflict:
                self._full[task_id] = True
            else:
                self._created[task_id] = 0
                return
        if await self._artifacts.get(task_id, run_id, name) is None:
            rules.check_number(rules.MAX_OF_TASK)

    def add(self, task_id: str) -> None:
        """Counts a new artifact of the task."""
        self._created[task_id] = (self._created.get(task_id) or 0) + 1
