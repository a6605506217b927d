"""What the tests of the local Service Bus share."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiver

from tools.local.service_bus import ServiceBus

RECEIVE_SECONDS = 5
"""How long a receiver waits for messages that are on their way."""


def client(bus: ServiceBus, **options: Any) -> ServiceBusClient:
    """Returns a client that does not hide faults by retrying for long."""
    options = {"retry_total": 0, "retry_backoff_factor": 0.05, **options}
    return ServiceBusClient.from_connection_string(bus.connection_string, **options)


def new_topic(bus: ServiceBus, *subscriptions: Mapping[str, Any], **settings: Any) -> str:
    """Declares a topic of a test's own, with subscription `s` unless others are given; returns its name."""
    name = f"test-{uuid.uuid4().hex}"
    bus.add_topic({"name": name, "subscriptions": list(subscriptions) or [{"name": "s"}], **settings})
    return name


def send(service_bus: ServiceBusClient, topic: str, *messages: ServiceBusMessage | str) -> None:
    """Sends messages, one at a time."""
    with service_bus.get_topic_sender(topic) as sender:
        for message in messages:
            sender.send_messages(message if isinstance(message, ServiceBusMessage) else ServiceBusMessage(message))


def receive(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """Receives exactly `count` messages, in the order in which they came."""
    messages: list[ServiceBusReceivedMessage] = []
    while len(messages) < count:
        more = receiver.receive_messages(max_message_count=count - len(messages), max_wait_time=RECEIVE_SECONDS)
        assert more, f"{len(messages)} of {count} messages came"
        messages += more
    return messages


def texts(messages: Sequence[ServiceBusReceivedMessage]) -> list[str]:
    """Returns the bodies of messages."""
    return [str(message) for message in messages]


def counts(bus: ServiceBus, topic: str, subscription: str = "s") -> dict[str, int]:
    """Returns the broker's numbers for a subscription."""
    numbers: dict[str, int] = bus.state()["topics"][topic]["subscriptions"][subscription]
    return numbers
