"""What the other examples share: read several subscriptions side by side and settle what has been handled."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from azure.servicebus.aio import ServiceBusClient

Handle = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Takes the exchange's short name and the message's JSON."""


async def consume(client: ServiceBusClient, subscriptions: Mapping[str, str], handle: Handle) -> None:
    """Reads the subscription (value) of each topic (key) until cancelled.

    A message is settled after it was handled; if handling fails it is delivered again, so `handle` must bear repeats.
    """
    readers = [asyncio.create_task(_read(client, topic, name, handle)) for topic, name in subscriptions.items()]
    try:
        ended, _ = await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(readers)
    for reader in ended:
        reader.result()  # raises what it has failed with


async def end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancels tasks until they have ended: before Python 3.12 the SDK misses a cancellation while it reads a frame."""
    seconds = 1.0
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(running, timeout=seconds)
        seconds *= 2


async def _read(client: ServiceBusClient, topic: str, name: str, handle: Handle) -> None:
    async with client.get_subscription_receiver(topic, name) as receiver:
        while True:
            for message in await receiver.receive_messages(max_message_count=50, max_wait_time=30):
                await handle(message.subject or topic, json.loads(str(message)))
                await receiver.complete_message(message)
