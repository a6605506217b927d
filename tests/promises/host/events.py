"""The events of a stack as any subscriber gets them: by the Service Bus SDK, from a subscription on every topic."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient

from shared.queue.events.exchanges import TOPICS

SUBSCRIPTION = "spy"
"""Name of the subscription on every topic of the stacks under test."""

Kind = tuple[str, int | None]
"""A topic, and the run if the event names one."""


@dataclass(frozen=True)
class Event:
    """An event as received. `body` is its JSON, `properties` what filters see."""

    topic: str
    message_id: str
    body: Mapping[str, Any]
    properties: Mapping[str, Any] = field(repr=False)

    @property
    def kind(self) -> Kind:
        return self.topic, self.body.get("runId")

    @property
    def subject(self) -> str:
        """The task that the event is about, or the group."""
        status = self.body.get("status")
        return str(status["taskId"] if status else self.body["taskGroupId"])


class Events:
    """Receives events in a thread of its own; the subscription keeps those from before its start."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._received: dict[tuple[str, str], Event] = {}
        self._order: list[Event] = []
        self._news = threading.Condition()
        self._opened = threading.Semaphore(0)
        self._runner = asyncio.Runner()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._receiving: asyncio.Task[Any] | None = None
        self._thread.start()

    def of(self, subject: str) -> list[Event]:
        """Returns the events of a task or a group so far, each once, in the order in which they were received."""
        with self._news:
            return [event for event in self._order if event.subject == subject]

    def expect(self, subject: str, *expected: Kind, timeout: float = 60) -> list[Event]:
        """Waits until a task's or group's events are these, in any order, and returns them; fails when they are not. An
        event whose topic cannot be reached at once is sent after pauses of 5, 10 and 20 s (design 2.5)."""
        wanted = sorted(expected, key=repr)
        give_up = time.monotonic() + timeout
        with self._news:
            while True:
                found = [event for event in self._order if event.subject == subject]
                if sorted((event.kind for event in found), key=repr) == wanted:
                    return found
                if not self._news.wait(give_up - time.monotonic()):
                    assert sorted((event.kind for event in found), key=repr) == wanted

    def topics_of(self, subject: str) -> Set[str]:
        """Returns the topics on which a task or group was announced so far."""
        return {event.topic for event in self.of(subject)}

    def close(self) -> None:
        """Ends the thread. All receivers are open before: the SDK leaks the socket of an opening that is cancelled."""
        for _ in TOPICS:
            self._opened.acquire(timeout=30)
        self._runner.get_loop().call_soon_threadsafe(self._cancel)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the receivers did not end"

    def _cancel(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()

    def _run(self) -> None:
        with self._runner, suppress(asyncio.CancelledError):
            self._runner.run(self._receive_all())

    async def _receive_all(self) -> None:
        self._receiving = asyncio.current_task()
        async with ServiceBusClient.from_connection_string(self._connection_string) as client:
            await asyncio.gather(*(self._receive(client, topic) for topic in TOPICS))

    async def _receive(self, client: ServiceBusClient, topic: str) -> None:
        receiver = client.get_subscription_receiver(
            topic, SUBSCRIPTION, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
        )
        async with receiver:
            self._opened.release()
            async for message in receiver:
                self._take(topic, message)

    def _take(self, topic: str, message: ServiceBusReceivedMessage) -> None:
        event = Event(
            topic=topic,
            message_id=str(message.message_id),
            body=json.loads(str(message)),
            properties={_text(name): _text(value) for name, value in (message.application_properties or {}).items()},
        )
        with self._news:
            if (topic, event.message_id) not in self._received:
                self._received[topic, event.message_id] = event
                self._order.append(event)
                self._news.notify_all()


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
