"""What the other examples share: read several subscriptions side by side and settle what has been handled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from azure.servicebus.aio import ServiceBusClient

Handle = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Takes the exchange's short name and the message's JSON."""


async def consume(client: ServiceBusClient, subscriptions: Mapping[str, str], handle: Handle) -> None:
    """Reads the subscription (value) of each topic (key) until cancelled.

    A message is settled after it was handled; if handling fails it is delivered again, so `handle` must bear repeats.
    """
    async with asyncio.TaskGroup() as group:
        for topic, name in subscriptions.items():
            group.create_task(_read(client, topic, name, handle))


async def _read(client: ServiceBusClient, topic: str, name: str, handle: Handle) -> None:
    async with client.get_subscription_receiver(topic, name) as receiver:
        while True:
            for message in await receiver.receive_messages(max_message_count=50, max_wait_time=30):
                await handle(message.subject or topic, json.loads(str(message)))
                await receiver.complete_message(message)
