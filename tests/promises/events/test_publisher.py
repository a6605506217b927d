"""What the publisher sends to the local Service Bus, for whom, and what it does not send."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from shared.queue.events.announcer import EventsUnavailable
from shared.queue.tasks.rules import Resolved
from tests.promises.events.attempts import TOPIC, Clock, all_received, attempt, one, until, until_accepted
from tests.promises.events.builders import Life
from tests.promises.events.receiving import body_of, publishing, received, stored
from tools.local.service_bus import ServiceBus


async def test_what_is_sent_arrives_with_all_its_properties(bus: ServiceBus) -> None:
    life = Life.begin()
    life.schedule()
    life.claim()
    messages = life.report_exception(Resolved.WORKER_SHUTDOWN)
    async with publishing(bus) as publisher:
        await publisher.publish(messages)
    for sent in messages:
        (got,) = await received(bus, sent.topic, 1)
        assert got.message_id == sent.message_id
        assert got.subject == sent.topic
        assert got.content_type == "application/json"
        assert str(got).encode() == sent.body
        assert body_of(got)["version"] == 1
        properties = {name.decode(): value.decode() for name, value in (got.application_properties or {}).items()}  # type: ignore[union-attr]
        assert properties == sent.properties


async def test_repeats_are_hidden(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        for _ in range(3):
            await publisher.publish([one(), one()])
    assert stored(bus, TOPIC) == 1


async def test_messages_that_do_not_fit_into_one_batch_go_in_several(bus: ServiceBus) -> None:
    messages = [replace(one(number), body=b'"' + b"x" * 60_000 + b'"') for number in range(20)]
    async with publishing(bus) as publisher:
        await publisher.publish(messages)
    assert stored(bus, TOPIC) == 20


async def test_a_message_that_is_too_large_does_not_hold_up_the_others(bus: ServiceBus) -> None:
    huge = replace(one(1), body=b'"' + b"x" * 300_000 + b'"')
    async with publishing(bus) as publisher:
        with pytest.raises(EventsUnavailable, match="1 messages could not be sent") as caught:
            await publisher.publish([one(0), huge, one(2)])
        assert caught.value.unsent == (huge,)
    assert stored(bus, TOPIC) == 2


async def test_nothing_is_sent_after_the_call_has_failed(bus: ServiceBus) -> None:
    clock = Clock()
    async with publishing(bus, monotonic=clock) as publisher:
        await publisher.publish([one()])
        bus.pause()
        first = asyncio.create_task(attempt(publisher, [one(1)], 0.5))
        await until(lambda: bus.state()["held"] == 1 or first.done())
        waiting = asyncio.create_task(attempt(publisher, [one(2)], 0.5))
        assert ((await first).unsent, (await waiting).unsent) == (1, 1)
        bus.resume()
        await until_accepted(publisher, one(3), clock)
    assert await all_received(bus) in (["0", "3"], ["0", "1", "3"]), "2 had not been handed over when its call failed"


async def test_a_caller_that_leaves_does_not_take_the_others_messages_along(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        calls = [asyncio.create_task(publisher.publish([one(number)])) for number in range(20)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert outcomes[1::2] == [None] * 10
    assert {str(number) for number in range(1, 20, 2)} <= set(await all_received(bus))


async def test_bodies_and_keys_are_not_logged(bus: ServiceBus, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    message = replace(one(), body=b'"confidential"')
    async with publishing(bus) as publisher:
        await publisher.publish([message])
        bus.refuse("amqp:internal-error")
        await attempt(publisher, [message])
    assert "cannot send to task-pending" in caplog.text
    assert "confidential" not in caplog.text
    assert "SharedAccessKey=" not in caplog.text
