"""A monitor: how runs end, how long they waited and how long they ran, by pool.

Subscriptions without a pattern on task-completed, task-failed and task-exception.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from docs.examples.consume import consume
from docs.examples.program import parser, run, subscribed, until_interrupted

TOPICS = ("task-completed", "task-failed", "task-exception")


@dataclass
class Pool:
    """Sums over the runs that have ended."""

    outcomes: Counter[str] = field(default_factory=Counter)
    waited: float = 0.0
    ran: float = 0.0

    def __str__(self) -> str:
        outcomes = ", ".join(f"{number} {reason}" for reason, number in sorted(self.outcomes.items()))
        return f"{outcomes}; waited {self.waited:.1f} s and ran {self.ran:.1f} s in all"


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


async def main() -> None:
    """Prints the sums of a pool whenever one of its runs has ended."""
    parser(__doc__).parse_args()
    statistics = Statistics()

    async def handle(exchange: str, message: dict[str, Any]) -> None:
        await statistics.handle(exchange, message)
        pool = message["status"]["taskQueueId"]
        print(f"{pool}: {statistics.pools[pool]}", flush=True)

    async with subscribed({key: ["#"] for key in TOPICS}) as (client, subscriptions):
        await until_interrupted(consume(client, subscriptions, handle))


if __name__ == "__main__":
    run(main())
