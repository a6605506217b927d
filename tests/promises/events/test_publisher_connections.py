"""When the publisher opens connections, ahead of calls or for them, and replaces them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shared.queue.events.publisher import EventPublisher
from tests.promises.events.attempts import (
    LONGEST_PAUSE,
    OTHER,
    TOPIC,
    Clock,
    attempt,
    one,
    until,
    until_accepted,
)
from tests.promises.events.receiving import publishing, stored
from tools.local.service_bus import ServiceBus


async def test_an_opening_goes_on_when_no_call_waits_for_it_and_blocks_no_other_topic(bus: ServiceBus) -> None:
    async with publishing(bus, open_wait=0) as publisher:
        for topic in (TOPIC, OTHER):
            outcome = await attempt(publisher, [one(0, topic)])
            assert outcome.reason.endswith("NotOpen")
        for topic in (TOPIC, OTHER):
            await until_accepted(publisher, one(1, topic))
        assert bus.state()["connections"] == 2
    assert [stored(bus, topic) for topic in (TOPIC, OTHER)] == [1, 1], "what a call gave up was not sent later"


def topics_of(publisher: EventPublisher, method: str) -> list[str]:
    """Returns a list of the topics for which the publisher calls one of its methods from now on."""
    topics: list[str] = []
    original: Callable[[str], object] = getattr(publisher, method)

    def noting(topic: str) -> object:
        topics.append(topic)
        return original(topic)

    setattr(publisher, method, noting)
    return topics


async def test_connections_are_opened_ahead_so_that_no_call_waits_for_one(bus: ServiceBus) -> None:
    async with publishing(bus, open_wait=0) as publisher:
        publisher.keep_open([TOPIC, OTHER])
        await until(lambda: bus.state()["connections"] == 2)
        await until_accepted(publisher, one(0))
        await until_accepted(publisher, one(0, OTHER))
        assert bus.state()["connections"] == 2
    await until(lambda: bus.state()["connections"] == 0)


async def test_idle_connections_are_replaced_in_the_background(bus: ServiceBus) -> None:
    async with publishing(bus, open_wait=0) as publisher:
        opened = topics_of(publisher, "_open_later")
        publisher.keep_open([TOPIC], idle=0.05, look=0.05)
        await until(lambda: len(opened) >= 6)
        await until(lambda: bus.state()["connections"] <= 3)  # those that were replaced are closed
        await publisher.publish([one(0)])
    await until(lambda: bus.state()["connections"] == 0)


async def test_no_message_is_lost_while_connections_are_replaced(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        opened = topics_of(publisher, "_open_later")
        publisher.keep_open([TOPIC, OTHER], idle=0, look=0)
        number = 0
        while len(opened) < 12:
            for topic in (TOPIC, OTHER):
                assert (await attempt(publisher, [one(number, topic)])).unsent == 0
            number += 1
            await asyncio.sleep(0.01 * (number % 7))
    assert [stored(bus, topic) for topic in (TOPIC, OTHER)] == [number, number]


async def test_connections_are_not_opened_ahead_while_service_bus_is_down(bus: ServiceBus) -> None:
    clock = Clock()
    async with publishing(bus, monotonic=clock) as publisher:
        bus.go_away()
        opened, looks = topics_of(publisher, "_open_later"), topics_of(publisher, "_channel")
        publisher.keep_open([TOPIC, OTHER], look=0.01)
        await until(lambda: len(looks) >= 4)
        assert (await attempt(publisher, [one(0, OTHER)])).at_once, "the failure in the background counts"
        await until(lambda: len(looks) >= 20)
        assert opened == [TOPIC], "nothing is opened until the breaker's pause is over"
        bus.come_back()
        clock.seconds += LONGEST_PAUSE
        await until_accepted(publisher, one(1), clock)
        await until(lambda: {TOPIC, OTHER} <= set(opened))
