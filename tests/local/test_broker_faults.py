"""Faults of the local Service Bus on request: counted, never by chance, and nothing acknowledged is ever lost."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSender
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

from tests.local.broker_support import client, counts, new_topic, receive, texts
from tests.local.stacks import wait
from tools.local.service_bus import ControlError, ServiceBus

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


def test_refusals_end_after_their_count_or_on_request(bus: ServiceBus, topic: str) -> None:
    with client(bus) as service_bus, service_bus.get_topic_sender(topic) as sender:
        bus.refuse(count=2)
        assert _outcomes(sender, 4) == [False, False, True, True]
        bus.refuse()
        assert _outcomes(sender, 2) == [False, False]
        bus.accept()
        assert _outcomes(sender, 2) == [True, True]


@pytest.mark.parametrize(
    ("condition", "error"),
    [("com.microsoft:server-busy", ServiceBusServerBusyError), ("amqp:internal-error", ServiceBusError)],
)
def test_the_condition_of_a_refusal_reaches_the_client(
    bus: ServiceBus, topic: str, condition: str, error: type[ServiceBusError]
) -> None:
    bus.refuse(condition)
    with (
        client(bus) as service_bus,
        service_bus.get_topic_sender(topic) as sender,
        pytest.raises(error, match="request of a test"),
    ):
        sender.send_messages(ServiceBusMessage("x"))
    assert counts(bus, topic)["active"] == 0


def test_a_fault_may_be_for_one_topic(bus: ServiceBus, topic: str) -> None:
    bus.refuse(topic=topic.upper())
    with client(bus) as service_bus:
        with service_bus.get_topic_sender(topic) as sender:
            assert _outcomes(sender, 1) == [False]
        with service_bus.get_topic_sender(new_topic(bus)) as sender:
            assert _outcomes(sender, 1) == [True]


def test_the_sdk_retries_a_refused_send(bus: ServiceBus, topic: str) -> None:
    bus.refuse(count=2)
    with client(bus, retry_total=3) as service_bus, service_bus.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("x"))
    assert counts(bus, topic)["active"] == 1


@pytest.mark.parametrize("drop", [False, True])
def test_what_was_stored_though_refused_is_not_stored_twice(bus: ServiceBus, topic: str, drop: bool) -> None:
    """The answer is lost: the client repeats, and duplicate detection hides it."""
    (bus.drop if drop else bus.refuse)(count=1, stored=True)
    before = bus.state()["topics"][topic]["duplicates"]
    with client(bus, retry_total=3) as service_bus, service_bus.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("x", message_id=f"stored-{drop}"))
    assert counts(bus, topic)["active"] == 1
    assert bus.state()["topics"][topic]["duplicates"] == before + 1


@pytest.mark.large
def test_a_dropped_connection_is_opened_again(bus: ServiceBus, topic: str) -> None:
    bus.drop(every=2)
    with client(bus, retry_total=3) as service_bus, service_bus.get_topic_sender(topic) as sender:
        assert _outcomes(sender, 3) == [True, True, True]
    assert counts(bus, topic)["active"] == 3


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


def test_a_pause_makes_sends_time_out_and_takes_them_after_all(bus: ServiceBus, topic: str) -> None:
    bus.pause()
    with (
        client(bus) as service_bus,
        service_bus.get_topic_sender(topic) as sender,
        pytest.raises(OperationTimeoutError),
    ):
        sender.send_messages(ServiceBusMessage("late"), timeout=0.5)
    bus.resume()
    wait(lambda: counts(bus, topic)["active"] == 1)


async def test_a_pause_lets_receivers_go_on(bus: ServiceBus, topic: str) -> None:
    async with AsyncServiceBusClient.from_connection_string(bus.connection_string) as service_bus:
        async with service_bus.get_topic_sender(topic) as sender:
            await sender.send_messages(ServiceBusMessage("x"))
        await asyncio.to_thread(bus.pause)
        async with service_bus.get_subscription_receiver(topic, "s") as receiver:
            [message] = await receiver.receive_messages(max_wait_time=5)
            await receiver.complete_message(message)
    assert counts(bus, topic)["active"] == 0


@pytest.mark.parametrize("condition", [None, "amqp:connection:forced"])
@pytest.mark.large
def test_closed_connections_are_opened_again(bus: ServiceBus, topic: str, condition: str | None) -> None:
    with (
        client(bus, retry_total=3) as service_bus,
        service_bus.get_topic_sender(topic) as sender,
        service_bus.get_subscription_receiver(topic, "s") as receiver,
    ):
        sender.send_messages(ServiceBusMessage("1"))
        assert texts(receive(receiver, 1)) == ["1"]
        bus.close_connections(condition)
        wait(lambda: bus.state()["connections"] == 0)
        assert counts(bus, topic)["consumers"] == 0
        sender.send_messages(ServiceBusMessage("2"))
        assert texts(receive(receiver, 1)) == ["2"]
    assert counts(bus, topic)["locked"] == 2, "a lock outlives its connection"


def test_an_absent_broker_refuses_connections_and_keeps_its_messages(bus: ServiceBus, topic: str) -> None:
    with client(bus) as service_bus:
        with service_bus.get_topic_sender(topic) as sender:
            sender.send_messages(ServiceBusMessage("kept"))
        bus.go_away()
        assert bus.state()["listening"] is False
        with pytest.raises(ServiceBusConnectionError), service_bus.get_topic_sender(topic) as sender:
            sender.send_messages(ServiceBusMessage("x"))
        bus.come_back()
        assert bus.state()["listening"] is True
        with service_bus.get_subscription_receiver(topic, "s") as receiver:
            got = receive(receiver, 1)
            assert texts(got) == ["kept"]
            receiver.complete_message(got[0])


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"every": 0}, "whole numbers above 0"),
        ({"count": 1.5}, "whole numbers above 0"),
        ({"action": "explode"}, "one of reject, release, modify, drop"),
        ({"chance": 0.5}, "a fault has no field chance"),
    ],
    ids=str,
)
def test_a_bad_fault_changes_nothing(bus: ServiceBus, body: dict[str, object], error: str) -> None:
    with pytest.raises(ControlError, match=error):
        bus._request("POST", "/fault", body)
    assert bus.state()["fault"] is None


def test_an_unknown_request_is_refused(bus: ServiceBus, topic: str) -> None:
    with pytest.raises(ControlError, match="no such request: POST /explode"):
        bus._request("POST", "/explode")
    with pytest.raises(ControlError, match="topic nothing does not exist"):
        bus.add_subscription("nothing", "s")
    with pytest.raises(ControlError, match=f"topic {topic} exists"):
        bus.add_topic(topic)


@pytest.mark.large
async def test_thousands_of_sends_of_which_one_in_ten_fails_all_arrive_once(bus: ServiceBus, topic: str) -> None:
    senders, each = 4, 400
    total = senders * each
    bus.refuse(every=10, stored=True, topic=topic)
    async with AsyncServiceBusClient.from_connection_string(
        bus.connection_string, retry_total=5, retry_backoff_factor=0.001, retry_backoff_max=0.01
    ) as service_bus:

        async def send(first: int) -> None:
            async with service_bus.get_topic_sender(topic) as sender:
                for number in range(first, first + each):
                    await sender.send_messages(ServiceBusMessage("x", message_id=str(number)))

        await asyncio.gather(*(send(number * each) for number in range(senders)))
        async with service_bus.get_subscription_receiver(topic, "s", receive_mode="receiveanddelete") as receiver:
            ids: list[str | None] = []
            while len(ids) < total:
                got = await receiver.receive_messages(max_message_count=500, max_wait_time=5)
                assert got
                ids += [message.message_id for message in got]
    assert sorted(int(name or -1) for name in ids) == list(range(total))
    state = bus.state()["topics"][topic]
    assert state["refused"] == state["duplicates"] >= total // 10
