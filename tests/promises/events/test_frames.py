"""The frames of `shared.queue.events.frames` are the SDK's, and a link that sends them knows when that is for the SDK.

What is unusual on a link (a token to renew, credit used up, messages of several frames) is left to the SDK, and every
outcome of a transfer is one of its errors. Fails when the private names that `Link` uses change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus._pyamqp._encode import encode_frame, encode_payload
from azure.servicebus._pyamqp.message import BatchMessage
from azure.servicebus._pyamqp.performatives import TransferFrame
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusConnectionError, ServiceBusError, ServiceBusServerBusyError

from shared.queue.events import link as frames
from shared.queue.events.link import Link, _to_service_bus
from shared.queue.events.rendering import EventMessage
from tests.promises.events.attempts import TOPIC, one, until
from tests.promises.events.receiving import stored
from tools.local.service_bus import ServiceBus

PLAIN = one()
VARIANTS = {
    "plain": PLAIN,
    "other letters": replace(PLAIN, message_id="ü/é", subject="日本", properties={"routingKey": "é.日本", "ü": ""}),
    "short": replace(PLAIN, message_id="m", subject="s", body=b"{}", properties={"a": "b"}),
    "255 bytes": replace(PLAIN, message_id="m" * 128, subject="s" * 255, body=b"b" * 255, properties={"n" * 255: "v"}),
    "256 bytes": replace(PLAIN, message_id="é" * 128, subject="s" * 256, body=b"b" * 256, properties={"n" * 256: "v"}),
    "a map of 254 bytes": replace(PLAIN, properties={"n" * 100: "v" * 150}),
    "a map of 255 bytes": replace(PLAIN, properties={"n" * 100: "v" * 151}),
    "many properties": replace(PLAIN, properties={f"route{number}": str(number) for number in range(200)}),
}


def by_the_sdk(messages: list[EventMessage], handle: int, delivery_id: int, delivery_tag: int) -> bytes:
    """Returns the frame that the SDK would send on channel 7."""
    if len(messages) == 1:
        payload: Any = PyamqpTransport.to_outgoing_amqp_message(_to_service_bus(messages[0]).raw_amqp_message)
    else:
        batch = ServiceBusMessageBatch(max_size_in_bytes=10**6, amqp_transport=PyamqpTransport)
        for message in messages:
            batch.add_message(_to_service_bus(message))
        payload = BatchMessage(*batch._message)
    encoded = bytearray()
    encode_payload(encoded, payload)
    header, performative = encode_frame(
        TransferFrame(
            handle=handle,
            delivery_id=delivery_id,
            delivery_tag=delivery_tag.to_bytes(4, "big"),
            message_format=payload._code,
            settled=False,
            more=False,
            payload=bytes(encoded),
        )
    )
    assert performative is not None
    return header + (7).to_bytes(2, "big") + performative


@pytest.mark.parametrize("message", VARIANTS.values(), ids=VARIANTS)
def test_a_frame_is_byte_for_byte_what_the_sdk_sends(message: EventMessage) -> None:
    for handle, delivery_id, tag in ((0, 0, 1), (3, 255, 255), (256, 256, 2**32 - 1)):
        for messages in ([message], [message, PLAIN, *VARIANTS.values()]):
            ours = frames.transfer(
                [frames.encoded(each) for each in messages],
                message.message_id,
                channel=7,
                handle=handle,
                delivery_id=delivery_id,
                delivery_tag=tag,
            )
            assert ours == by_the_sdk(messages, handle, delivery_id, tag)


@pytest.fixture(scope="module")
def shared_bus() -> Iterator[ServiceBus]:
    """Yields a broker for the tests of this module."""
    with ServiceBus.start([TOPIC], subscriptions=["all"]) as running:
        yield running


@pytest.fixture
def bus(shared_bus: ServiceBus) -> Iterator[ServiceBus]:
    """Yields the module's broker, without faults."""
    yield shared_bus
    shared_bus.accept()
    shared_bus.resume()


@dataclass
class Opened:
    """A link, with the number of messages that the SDK was given to send."""

    link: Link
    by_the_sdk: int = 0

    @property
    def handler(self) -> Any:
        return self.link._sender._handler


@asynccontextmanager
async def opened(bus: ServiceBus) -> AsyncIterator[Opened]:
    async with ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0) as client:
        link = await Link.open(client.get_topic_sender(TOPIC, keep_alive=0))
        found = Opened(link)
        send = link._sender.send_messages

        async def counting(message: ServiceBusMessage) -> None:
            found.by_the_sdk += 1
            await send(message)

        link._sender.send_messages = counting
        try:
            yield found
        finally:
            await link.close()


def numbered(first: int, count: int, **changes: Any) -> list[EventMessage]:
    return [replace(one(number), **changes) for number in range(first, first + count)]


async def test_an_open_link_sends_without_the_sdk(bus: ServiceBus) -> None:
    async with opened(bus) as open_:
        assert await open_.link.send(numbered(0, 1)) == 1
        assert await open_.link.send(numbered(1, 3)) == 3
        assert open_.by_the_sdk == 0
    assert stored(bus, TOPIC) == 4


async def test_a_token_is_renewed_when_its_time_comes(bus: ServiceBus) -> None:
    async with opened(bus) as open_:
        await open_.link.send(numbered(10, 1))
        authenticator = open_.handler._cbs_authenticator
        authenticator._expires_on, authenticator._refresh_window = int(time.time()) + 5, 60
        assert await open_.link.send(numbered(11, 2)) == 2
        assert authenticator._expires_on > time.time() + 60
        assert await open_.link.send(numbered(13, 2)) == 2


async def test_credit_that_is_used_up_is_asked_for(bus: ServiceBus) -> None:
    async with opened(bus) as open_:
        await open_.link.send(numbered(30, 1))
        open_.handler._link.current_link_credit = 0
        assert await open_.link.send(numbered(31, 2)) == 1
        assert open_.handler._link.current_link_credit > 0
        assert await open_.link.send(numbered(32, 2)) == 2
        assert open_.by_the_sdk == 1


async def test_a_refusal_is_the_sdks_error_and_the_link_goes_on(bus: ServiceBus) -> None:
    async with opened(bus) as open_:
        await open_.link.send(numbered(70, 1))
        bus.refuse("com.microsoft:server-busy", count=1)
        with pytest.raises(ServiceBusServerBusyError, match="refused on request"):
            await open_.link.send(numbered(71, 2))
        assert await open_.link.send(numbered(71, 2)) == 2


@pytest.mark.parametrize(("outcome", "word"), [("release", "released"), ("modify", "modified")])
async def test_an_outcome_that_the_sdk_would_wait_on_for_ever_is_an_error(
    bus: ServiceBus, outcome: Any, word: str
) -> None:
    async with opened(bus) as open_:
        await open_.link.send(numbered(80, 1))
        bus.return_unsettled(outcome, count=1)
        with pytest.raises(ServiceBusConnectionError, match=word):
            await open_.link.send(numbered(81, 1))


async def test_a_connection_that_is_lost_before_the_outcome_is_an_error(bus: ServiceBus) -> None:
    async with opened(bus) as open_:
        await open_.link.send(numbered(90, 1))
        bus.drop(count=1)
        with pytest.raises(ServiceBusConnectionError):
            await open_.link.send(numbered(91, 1))


async def test_a_connection_that_is_closed_in_the_protocol_is_an_error(bus: ServiceBus) -> None:
    async with opened(bus) as open_:
        await open_.link.send(numbered(92, 1))
        bus.pause()
        sending = asyncio.create_task(open_.link.send(numbered(93, 1)))
        await until(lambda: bus.state()["held"] == 1)
        bus.close_connections("amqp:connection:forced")
        with pytest.raises(ServiceBusError):
            await sending
