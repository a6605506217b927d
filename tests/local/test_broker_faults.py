"""Faults of the local Service Bus on request: counted, never by chance, and nothing acknowledged is ever lost."""

import threading
from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSender
from azure.servicebus.exceptions import (
    ServiceBusError,
)

from tests.local.broker_support import client, counts, new_topic, receive, texts
from tests.local.stacks import wait
from tools.local.service_bus import ServiceBus

pytestmark = pytest.mark.usefixtures("lost_connections")


@pytest.fixture(scope="module")
def broker() -> Iterator[ServiceBus]:
    """A broker of this module's own: its faults would disturb other tests."""
    with ServiceBus.start() as running:
        yield running


@pytest.fixture
def bus(broker: ServiceBus) -> Iterator[ServiceBus]:
    """The broker, without faults once the test is over."""
    yield broker
    broker.accept()
    broker.resume()
    broker.come_back()


@pytest.fixture
def topic(bus: ServiceBus) -> str:
    """A topic of the test's own, with subscription `s`."""
    return new_topic(bus)


def _outcomes(sender: ServiceBusSender, count: int) -> list[bool]:
    """Whether each of `count` sends was accepted."""
    outcomes = []
    for number in range(count):
        try:
            sender.send_messages(ServiceBusMessage(str(number)))
            outcomes.append(True)
        except ServiceBusError:
            outcomes.append(False)
    return outcomes


def test_every_third_send_is_refused(bus: ServiceBus, topic: str) -> None:
    bus.refuse(every=3)
    with client(bus) as service_bus, service_bus.get_topic_sender(topic) as sender:
        assert _outcomes(sender, 9) == [True, True, False] * 3
    assert counts(bus, topic)["active"] == 6
    state = bus.state()
    assert (state["seen"], state["hits"]) == (9, 3)


@pytest.mark.parametrize("drop", [False, True])
def test_what_was_stored_though_refused_is_not_stored_twice(bus: ServiceBus, topic: str, drop: bool) -> None:
    """The answer is lost: the client repeats, and duplicate detection hides it."""
    (bus.drop if drop else bus.refuse)(count=1, stored=True)
    before = bus.state()["topics"][topic]["duplicates"]
    with client(bus, retry_total=3) as service_bus, service_bus.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("x", message_id=f"stored-{drop}"))
    assert counts(bus, topic)["active"] == 1
    assert bus.state()["topics"][topic]["duplicates"] == before + 1


def test_a_pause_holds_sends_until_it_ends(bus: ServiceBus, topic: str) -> None:
    done = []
    with client(bus) as service_bus, service_bus.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("before"))
        bus.pause()

        def send() -> None:
            for text in ("during", "after"):
                sender.send_messages(ServiceBusMessage(text))
                done.append(text)

        thread = threading.Thread(target=send)
        thread.start()
        wait(lambda: bus.state()["held"] == 1)
        assert done == []
        assert counts(bus, topic)["active"] == 1
        bus.resume()
        thread.join(10)
        assert done == ["during", "after"]
        with service_bus.get_subscription_receiver(topic, "s") as receiver:
            assert texts(receive(receiver, 3)) == ["before", "during", "after"]
