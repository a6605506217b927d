"""Forwards events to RabbitMQ, for tools that read Taskcluster's exchanges there (Pulse).

Each topic becomes the durable topic exchange `exchange/taskcluster-queue/v1/<topic>`, with Taskcluster's routing key
and the routes as header `CC`, so that bindings such as `route.index.#` work as they do there. A message is settled in
Service Bus after RabbitMQ has confirmed it: it is delivered at least once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pika  # type: ignore[import-untyped] # no types are shipped
from azure.identity import DefaultAzureCredential
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus.exceptions import ServiceBusError

from docs.examples.program import parser
from tools.listen.patterns import routes_of

PREFIX = "exchange/taskcluster-queue/v1/"
_WAIT = 5.0
"""Seconds that a receive waits: between two, RabbitMQ's heartbeats are answered."""


class Bridge:
    """One topic's connection to RabbitMQ. Used by one thread."""

    def __init__(self, url: str, topic: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._exchange = PREFIX + topic
        self._channel.exchange_declare(self._exchange, exchange_type="topic", durable=True)

    def forward(self, message: ServiceBusReceivedMessage) -> None:
        """Publishes a message; returns after RabbitMQ has confirmed it. Raises pika's errors if it does not."""
        words = {_text(name): _text(value) for name, value in (message.application_properties or {}).items()}
        headers = {"CC": [f"route.{route}" for route in routes_of(words)]}
        properties = pika.BasicProperties(
            content_type="application/json",
            delivery_mode=pika.DeliveryMode.Persistent.value,
            message_id=message.message_id,
            headers=headers,
        )
        body = b"".join(message.body)
        self._channel.basic_publish(self._exchange, words["routingKey"], body, properties)

    def rest(self) -> None:
        """Answers heartbeats. To be called every few seconds."""
        self._connection.process_data_events(0)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


def run(client: ServiceBusClient, subscriptions: Mapping[str, str], url: str, stop: threading.Event) -> None:
    """Forwards the subscription (value) of each topic (key), one thread each, until `stop` is set.

    The first failure ends all threads and is raised: let the platform start the program again.
    """
    failures: list[Exception] = []

    def forwarding(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as failure:
            failures.append(failure)
            stop.set()

    def topic_work(topic: str, name: str) -> Callable[[], None]:
        return lambda: _forward_all(client.get_subscription_receiver(topic, name), Bridge(url, topic), stop)

    threads = [
        threading.Thread(target=forwarding, args=(topic_work(topic, name),)) for topic, name in subscriptions.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _forward_all(receiver: ServiceBusReceiver, bridge: Bridge, stop: threading.Event) -> None:
    try:
        with receiver:
            while not stop.is_set():
                for message in receiver.receive_messages(max_message_count=50, max_wait_time=_WAIT):
                    bridge.forward(message)
                    receiver.complete_message(message)
                bridge.rest()
    finally:
        bridge.close()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def connect() -> ServiceBusClient:
    """Returns a client of the namespace that the environment names: by a connection string, or by its name and the
    identity of who runs this. Raises ValueError if it names none."""
    if connection_string := os.environ.get("SERVICEBUS_CONNECTION_STRING"):
        return ServiceBusClient.from_connection_string(connection_string)
    if namespace := os.environ.get("SERVICEBUS_NAMESPACE"):
        return ServiceBusClient(namespace, DefaultAzureCredential())
    raise ValueError("set SERVICEBUS_CONNECTION_STRING or SERVICEBUS_NAMESPACE")


def main() -> None:
    """Forwards until Ctrl-C or SIGTERM; a failure is one line on standard error and exit code 1."""
    arguments = parser(__doc__)
    arguments.add_argument("url", help="amqp://<user>:<password>@<host>/<virtual host>")
    arguments.add_argument("subscription", help="its name, which is the same on each topic")
    arguments.add_argument("topic", nargs="+", help="for example task-completed")
    given = arguments.parse_args()
    prefix = os.environ.get("TOPIC_PREFIX", "")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with connect() as client:
            print(f"forwarding {', '.join(given.topic)}", file=sys.stderr, flush=True)
            run(client, {prefix + topic: given.subscription for topic in given.topic}, given.url, stop)
    except pika.exceptions.AMQPConnectionError as error:
        sys.exit(f"RabbitMQ: {error!r}")
    except (ValueError, ServiceBusError) as error:
        sys.exit(str(error).partition("\n")[0])


if __name__ == "__main__":
    main()
