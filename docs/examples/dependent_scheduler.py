"""A scheduler that keeps its own graph: a task is scheduled when the tasks that it needs have completed.

Subscription on task-completed with the pattern `primary.*.*.*.*.*.*.<schedulerId>.#`. (The queue does this by itself
for `dependencies`; a scheduler of one's own is for rules that the queue does not have.)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from docs.examples.consume import consume, end
from docs.examples.program import parser, queue, run, subscribed, until_interrupted

Schedule = Callable[[str], Awaitable[None]]
"""Calls scheduleTask, which may be called again for a task that is scheduled already."""


class Graph:
    """The tasks of a graph, by the tasks that they need. After a start, say which have completed (`has_completed`)."""

    def __init__(self, needs: Mapping[str, Iterable[str]], schedule: Schedule) -> None:
        self._needs = {task_id: frozenset(needed) for task_id, needed in needs.items()}
        self._schedule = schedule
        self._completed: set[str] = set()

    async def handle(self, exchange: str, message: dict[str, Any]) -> None:
        """A task has completed; a repeat of the message repeats the calls, so none is lost half-way."""
        await self.has_completed(message["status"]["taskId"])

    async def has_completed(self, completed: str) -> None:
        """Schedules what waited for this task and for no other."""
        self._completed.add(completed)
        for task_id, needed in self._needs.items():
            if completed in needed and needed <= self._completed:
                await self._schedule(task_id)


async def main() -> None:
    """Schedules the tasks of a graph, and ends when all of them are scheduled."""
    arguments = parser(__doc__)
    arguments.add_argument("scheduler_id", help="schedulerId of the tasks that are needed")
    arguments.add_argument("graph", type=Path, help='JSON: {"<taskId>": ["<taskId of a task that it needs>", …], …}')
    given = arguments.parse_args()
    needs: dict[str, list[str]] = json.loads(given.graph.read_text(encoding="utf-8"))
    scheduled: set[str] = set()
    everything = asyncio.Event()

    async def schedule(task_id: str) -> None:
        await asyncio.to_thread(queue().scheduleTask, task_id)
        if task_id not in scheduled:
            print(f"scheduled {task_id}", flush=True)
        scheduled.add(task_id)
        if scheduled == set(needs):
            everything.set()

    async def follow() -> None:
        graph = Graph(needs, schedule)
        reading = asyncio.create_task(consume(client, subscriptions, graph.handle))
        finished = asyncio.create_task(everything.wait())
        try:
            for task_id in sorted({needed for wanted in needs.values() for needed in wanted}):
                status = (await asyncio.to_thread(queue().status, task_id))["status"]
                if status["state"] == "completed":
                    await graph.has_completed(task_id)
            await asyncio.wait([reading, finished], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        finally:
            await end([reading, finished])

    pattern = f"primary.*.*.*.*.*.*.{given.scheduler_id}.#"
    async with subscribed({"task-completed": [pattern]}) as (client, subscriptions):
        await until_interrupted(follow())


if __name__ == "__main__":
    run(main())
