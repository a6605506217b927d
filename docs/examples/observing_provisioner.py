"""A provisioner that keeps the count of its pool's pending runs without polling.

Subscriptions, each with the pattern `primary.*.*.*.*.<provisionerId>.<workerType>.#`, on task-pending, task-running
and task-exception. The last one because a pending run can also be canceled, or miss its deadline.

Start reading, then list once what is pending (`listPendingTasks`): messages tell only of changes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from docs.examples.consume import consume, end
from docs.examples.program import parser, queue, run, subscribed, until_interrupted

TOPICS = ("task-pending", "task-running", "task-exception")


class PendingRuns:
    """The runs that are pending, as far as messages have said. Messages may be repeated and come out of order."""

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

    def was_there(self, task_id: str, run_id: int) -> None:
        """Adds a run that was listed as pending, unless a message has said since that it is not."""
        if (task_id, run_id) not in self._over:
            self._pending.add((task_id, run_id))

    def forget_before(self, moment: str) -> None:
        """Drops what is remembered of tasks that had expired by then; dates in this form compare as text."""
        self._over = {run: expires for run, expires in self._over.items() if expires >= moment}


async def main() -> None:
    """Prints the number of pending runs of a task queue whenever it has changed."""
    arguments = parser(__doc__)
    arguments.add_argument("task_queue_id", help="<provisionerId>/<workerType>")
    task_queue_id = arguments.parse_args().task_queue_id
    pending = PendingRuns()
    said = -1

    async def handle(exchange: str, message: dict[str, Any]) -> None:
        await pending.handle(exchange, message)
        say()

    def say() -> None:
        nonlocal said
        if pending.count != said:
            said = pending.count
            print(f"{task_queue_id}: {said} pending", flush=True)

    def list_pending() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        queue().listPendingTasks(task_queue_id, paginationHandler=lambda page: found.extend(page["tasks"]))
        return found

    async def observe() -> None:
        reading = asyncio.create_task(consume(client, subscriptions, handle))
        try:
            for found in await asyncio.to_thread(list_pending):
                pending.was_there(found["taskId"], found["runId"])
            say()
            await reading
        finally:
            await end([reading])

    pattern = f"primary.*.*.*.*.{task_queue_id.replace('/', '.')}.#"
    async with subscribed({key: [pattern] for key in TOPICS}) as (client, subscriptions):
        await until_interrupted(observe())


if __name__ == "__main__":
    run(main())
