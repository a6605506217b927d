"""A worker that is woken by task-pending, instead of asking for work again and again.

Subscription on task-pending with the pattern `primary.*.*.*.*.<provisionerId>.<workerType>.#`, shared by the workers
of the pool: each message wakes one of them. The queue decides who gets a task, so a message is only a hint: the worker
asks once at the start, after every message, and now and then besides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from azure.servicebus.aio import ServiceBusClient

Claim = Callable[[], Awaitable[list[dict[str, Any]]]]
"""Calls claimWork and returns its `tasks`."""

Run = Callable[[dict[str, Any]], Awaitable[None]]
"""Runs a claimed task to its end."""


async def work(
    client: ServiceBusClient, subscription: str, claim: Claim, run: Run, at_least_every: float = 300
) -> None:
    """Claims and runs tasks until cancelled; idle, it asks at least every so many seconds."""
    async with client.get_subscription_receiver("task-pending", subscription) as receiver:
        while True:
            for task in await claim():
                await run(task)
            for message in await receiver.receive_messages(max_message_count=1, max_wait_time=at_least_every):
                await receiver.complete_message(message)
