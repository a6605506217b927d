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
        await _end(readers)
    for reader in ended:
        reader.result()  # raises what it has failed with


async def _end(readers: Sequence[asyncio.Task[None]]) -> None:
    """Cancels them until they have ended: before Python 3.12 the SDK misses a cancellation while it reads a frame."""
    seconds = 1.0
    while running := [reader for reader in readers if not reader.done()]:
        for reader in running:
            reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(running, timeout=seconds)
        seconds *= 2


async def _read(client: ServiceBusClient, topic: str, name: str, handle: Handle) -> None:
    async with client.get_subscription_receiver(topic, name) as receiver:
        while True:
            for message in await receiver.receive_messages(max_message_count=50, max_wait_time=30):
                await handle(message.subject or topic, json.loads(str(message)))
                await receiver.complete_message(message)
