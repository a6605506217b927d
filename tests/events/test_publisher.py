"""The publisher against the local Service Bus, well and ill."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from azure.servicebus.aio import ServiceBusSender

from local.service_bus import ServiceBus
from shared.domain.task import Resolved
from shared.events.channel import Channel
from shared.events.messages import EventMessage
from shared.events.publisher import EventPublisher
from shared.events.unavailable import EventsUnavailable
from tests.events.builders import Life
from tests.events.receiving import PATIENCE, SUBSCRIPTION, body_of, publishing, received, sends, stored

TOPIC = "task-pending"
OTHER = "task-exception"
LONGEST_PAUSE = 30.0
"""Seconds that the breaker pauses at most."""


@pytest.fixture
def bus() -> Iterator[ServiceBus]:
    """A broker of the test's own, since its faults are for all topics."""
    with ServiceBus.start([TOPIC, OTHER, f"prefix/{TOPIC}"], subscriptions=[SUBSCRIPTION]) as running:
        yield running


def one(number: int = 0, topic: str = TOPIC) -> EventMessage:
    """A message with an id of its own."""
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
    """What became of a publish: how many messages were not sent, and why."""

    unsent: int
    reason: str = ""

    @property
    def at_once(self) -> bool:
        """Refused without a try."""
        return self.reason.endswith("Blocked")


async def attempt(publisher: EventPublisher, messages: Sequence[EventMessage], timeout: float | None = None) -> Outcome:
    try:
        await publisher.publish(messages, timeout)
    except EventsUnavailable as error:
        return Outcome(len(error.unsent), str(error))
    return Outcome(0)


async def until_accepted(publisher: EventPublisher, message: EventMessage, clock: Clock | None = None) -> None:
    """Publishes again and again, the pause of the breaker over each time that there is a clock to move."""
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
    """The numbers of all messages that the topic has; the publisher must have been closed."""
    messages = await received(bus, topic, stored(bus, topic))
    return sorted(str(message.message_id).rsplit("/")[-1] for message in messages)


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


async def test_the_prefix_goes_before_the_topics_name(bus: ServiceBus) -> None:
    async with publishing(bus, topic_prefix="prefix/") as publisher:
        await publisher.publish([one()])
    assert stored(bus, f"prefix/{TOPIC}") == 1


async def test_repeats_are_hidden(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        for _ in range(3):
            await publisher.publish([one(), one()])
    assert stored(bus, TOPIC) == 1


async def test_publishing_nothing_needs_no_connection(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        await publisher.publish([])
        assert bus.state()["connections"] == 0


async def test_calls_share_a_connection_and_are_sent_together(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        await publisher.publish([one()])
        before = sends(bus, TOPIC)
        await asyncio.gather(*(publisher.publish([one(number)]) for number in range(1, 301)))
        assert bus.state()["connections"] == 1
        assert stored(bus, TOPIC) == 301
        assert sends(bus, TOPIC) - before <= 5
        await publisher.publish([one(number) for number in range(301, 400)])
    assert bus.state()["connections"] == 0
    assert stored(bus, TOPIC) == 400


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


async def test_one_probe_at_a_time_tries_again(bus: ServiceBus) -> None:
    clock = Clock()
    async with publishing(bus, timeout=0.2, monotonic=clock) as publisher:
        await publisher.publish([one()], PATIENCE)
        bus.pause()
        await attempt(publisher, [one(1)])

        async def tried() -> list[str]:
            outcomes = await asyncio.gather(*(attempt(publisher, [one(2, topic)]) for topic in (TOPIC, OTHER) * 5))
            assert all(outcome.unsent for outcome in outcomes)
            return [outcome.reason for outcome in outcomes if not outcome.at_once]

        for _ in range(3):
            assert await tried() == []
            clock.seconds += LONGEST_PAUSE
            assert len(await tried()) == 1
        bus.resume()


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


@pytest.mark.parametrize("condition", ["amqp:internal-error", "amqp:link:detach-forced", "com.microsoft:timeout"])
async def test_a_single_failure_is_not_noticed(bus: ServiceBus, condition: str) -> None:
    async with publishing(bus) as publisher:
        await publisher.publish([one()])
        bus.refuse(condition, count=1)
        await publisher.publish([one(1)])
    assert stored(bus, TOPIC) == 2


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


async def test_a_server_that_never_speaks_costs_one_bounded_wait() -> None:
    connected: list[asyncio.StreamWriter] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    text = f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true;"
    publisher = EventPublisher.from_connection_string(text, timeout=60)
    try:
        for unsent in ([one(), one(1)], [one(2)], [one(3)]):
            outcome = await attempt(publisher, unsent)
            assert outcome.unsent == len(unsent)
            assert outcome.reason.endswith("NotOpen"), "no one waits as long as the timeout"
        assert len(connected) == 1, "later calls do not wait again, and open no other connection"
    finally:
        await publisher.close()
        server.close()
        await server.wait_closed()


async def test_an_opening_goes_on_when_no_call_waits_for_it_and_blocks_no_other_topic(bus: ServiceBus) -> None:
    async with publishing(bus, open_wait=0) as publisher:
        for topic in (TOPIC, OTHER):
            outcome = await attempt(publisher, [one(0, topic)])
            assert outcome.reason.endswith("NotOpen")
        for topic in (TOPIC, OTHER):
            await until_accepted(publisher, one(1, topic))
        assert bus.state()["connections"] == 2
    assert [stored(bus, topic) for topic in (TOPIC, OTHER)] == [1, 1], "what a call gave up was not sent later"


def openings(publisher: EventPublisher) -> list[str]:
    """The topics of the connections that the publisher opens from now on."""
    opened: list[str] = []
    open_later = publisher._open_later

    def open_and_note(topic: str) -> ServiceBusSender:
        opened.append(topic)
        return open_later(topic)

    publisher._open_later = open_and_note  # type: ignore[method-assign]
    return opened


def looks_of(publisher: EventPublisher) -> list[str]:
    """The topics that the publisher looks at from now on, each time that it does."""
    looked: list[str] = []
    channel_of = publisher._channel

    def look(topic: str) -> Channel:
        looked.append(topic)
        return channel_of(topic)

    publisher._channel = look  # type: ignore[method-assign]
    return looked


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
        opened = openings(publisher)
        publisher.keep_open([TOPIC], idle=0.05, look=0.05)
        await until(lambda: len(opened) >= 6)
        await until(lambda: bus.state()["connections"] <= 3)  # those that were replaced are closed
        await publisher.publish([one(0)])
    await until(lambda: bus.state()["connections"] == 0)


async def test_no_message_is_lost_while_connections_are_replaced(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        opened = openings(publisher)
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
        opened, looks = openings(publisher), looks_of(publisher)
        publisher.keep_open([TOPIC, OTHER], look=0.01)
        await until(lambda: len(looks) >= 4)
        assert (await attempt(publisher, [one(0, OTHER)])).at_once, "the failure in the background counts"
        await until(lambda: len(looks) >= 20)
        assert opened == [TOPIC], "nothing is opened until the breaker's pause is over"
        bus.come_back()
        clock.seconds += LONGEST_PAUSE
        await until_accepted(publisher, one(1), clock)
        await until(lambda: {TOPIC, OTHER} <= set(opened))


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


async def test_what_one_call_has_given_up_is_not_sent_for_another(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        await publisher.publish([one()])
        bus.pause()
        first = asyncio.create_task(attempt(publisher, [one(1)]))
        await until(lambda: bus.state()["held"] == 1)
        assert (await attempt(publisher, [one(2)], 0.1)).unsent == 1
        bus.resume()
        assert (await first).unsent == 0
    assert await all_received(bus) == ["0", "1"]


async def test_a_cancelled_call_leaves_nothing_behind(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        await publisher.publish([one()])
        before = asyncio.all_tasks()
        bus.pause()
        call = asyncio.create_task(publisher.publish([one(1)]))
        await until(lambda: bus.state()["held"] == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        bus.resume()
        await publisher.publish([one(2)])
        await until(lambda: asyncio.all_tasks() == before)


async def test_a_caller_that_leaves_does_not_take_the_others_messages_along(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        calls = [asyncio.create_task(publisher.publish([one(number)])) for number in range(20)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert outcomes[1::2] == [None] * 10
    assert {str(number) for number in range(1, 20, 2)} <= set(await all_received(bus))


async def test_closing_fails_calls_under_way(bus: ServiceBus) -> None:
    bus.pause()
    publisher = EventPublisher.from_connection_string(bus.connection_string, timeout=1)
    call = asyncio.create_task(attempt(publisher, [one()]))
    await until(lambda: bus.state()["held"] == 1 or call.done())
    await publisher.close()
    assert (await call).unsent == 1
    bus.resume()


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
