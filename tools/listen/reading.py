"""Reads messages of a subscription as they come."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient

from tools.listen.patterns import routes_of

BATCH = 100
WAIT_SECONDS = 20


def properties_of(message: ServiceBusReceivedMessage) -> dict[str, str]:
    """Returns the application properties as text: they come as bytes."""
    given = message.application_properties or {}
    return {_text(name): _text(value) for name, value in given.items()}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def as_json(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    """Returns the message as one object: where it came from, its keys, and its body as `payload`."""
    properties = properties_of(message)
    return {
        "exchange": message.subject,
        "routingKey": properties.get("routingKey"),
        "routes": routes_of(properties),
        "messageId": message.message_id,
        "payload": json.loads(str(message)),
    }


async def read(
    client: ServiceBusClient, topic: str, name: str, handle: Callable[[ServiceBusReceivedMessage], bool]
) -> None:
    """Hands over every message until `handle` says that it has enough; what it has handled is settled."""
    async with client.get_subscription_receiver(topic, name) as receiver:
        while True:
            for message in await receiver.receive_messages(BATCH, max_wait_time=WAIT_SECONDS):
                go_on = handle(message)
                await receiver.complete_message(message)
                if not go_on:
                    return
