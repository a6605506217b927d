"""Receiving from the local Service Bus with Microsoft's SDK: locks, their end, and every way to settle a message."""

from unittest.mock import PropertyMock, patch

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageLockLostError

from tests.parts.local.broker_support import client, counts, new_topic, receive, send, texts
from tools.local.service_bus import ServiceBus

pytestmark = pytest.mark.usefixtures("quick_sdk")


def test_receive_and_delete_takes_messages_at_once(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client(service_bus) as bus, bus.get_subscription_receiver(topic, "s", receive_mode=mode) as receiver:
        send(bus, topic, "a", "b")
        assert texts(receive(receiver, 2)) == ["a", "b"]
        numbers = counts(service_bus, topic)
        assert (numbers["active"], numbers["completed"]) == (0, 2)


def test_an_abandoned_message_comes_again_before_later_ones(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus)
    with client(service_bus) as bus, bus.get_subscription_receiver(topic, "s") as receiver:
        send(bus, topic, "a", "b")
        [first] = receive(receiver, 1)
        receiver.abandon_message(first)
        again = receive(receiver, 2)
        assert texts(again) == ["a", "b"]
        assert [message.delivery_count for message in again] == [1, 0]
        assert again[0].lock_token != first.lock_token


def test_the_last_failed_delivery_makes_a_dead_letter(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus, {"name": "s", "maxDeliveryCount": 2})
    with client(service_bus) as bus, bus.get_subscription_receiver(topic, "s") as receiver:
        send(bus, topic, ServiceBusMessage("x", application_properties={"mine": 1}))
        for _ in range(2):
            receiver.abandon_message(receive(receiver, 1)[0])
        with bus.get_subscription_receiver(topic, "s", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
            [letter] = receive(dead, 1)
            assert str(letter) == "x"
            assert letter.dead_letter_reason == "MaxDeliveryCountExceeded"
            assert (letter.application_properties or {})[b"mine"] == 1
            dead.abandon_message(letter)
            [letter] = receive(dead, 1)
            dead.complete_message(letter)
    numbers = counts(service_bus, topic)
    assert (numbers["active"], numbers["deadLettered"]) == (0, 0)


def test_a_lock_that_expires_gives_the_message_to_another(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus, {"name": "s", "lockSeconds": 0.3})
    with (
        client(service_bus) as bus,
        bus.get_subscription_receiver(topic, "s") as slow,
        bus.get_subscription_receiver(topic, "s") as other,
    ):
        send(bus, topic, "x")
        [lost] = receive(slow, 1)
        [got] = receive(other, 1)
        assert got.delivery_count == 1
        with pytest.raises(MessageLockLostError):
            slow.renew_message_lock(lost)
        # The SDK looks at its own clock first: let the broker answer.
        with (
            patch.object(ServiceBusReceivedMessage, "_lock_expired", PropertyMock(return_value=False)),
            pytest.raises(MessageLockLostError),
        ):
            slow.complete_message(lost)
        other.complete_message(got)
    assert counts(service_bus, topic)["completed"] == 1
