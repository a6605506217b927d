"""Reads a subscription of the local Service Bus to its end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient

from shared.queue.events.publisher import EventPublisher
from tools.local.service_bus import ServiceBus

SUBSCRIPTION = "all"
PATIENCE = 30.0
"""Seconds after which a wait fails that should have ended long before."""


@asynccontextmanager
async def publishing(bus: ServiceBus, **settings: Any) -> AsyncIterator[EventPublisher]:
    """Yields a publisher to the broker, whose waits are too long for a slow machine to matter."""
    client = ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0)
    publisher = EventPublisher(client, **{"open_wait": 3600, "timeout": PATIENCE, **settings})
    try:
        yield publisher
    finally:
        await publisher.close()


async def received(
    bus: ServiceBus, topic: str, count: int, subscription: str = SUBSCRIPTION, wait: float = PATIENCE
) -> list[ServiceBusReceivedMessage]:
    """Takes messages until there are `count`, or none has come for `wait` seconds."""
    messages: list[ServiceBusReceivedMessage] = []
    async with (
        ServiceBusClient.from_connection_string(bus.connection_string) as client,
        client.get_subscription_receiver(
            topic, subscription, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
        ) as receiver,
    ):
        while len(messages) < count:
            more = await receiver.receive_messages(max_message_count=min(count, 1000), max_wait_time=wait)
            if not more:
                break
            messages += more
    return messages


def body_of(message: ServiceBusReceivedMessage) -> Any:
    """Returns the message's JSON."""
    return json.loads(str(message))


def stored(bus: ServiceBus, topic: str) -> int:
    """Returns how many messages the topic has taken, duplicates not counted."""
    counts = bus.state()["topics"][topic]
    return int(counts["messages"]) - int(counts["duplicates"])


def sends(bus: ServiceBus, topic: str) -> int:
    """Returns how many sends reached the topic."""
    return int(bus.state()["topics"][topic]["sends"])
