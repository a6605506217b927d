"""Claims by claimWork alone: the simple way. The queue looks for work, and returns after 20 s if there is none.

It returns earlier without a claim when there is work: that goes to those who call then.
"""

from __future__ import annotations

import random
import time

from worker.options import Options
from worker.queue import Advice, Json, Queue

SHORT = 1.0
"""Seconds from one call to the next at least, where the queue asks for no longer pause."""


class ClaimWork:
    """A source of claims."""

    def __init__(self, queue: Queue, advice: Advice, options: Options) -> None:
        self._queue = queue
        self._advice = advice
        self._options = options
        self._called = 0.0

    async def claims(self, count: int) -> list[Json]:
        """One long poll."""
        request = {
            "workerGroup": self._options.worker_group,
            "workerId": self._options.worker_id,
            "tasks": count,
        }
        self._called = time.monotonic()
        answer = await self._queue.claimWork(self._options.task_queue_id, request)
        claims: list[Json] = answer["tasks"]
        return claims

    def pause(self) -> float:
        """Seconds: 0 after a long wait, or as many as the queue advises. With jitter, so that workers do not call all
        at once."""
        waited = time.monotonic() - self._called
        return max(SHORT - waited, self._advice.take()) * random.uniform(0.5, 1)  # noqa: S311 - jitter
