"""Messages that go to Service Bus together: how many sends they take, and what becomes of each when a send fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import pytest

from shared.queue.events.announcer import EventsUnavailable
from shared.queue.events.publisher import EventPublisher
from shared.queue.events.rendering import EventMessage
from tests.promises.events.attempts import LONGEST_PAUSE, OTHER, TOPIC, Clock, all_received, attempt, one, until
from tests.promises.events.receiving import publishing, sends, stored
from tools.local.service_bus import ServiceBus


async def unsent_of(publisher: EventPublisher, messages: Sequence[EventMessage]) -> list[EventMessage]:
    """Publishes, and returns the messages that are to be kept as pointers."""
    try:
        await publisher.publish(messages)
    except EventsUnavailable as error:
        return list(error.unsent)
    return []


@pytest.mark.parametrize("calls", [1, 4, 16])
async def test_what_comes_while_a_send_is_under_way_goes_in_one_send(bus: ServiceBus, calls: int) -> None:
    async with publishing(bus) as publisher:
        await publisher.publish([one()])
        bus.pause()
        first = asyncio.create_task(publisher.publish([one(1)]))
        await until(lambda: bus.state()["held"] == 1)
        meanwhile = [asyncio.create_task(publisher.publish([one(number)])) for number in range(2, 2 + calls)]
        await asyncio.sleep(0)
        bus.resume()
        await asyncio.gather(first, *meanwhile)
        assert sends(bus, TOPIC) == 3
        assert stored(bus, TOPIC) == 2 + calls


async def test_a_message_that_nothing_is_ahead_of_is_sent_at_once_and_alone(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        for number in range(3):
            await publisher.publish([one(number)])
            assert sends(bus, TOPIC) == number + 1


@pytest.mark.parametrize("condition", ["com.microsoft:argument-error", "amqp:link:message-size-exceeded"])
async def test_a_message_that_is_refused_does_not_take_the_others_with_it(bus: ServiceBus, condition: str) -> None:
    clock = Clock()
    messages = [one(number) for number in range(9)]
    async with publishing(bus, monotonic=clock) as publisher:
        bus.refuse(condition, message_id=messages[4].message_id)
        assert await unsent_of(publisher, messages) == [messages[4]]
        assert stored(bus, TOPIC) == 8
        assert await unsent_of(publisher, [one(9), one(9, OTHER)]) == [], "it says nothing of Service Bus"


@pytest.mark.parametrize("outcome", ["release", "modify"])
async def test_an_outcome_that_is_no_acceptance_counts_as_unsent(
    bus: ServiceBus, outcome: Literal["release", "modify"]
) -> None:
    clock = Clock()
    async with publishing(bus, monotonic=clock) as publisher:
        await publisher.publish([one()])
        bus.return_unsettled(outcome)
        assert (await attempt(publisher, [one(1), one(2)], 0.2)).unsent == 2
        bus.accept()
        clock.seconds += LONGEST_PAUSE
        await publisher.publish([one(3)])
    assert await all_received(bus) == ["0", "3"]
