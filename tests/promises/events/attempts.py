"""Publishes as a use case does while Service Bus may not answer, and notes the outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shared.queue.events.announcer import EventsUnavailable
from shared.queue.events.publisher import EventPublisher
from shared.queue.events.rendering import EventMessage
from tests.promises.events.builders import Life
from tests.promises.events.receiving import PATIENCE, received, stored
from tools.local.service_bus import ServiceBus

TOPIC = "task-pending"
OTHER = "task-exception"
LONGEST_PAUSE = 30.0
"""The longest pause of the breaker, in seconds."""


def one(number: int = 0, topic: str = TOPIC) -> EventMessage:
    """Returns a message with an id of its own."""
    (message,) = Life.begin().schedule()
    return replace(message, topic=topic, message_id=f"{message.message_id}/{number}")


class Clock:
    """The publisher's clock, which the test moves: pauses of the breaker are over when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass(frozen=True)
class Outcome:
    """The outcome of a publish: how many messages were not sent, and why."""

    unsent: int
    reason: str = ""

    @property
    def at_once(self) -> bool:
        """Whether the messages were refused without a try."""
        return self.reason.endswith("Blocked")


async def attempt(publisher: EventPublisher, messages: Sequence[EventMessage], timeout: float | None = None) -> Outcome:
    try:
        await publisher.publish(messages, timeout)
    except EventsUnavailable as error:
        return Outcome(len(error.unsent), str(error))
    return Outcome(0)


async def until_accepted(publisher: EventPublisher, message: EventMessage, clock: Clock | None = None) -> None:
    """Publishes again and again until the message is accepted; a given clock skips the pauses of the breaker."""
    give_up = time.monotonic() + PATIENCE
    while (await attempt(publisher, [message], PATIENCE)).unsent:
        assert time.monotonic() < give_up, "Service Bus was not found again"
        if clock is not None:
            clock.seconds += LONGEST_PAUSE
        await asyncio.sleep(0.05)


async def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, "the condition was not met"
        await asyncio.sleep(0.01)


async def all_received(bus: ServiceBus, topic: str = TOPIC) -> list[str]:
    """Returns the numbers of all messages that the topic has; the publisher must have been closed."""
    messages = await received(bus, topic, stored(bus, topic))
    return sorted(str(message.message_id).rsplit("/")[-1] for message in messages)
