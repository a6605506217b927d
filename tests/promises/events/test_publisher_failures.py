"""The publisher against a Service Bus that refuses, is absent, or answers late."""

from __future__ import annotations

import asyncio

import pytest

from shared.queue.events.announcer import EventsUnavailable
from tests.promises.events.attempts import (
    OTHER,
    TOPIC,
    Clock,
    attempt,
    one,
    until_accepted,
)
from tests.promises.events.receiving import PATIENCE, publishing, sends, stored
from tools.local.service_bus import ServiceBus


async def test_a_missing_topic_is_its_own_trouble(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        lost = one(0, "task-failed")
        for number in range(5):
            with pytest.raises(EventsUnavailable) as caught:
                await publisher.publish([one(number), lost])
            assert caught.value.unsent == (lost,)
    assert stored(bus, TOPIC) == 5


async def test_while_service_bus_does_not_answer_calls_are_bounded_and_then_fail_at_once(bus: ServiceBus) -> None:
    clock = Clock()
    async with publishing(bus, timeout=0.5, monotonic=clock) as publisher:
        await publisher.publish([one()], PATIENCE)
        bus.pause()
        outcomes = await asyncio.gather(*(attempt(publisher, [one(number)]) for number in range(1, 6)))
        assert [outcome.unsent for outcome in outcomes] == [1] * 5
        assert all(outcome.reason.endswith("SendTimeout") for outcome in outcomes)
        later = await attempt(publisher, [one(6), one(7, OTHER)])
        assert later.unsent == 2
        assert later.at_once
        bus.resume()
        await until_accepted(publisher, one(8), clock)
        await publisher.publish([one(9), one(9, OTHER)], PATIENCE)


async def test_refusals_of_one_topic_do_not_stop_the_others(bus: ServiceBus) -> None:
    clock = Clock()
    bus.refuse(topic=TOPIC)
    async with publishing(bus, monotonic=clock) as publisher:
        for number in range(5):
            with pytest.raises(EventsUnavailable) as caught:
                await publisher.publish([one(number), one(number, OTHER)])
            assert [message.topic for message in caught.value.unsent] == [TOPIC]
        assert sends(bus, TOPIC) == 3, "after three refusals in a row it is not tried until a pause is over"
        assert stored(bus, OTHER) == 5
        bus.accept()
        await until_accepted(publisher, one(9), clock)


async def test_a_lost_connection_is_opened_again(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        await publisher.publish([one()])
        bus.close_connections()
        await publisher.publish([one(1)])
        bus.close_connections("amqp:connection:forced")
        await publisher.publish([one(2)])
        bus.drop(count=1, stored=True)
        await publisher.publish([one(3)])
    assert stored(bus, TOPIC) == 4


async def test_an_answer_that_is_lost_makes_no_duplicate(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        bus.drop(count=1, stored=True)
        await publisher.publish([one(), one(1)])
    assert stored(bus, TOPIC) == 2
    assert bus.state()["topics"][TOPIC]["duplicates"] == 2


async def test_an_absent_service_bus_fails_fast_and_is_found_again(bus: ServiceBus) -> None:
    clock = Clock()
    async with publishing(bus, monotonic=clock) as publisher:
        await publisher.publish([one()])
        bus.kill()
        outcomes = [await attempt(publisher, [one(number)]) for number in range(1, 20)]
        assert [outcome.unsent for outcome in outcomes] == [1] * 19
        assert sum(outcome.at_once for outcome in outcomes) >= 17
        assert not any(outcome.reason.endswith("SendTimeout") for outcome in outcomes), "none waits for its timeout"
        bus.restart()
        await until_accepted(publisher, one(20), clock)
    assert stored(bus, TOPIC) == 1
