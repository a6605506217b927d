"""The task graphs of a chaos run: chains, diamonds, fan-outs and fan-ins, each a task group of its own."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.base.dates import format_date
from shared.base.priority import PRIORITIES

TASK_QUEUE_ID = "chaos/linux"
CHAIN = 5
FAN = 8
RETRIES = 40
"""Runs that one task can lose to kills; the run ends with a failure only if a task uses them all."""


@dataclass(frozen=True)
class Planned:
    """One task of a graph, after all tasks that it depends on."""

    task_id: str
    task_group_id: str
    dependencies: tuple[str, ...]

    @property
    def path(self) -> str:
        """Path at which the index has the task once it has completed."""
        return f"chaos.{self.task_group_id}.{self.task_id}"


def plan(count: int, new_id: Callable[[], str]) -> list[Planned]:
    """Graphs of `count` tasks in all; the last one may be cut short."""
    planned: list[Planned] = []
    shapes = (_chain, _diamond, _fan)
    while len(planned) < count:
        links = shapes[len({one.task_group_id for one in planned}) % len(shapes)]()
        ids = [new_id() for _ in links]
        group = new_id()
        planned += [
            Planned(task_id, group, tuple(ids[index] for index in indices))
            for task_id, indices in zip(ids, links, strict=True)
        ]
    return planned[:count]


def definition(
    task: Planned, *, now: datetime, life: timedelta, command: Sequence[str], chance: random.Random
) -> dict[str, Any]:
    """Returns the body of createTask. Every fourth task is of the highest priority, so that bands compete."""
    return {
        "taskQueueId": TASK_QUEUE_ID,
        "taskGroupId": task.task_group_id,
        "schedulerId": "chaos",
        "dependencies": list(task.dependencies),
        "priority": chance.choice((PRIORITIES[0], "lowest", "low", "medium")),
        "retries": RETRIES,
        "routes": [f"index.{task.path}"],
        "created": format_date(now),
        "deadline": format_date(now + life),
        "payload": {"command": list(command), "maxRunTime": 60},
        "metadata": {
            "name": "chaos",
            "description": "A task of a chaos run",
            "owner": "chaos@example.com",
            "source": "https://example.com/",
        },
    }


def _chain() -> list[tuple[int, ...]]:
    return [(), *((index,) for index in range(CHAIN - 1))]


def _diamond() -> list[tuple[int, ...]]:
    return [(), (0,), (0,), (0,), (1, 2, 3)]


def _fan() -> list[tuple[int, ...]]:
    """Returns one task that many wait for, and one that waits for all of those."""
    return [(), *((0,) for _ in range(FAN)), tuple(range(1, FAN + 1))]
