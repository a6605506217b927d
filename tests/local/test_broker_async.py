"""The asynchronous SDK, as it is, against the local Service Bus."""

import asyncio
import uuid

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import MessageLockLostError, MessagingEntityNotFoundError

from tests.local.broker_support import counts, new_topic
from tools.local.service_bus import ServiceBus


def _client(bus: ServiceBus) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0)


async def _receive(receiver: ServiceBusReceiver, count: int) -> list[str]:
    """Complete `count` messages; their bodies."""
    bodies: list[str] = []
    while len(bodies) < count:
        messages = await receiver.receive_messages(max_message_count=count - len(bodies), max_wait_time=5)
        assert messages
        for message in messages:
            bodies.append(str(message))
            await receiver.complete_message(message)
    return bodies


@pytest.mark.large
async def test_every_way_to_settle(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus, {"name": "s", "maxDeliveryCount": 3})
    async with (
        _client(service_bus) as bus,
        bus.get_subscription_receiver(topic, "s") as receiver,
        bus.get_topic_sender(topic) as sender,
    ):
        await sender.send_messages([ServiceBusMessage(name) for name in ("complete", "abandon", "dead", "defer")])
        got = await receiver.receive_messages(max_message_count=4, max_wait_time=5)
        assert [str(message) for message in got] == ["complete", "abandon", "dead", "defer"]
        complete, abandon, dead, defer = got
        locked_until = abandon.locked_until_utc
        assert locked_until is not None
        await receiver.complete_message(complete)
        await receiver.abandon_message(abandon)
        await receiver.dead_letter_message(dead, reason="r", error_description="d")
        await receiver.defer_message(defer)
        assert defer.sequence_number is not None
        [again] = await receiver.receive_messages(max_wait_time=5)
        assert (str(again), again.delivery_count) == ("abandon", 1)
        assert await receiver.renew_message_lock(again) > locked_until
        await receiver.complete_message(again)
        [deferred] = await receiver.receive_deferred_messages([defer.sequence_number])
        await receiver.complete_message(deferred)
        assert await receiver.peek_messages() == []
        async with bus.get_subscription_receiver(topic, "s", sub_queue="deadletter") as letters:
            [letter] = await letters.receive_messages(max_wait_time=5)
            assert (letter.dead_letter_reason, letter.dead_letter_error_description) == ("r", "d")
            await letters.complete_message(letter)
    numbers = counts(service_bus, topic)
    assert (numbers["active"], numbers["locked"], numbers["deferred"], numbers["deadLettered"]) == (0, 0, 0, 0)


async def test_a_streaming_receiver_gets_messages_as_they_come(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus)
    got: list[str] = []
    async with _client(service_bus) as bus, bus.get_subscription_receiver(topic, "s") as receiver:

        async def consume() -> None:
            async for message in receiver:
                got.append(str(message))
                await receiver.complete_message(message)
                if len(got) == 50:
                    return

        consumer = asyncio.create_task(consume())
        async with bus.get_topic_sender(topic) as sender:
            for number in range(50):
                await sender.send_messages(ServiceBusMessage(str(number)))
        await asyncio.wait_for(consumer, 20)
    assert got == [str(number) for number in range(50)]


@pytest.mark.large
async def test_many_sends_at_once_each_arrive_once(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus)
    async with (
        _client(service_bus) as bus,
        bus.get_subscription_receiver(topic, "s") as receiver,
        bus.get_topic_sender(topic) as sender,
    ):
        bodies = [str(number) for number in range(300)]
        await asyncio.gather(
            *(sender.send_messages(ServiceBusMessage(body, message_id=uuid.uuid4().hex)) for body in bodies)
        )
        assert sorted(await _receive(receiver, 300)) == sorted(bodies)


@pytest.mark.large
async def test_a_batch_of_as_much_as_fits(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    async with (
        _client(service_bus) as bus,
        bus.get_subscription_receiver(topic, "s", receive_mode=mode) as receiver,
        bus.get_topic_sender(topic) as sender,
    ):
        batch = await sender.create_message_batch()
        size = 0
        try:
            for size in range(100_000):  # noqa: B007 # how many fit
                batch.add_message(ServiceBusMessage("x" * 100, application_properties={"routingKey": "a.b.c"}))
        except ValueError:
            pass
        await sender.send_messages(batch)
        assert size > 1000
        assert counts(service_bus, topic)["active"] == size
        received = 0
        while received < size:
            messages = await receiver.receive_messages(max_message_count=500, max_wait_time=5)
            assert messages
            received += len(messages)
    assert received == size


@pytest.mark.large
async def test_errors_have_their_names(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus, {"name": "s", "lockSeconds": 0.3})
    async with _client(service_bus) as bus:
        with pytest.raises(MessagingEntityNotFoundError):
            async with bus.get_topic_sender("no-such-topic") as sender:
                await sender.send_messages(ServiceBusMessage("x"))
        async with bus.get_subscription_receiver(topic, "s") as receiver:
            async with bus.get_topic_sender(topic) as sender:
                await sender.send_messages(ServiceBusMessage("x"))
            [lost] = await receiver.receive_messages(max_wait_time=5)
            [_] = await receiver.receive_messages(max_wait_time=5)
            with pytest.raises(MessageLockLostError):
                await receiver.renew_message_lock(lost)
