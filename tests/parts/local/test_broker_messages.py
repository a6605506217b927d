"""Messages through the local Service Bus with Microsoft's SDK: what goes in comes out, and settling means something."""

import datetime
import uuid

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import MessageSizeExceededError, MessagingEntityNotFoundError

from tests.parts.local.broker_support import RECEIVE_SECONDS, client, counts, new_topic, receive, send, texts
from tests.parts.local.stacks import wait
from tools.local.service_bus import ServiceBus

pytestmark = pytest.mark.usefixtures("quick_sdk")


def _text(value: object) -> object:
    """Decodes strings inside maps, which the SDK gives as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def test_a_message_arrives_as_it_was_sent(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus)
    properties: dict[str | bytes, int | float | bytes | bool | str | uuid.UUID] = {
        "text": "ä",
        "small": 5,
        "float": 5.0,
        "negative": -7,
        "yes": True,
        "empty": "",
    }
    sent = ServiceBusMessage(
        b'{"a": 1}',
        subject="primary.x",
        message_id="m-1",
        content_type="application/json",
        correlation_id="c",
        to="t",
        reply_to="r",
        application_properties=properties,
        time_to_live=datetime.timedelta(hours=1),
    )
    with client(service_bus) as bus, bus.get_subscription_receiver(topic, "s") as receiver:
        before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
        send(bus, topic, sent)
        [got] = receive(receiver, 1)
        assert b"".join(got.body) == b'{"a": 1}'
        assert (got.subject, got.message_id, got.content_type) == ("primary.x", "m-1", "application/json")
        assert (got.correlation_id, got.to, got.reply_to) == ("c", "t", "r")
        received = {_text(key): _text(value) for key, value in (got.application_properties or {}).items()}
        assert received == properties
        assert {key: type(value) for key, value in received.items()} == {k: type(v) for k, v in properties.items()}
        assert got.time_to_live == datetime.timedelta(hours=1)
        assert got.sequence_number == 1
        assert got.delivery_count == 0
        assert got.enqueued_time_utc is not None
        assert got.enqueued_time_utc >= before
        assert got.locked_until_utc is not None
        assert 59 <= (got.locked_until_utc - got.enqueued_time_utc).total_seconds() <= 61
        receiver.complete_message(got)
    assert counts(service_bus, topic)["completed"] == 1


@pytest.mark.parametrize(
    "body",
    [{"value_body": {"a": [1, "x", None]}}, {"sequence_body": [[1, 2], ["x"]]}, {"data_body": [b"a", b"b"]}],
    ids=str,
)
def test_every_kind_of_body_is_kept(service_bus: ServiceBus, body: dict[str, object]) -> None:
    topic = new_topic(service_bus)
    message = AmqpAnnotatedMessage(**body, annotations={"x-mine": [1, 2]})  # type: ignore[arg-type] # one of three
    with client(service_bus) as bus, bus.get_subscription_receiver(topic, "s") as receiver:
        with bus.get_topic_sender(topic) as sender:
            sender.send_messages(message)
        [got] = receive(receiver, 1)
        raw = got.raw_amqp_message
        assert raw.annotations is not None
        assert raw.annotations[b"x-mine"] == [1, 2]
        expected = {"value_body": {b"a": [1, b"x", None]}, "sequence_body": [[1, 2], [b"x"]], "data_body": [b"a", b"b"]}
        [kind] = body
        content = raw.body
        assert (content if kind == "value_body" else list(content)) == expected[kind]


def test_a_batch_becomes_single_messages_in_order(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus)
    with client(service_bus) as bus, bus.get_subscription_receiver(topic, "s") as receiver:
        with bus.get_topic_sender(topic) as sender:
            batch = sender.create_message_batch()
            for number in range(60):
                batch.add_message(ServiceBusMessage(str(number), application_properties={"n": number}))
            sender.send_messages(batch)
            sender.send_messages([ServiceBusMessage("60"), ServiceBusMessage("61")])
        got = receive(receiver, 62)
        assert texts(got) == [str(number) for number in range(62)]
        assert [message.sequence_number for message in got] == list(range(1, 63))
    state = service_bus.state()["topics"][topic]
    assert (state["sends"], state["messages"]) == (2, 62)


def test_every_subscription_gets_a_copy(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus, {"name": "a"}, {"name": "b"})
    with client(service_bus) as bus:
        send(bus, topic, "x")
        for name in ("a", "b"):
            with bus.get_subscription_receiver(topic, name) as receiver:
                receiver.complete_message(receive(receiver, 1)[0])
    assert service_bus.state()["topics"][topic]["bytes"] == 0


def test_a_repeated_message_id_is_dropped_within_the_window(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus, duplicateDetectionSeconds=0.5)
    other = new_topic(service_bus)
    with client(service_bus) as bus, bus.get_subscription_receiver(topic, "s") as receiver:
        with bus.get_topic_sender(topic) as sender:
            for body in ("a", "b"):
                sender.send_messages(ServiceBusMessage(body, message_id="same"))
            sender.send_messages([ServiceBusMessage("c", message_id="same"), ServiceBusMessage("d", message_id="new")])
            sender.send_messages([ServiceBusMessage("e"), ServiceBusMessage("e")])
        assert texts(receive(receiver, 4)) == ["a", "d", "e", "e"]
        assert service_bus.state()["topics"][topic]["duplicates"] == 2
        send(bus, other, ServiceBusMessage("elsewhere", message_id="same"))
        assert counts(service_bus, other)["active"] == 1

        def sent_again() -> bool:
            send(bus, topic, ServiceBusMessage("later", message_id="same"))
            return counts(service_bus, topic)["active"] == 5

        wait(sent_again)
        assert texts(receive(receiver, 1)) == ["later"]


def test_too_large_a_message_is_refused(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus)
    with client(service_bus) as bus, bus.get_topic_sender(topic) as sender:
        batch = sender.create_message_batch()
        assert batch.max_size_in_bytes == 256 * 1024
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(bytes(256 * 1024)))
        sender.send_messages(ServiceBusMessage(bytes(255 * 1024)))
    assert service_bus.state()["topics"][topic]["messages"] == 1


def test_what_does_not_exist_is_named(service_bus: ServiceBus) -> None:
    topic = new_topic(service_bus)
    with client(service_bus) as bus:
        with pytest.raises(MessagingEntityNotFoundError, match="topic no-such-topic does not exist"):
            send(bus, "no-such-topic", "x")
        for sub_queue in (None, ServiceBusSubQueue.DEAD_LETTER):
            with (
                pytest.raises(MessagingEntityNotFoundError, match="subscription none of topic"),
                bus.get_subscription_receiver(topic, "none", sub_queue=sub_queue) as receiver,
            ):
                receiver.receive_messages(max_wait_time=RECEIVE_SECONDS)
