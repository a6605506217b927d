"""A monitor: how runs end, how long they waited and how long they ran, by pool.

Subscriptions without a pattern on task-completed, task-failed and task-exception.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

TOPICS = ("task-completed", "task-failed", "task-exception")


@dataclass
class Pool:
    """Sums over the runs that have ended."""

    outcomes: Counter[str] = field(default_factory=Counter)
    waited: float = 0.0
    ran: float = 0.0


class Statistics:
    """Counts each run once, however often its message comes."""

    def __init__(self) -> None:
        self.pools: dict[str, Pool] = {}
        self._seen: set[tuple[str, int]] = set()

    async def handle(self, exchange: str, message: dict[str, Any]) -> None:
        status, run_id = message["status"], message["runId"]
        if (status["taskId"], run_id) in self._seen:
            return
        self._seen.add((status["taskId"], run_id))
        run = status["runs"][run_id]
        pool = self.pools.setdefault(status["taskQueueId"], Pool())
        pool.outcomes[run["reasonResolved"]] += 1
        if "started" in run:
            pool.waited += _seconds(run["scheduled"], run["started"])
            pool.ran += _seconds(run["started"], run["resolved"])


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
