"""A worker that is woken by task-pending, instead of asking for work again and again.

Subscription on task-pending with the pattern `primary.*.*.*.*.<provisionerId>.<workerType>.#`, shared by the workers
of the pool: each message wakes one of them. The queue decides who gets a task, so a message is only a hint: the worker
asks once at the start, after every message, and now and then besides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import taskcluster
from azure.servicebus.aio import ServiceBusClient

from docs.examples.program import parser, queue, run, subscribed, until_interrupted

Claim = Callable[[], Awaitable[list[dict[str, Any]]]]
"""Calls claimWork and returns its `tasks`."""

Do = Callable[[dict[str, Any]], Awaitable[None]]
"""Runs a claimed task to its end."""


async def work(
    client: ServiceBusClient,
    subscription: str,
    claim: Claim,
    do: Do,
    at_least_every: float = 300,
    topic: str = "task-pending",
) -> None:
    """Claims and does tasks until cancelled; idle, it asks at least every so many seconds."""
    async with client.get_subscription_receiver(topic, subscription) as receiver:
        while True:
            for task in await claim():
                await do(task)
            for message in await receiver.receive_messages(max_message_count=1, max_wait_time=at_least_every):
                await receiver.complete_message(message)


async def main() -> None:
    """Completes the tasks of a task queue as they come, without running anything."""
    arguments = parser(__doc__)
    arguments.add_argument("task_queue_id", help="<provisionerId>/<workerType>")
    task_queue_id = arguments.parse_args().task_queue_id
    worker = {"workerGroup": "examples", "workerId": "woken-worker", "tasks": 1}

    async def claim() -> list[dict[str, Any]]:
        answer = await asyncio.to_thread(queue().claimWork, task_queue_id, worker)
        return list(answer["tasks"])

    async def do(task: dict[str, Any]) -> None:
        mine = taskcluster.Queue({"rootUrl": queue().options["rootUrl"], "credentials": task["credentials"]})
        await asyncio.to_thread(mine.reportCompleted, task["status"]["taskId"], task["runId"])
        print(f"completed {task['status']['taskId']}: {task['task']['metadata']['name']}", flush=True)

    pattern = f"primary.*.*.*.*.{task_queue_id.replace('/', '.')}.#"
    async with subscribed({"task-pending": [pattern]}) as (client, subscriptions):
        ((topic, name),) = subscriptions.items()
        await until_interrupted(work(client, name, claim, do, topic=topic))


if __name__ == "__main__":
    run(main())
