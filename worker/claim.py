"""A claim: the right to run a task until takenUntil, renewed for as long as the run takes (contract 5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from worker.queue import REFUSED, Json, Queue, insist

log = logging.getLogger("worker")

MARGIN = timedelta(minutes=3)
"""A claim is renewed so long before takenUntil at most: time for retries, and for clocks that differ."""


class Claim:
    """A run that this worker holds."""

    def __init__(self, claimed: Json, connect: Callable[[Mapping[str, str]], Queue]) -> None:
        """`claimed` is one element of claimWork's answer; `connect` makes a client from credentials."""
        self.definition: Json = claimed["task"]
        self.task_id: str = claimed["status"]["taskId"]
        self.run_id: int = claimed["runId"]
        self._connect = connect
        self._renewed(claimed)

    def __str__(self) -> str:
        return f"{self.task_id}/{self.run_id}"

    @property
    def queue(self) -> Queue:
        """A client with the latest credentials of the claim: the older ones expire."""
        return self._queue

    async def keep(self) -> str:
        """Renews the claim again and again. Returns only when the run is not this worker's any more, and says why."""
        deadline = _moment(self.definition["deadline"])
        while True:
            await _sleep_until(min(renewal_due(self._taken_until, _now()), deadline))
            if _now() >= deadline:
                return "the deadline has passed"
            try:
                async with asyncio.timeout((self._taken_until - _now()).total_seconds()):
                    self._renewed(await insist(lambda: self._queue.reclaimTask(self.task_id, self.run_id)))
            except TimeoutError:
                return "it could not be renewed in time"
            except REFUSED as refused:
                return f"the queue does not renew it ({refused.status_code})"
            log.info("%s: renewed until %s", self, self._taken_until)

    def _renewed(self, answer: Json) -> None:
        self._taken_until = _moment(answer["takenUntil"])
        self._queue = self._connect(answer["credentials"])


def renewal_due(taken_until: datetime, now: datetime) -> datetime:
    """When a claim is to be renewed: some minutes before its end, or after two thirds of what is left of it."""
    return taken_until - min(MARGIN, (taken_until - now) / 3)


def _now() -> datetime:
    return datetime.now(UTC)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def _sleep_until(moment: datetime) -> None:
    await asyncio.sleep(max(0, (moment - _now()).total_seconds()))
