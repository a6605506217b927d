"""Counts the events of a stack by exchange, as any subscriber would: with the Service Bus SDK."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from azure.servicebus import ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient


class EventCounter:
    """Receives from one subscription on every topic; a message that comes twice counts once."""

    def __init__(self, connection_string: str, subscription: str, topics: Sequence[str], prefix: str = "") -> None:
        """`prefix` is what the names of the topics begin with in the namespace."""
        self._connection_string = connection_string
        self._subscription = subscription
        self._topics = topics
        self._prefix = prefix
        self._seen: set[tuple[str, str | None]] = set()
        self._news = asyncio.Condition()

    @property
    def counts(self) -> Counter[str]:
        """Events so far, by topic (without the prefix)."""
        return Counter(topic for topic, _ in self._seen)

    async def wait_for(self, expected: Counter[str], seconds: float) -> bool:
        """Waits until the counts are these. Returns False if they are not after so many seconds."""
        async with self._news:
            try:
                await asyncio.wait_for(self._news.wait_for(lambda: self.counts == expected), seconds)
            except TimeoutError:
                return False
        return True

    async def run(self) -> None:
        """Receives until cancelled."""
        async with ServiceBusClient.from_connection_string(self._connection_string) as client:
            await asyncio.gather(*(self._receive(client, topic) for topic in self._topics))

    async def _receive(self, client: ServiceBusClient, topic: str) -> None:
        receiver = client.get_subscription_receiver(
            self._prefix + topic, self._subscription, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
        )
        async with receiver:
            async for message in receiver:
                async with self._news:
                    self._seen.add((topic, message.message_id))
                    self._news.notify_all()
