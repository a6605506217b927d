"""A provisioner that keeps the count of its pool's pending runs without polling.

Subscriptions, each with the pattern `primary.*.*.*.*.<provisionerId>.<workerType>.#`, on task-pending, task-running
and task-exception. The last one because a pending run can also be canceled, or miss its deadline.

Start reading, then ask `taskQueueCounts` once for what was there before: messages tell only of changes.
"""

from __future__ import annotations

from typing import Any

TOPICS = ("task-pending", "task-running", "task-exception")


class PendingRuns:
    """The runs that are pending, as far as messages have said: repeated and out of order, as they may come."""

    def __init__(self) -> None:
        self._pending: set[tuple[str, int]] = set()
        self._over: dict[tuple[str, int], str] = {}

    @property
    def count(self) -> int:
        return len(self._pending)

    async def handle(self, exchange: str, message: dict[str, Any]) -> None:
        run = message["status"]["taskId"], message["runId"]
        if exchange != "task-pending":
            # Remembered, since the run's own task-pending may be late.
            self._over[run] = message["status"]["expires"]
            self._pending.discard(run)
        elif run not in self._over:
            self._pending.add(run)

    def forget_before(self, moment: str) -> None:
        """Drops what is remembered of tasks that had expired by then; dates in this form compare as text."""
        self._over = {run: expires for run, expires in self._over.items() if expires >= moment}
