"""Sends events to their Service Bus topics, within a bounded time, at least once (design 2.5).

The SDK gives every sender a connection of its own. Sharing one is switched off in the SDK, and would fail: each sender
opens a `$cbs` link, and Service Bus takes only one of these on a connection. So a process has one connection for each
topic that it publishes to, shared by all calls. `keep_open` opens them ahead and keeps them, so that few calls wait."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import Self

from azure.core.credentials_async import AsyncTokenCredential
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender

from shared.base.concurrency import together
from shared.base.frozen import dataclass
from shared.queue.events.announcer import Breaker, EventsUnavailable
from shared.queue.events.channel import OPEN_WAIT_SECONDS, REOPEN_SECONDS, Channel
from shared.queue.events.link import Link
from shared.queue.events.rendering import EventMessage

PUBLISH_SECONDS = 1.5
"""How long `publish` waits by default."""
LOOK_SECONDS = 15.0
"""Seconds between two background checks for idle connections."""
REFUSALS_IN_A_ROW = 3
"""Refused sends to a topic after which the next ones are not tried for a while."""


@dataclass(eq=False, repr=False)
class EventPublisher:
    """The process's connections to Service Bus. What `publish` could not send is dropped."""

    _client: ServiceBusClient
    _: KW_ONLY
    topic_prefix: str = ""
    timeout: float = PUBLISH_SECONDS
    open_wait: float = OPEN_WAIT_SECONDS
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._keeper: asyncio.Task[None] | None = None
        self._connectivity = Breaker(self.monotonic)
        self._channels: dict[str, Channel] = {}

    @classmethod
    def from_connection_string(
        cls,
        connection_string: str,
        *,
        topic_prefix: str = "",
        timeout: float = PUBLISH_SECONDS,
        open_wait: float = OPEN_WAIT_SECONDS,
    ) -> Self:
        """Connects with a key. Raises ValueError if the string cannot be read."""
        client = ServiceBusClient.from_connection_string(connection_string, retry_total=0)
        return cls(client, topic_prefix=topic_prefix, timeout=timeout, open_wait=open_wait)

    @classmethod
    def from_identity(cls, namespace: str, credential: AsyncTokenCredential, *, topic_prefix: str = "") -> Self:
        """Connects to a fully qualified namespace with an identity, which the caller closes."""
        return cls(ServiceBusClient(namespace, credential, retry_total=0), topic_prefix=topic_prefix)

    async def publish(self, messages: Sequence[EventMessage], timeout: float | None = None) -> None:
        """Returns when Service Bus has accepted all; topics are sent to side by side. `timeout` is in seconds. Raises
        EventsUnavailable when it is over or when sending failed, at once while Service Bus is known to be down. It may
        be called again with the same messages: duplicate detection hides repeats."""
        by_topic: dict[str, list[EventMessage]] = {}
        for message in messages:
            by_topic.setdefault(message.topic, []).append(message)
        limit = self.timeout if timeout is None else timeout
        outcomes = await together(*(self._channel(topic).send(group, limit) for topic, group in by_topic.items()))
        failures = [failure for outcome in outcomes for failure in outcome]
        if failures:
            reasons = sorted({type(problem).__name__ for _, problem in failures})
            raise EventsUnavailable([message for message, _ in failures], ", ".join(reasons))

    def keep_open(self, topics: Sequence[str], *, idle: float = REOPEN_SECONDS, look: float = LOOK_SECONDS) -> None:
        """Opens connections to the topics in the background, one at a time, in that order, and keeps them fresh until
        `close`. Every `look` seconds those that were not used for `idle` seconds are replaced. To be called once."""
        assert self._keeper is None, "connections are kept open once"

        async def keep() -> None:
            while True:
                for topic in topics:
                    await self._channel(topic).keep_open(idle)
                await asyncio.sleep(look)

        self._keeper = asyncio.create_task(keep())

    async def close(self) -> None:
        """Closes all connections; calls under way fail."""
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
        self._channels.clear()
        await self._client.close()

    def _channel(self, topic: str) -> Channel:
        channel = self._channels.get(topic)
        if channel is None:
            refusals = Breaker(self.monotonic, threshold=REFUSALS_IN_A_ROW)
            name = self.topic_prefix + topic
            make = partial(self._open_later, name)
            channel = Channel(name, make, self._connectivity, refusals, self.monotonic, open_wait=self.open_wait)
            self._channels[topic] = channel
        return channel

    async def ask(self, topic: str) -> None:
        """Opens a connection to a topic and closes it again. Raises what the SDK raises when that fails."""
        link = await Link.open(self._open_later(self.topic_prefix + topic))
        await link.close()

    def _open_later(self, topic: str) -> ServiceBusSender:
        """Returns a sender that is not open yet, and has no keep-alive task of the SDK: it would delay errors."""
        return self._client.get_topic_sender(topic, keep_alive=0)
