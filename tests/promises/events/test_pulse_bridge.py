"""The bridge to RabbitMQ of the documentation, on a real RabbitMQ and the real publisher."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pika  # type: ignore[import-untyped] # no types are shipped
import pytest
from azure.servicebus import ServiceBusClient

from docs.examples.pulse_bridge import PREFIX, run
from tests.promises.events.receiving import publishing
from tests.promises.events.test_examples import NAME, life
from tests.promises.host.service import eventually
from tools.local.service_bus import ServiceBus

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the URL of a RabbitMQ of the test's own. Skips if none is installed."""
    if not SERVER.exists() or shutil.which("epmd") is None:
        pytest.skip("the bridge is tested against RabbitMQ: apt-get install rabbitmq-server")
    folder = tmp_path_factory.mktemp("rabbitmq")
    port = free_port()
    (folder / "enabled_plugins").write_text("[].")
    environment = {
        **os.environ,
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(free_port()),
        "RABBITMQ_NODENAME": f"test{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }
    url = f"amqp://guest:guest@127.0.0.1:{port}/%2F"
    with (folder / "output").open("wb") as output:
        server = subprocess.Popen(
            [str(SERVER)], env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            eventually(
                lambda: listens(port) or None, timeout=60, otherwise=lambda: (folder / "output").read_text()[-2000:]
            )
            yield url
        finally:
            os.killpg(server.pid, 15)
            server.wait(timeout=60)
            # The daemon that the server has started, which listens on a port of this test's own.
            subprocess.run(["epmd", "-kill"], env=environment, check=False, stdout=subprocess.DEVNULL)


def listens(port: int) -> bool:
    """Whether a server listens on the port, which RabbitMQ opens when it has started."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def received(channel: Any, queue: str) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Returns everything that is in a queue now."""
    found = []
    while (message := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append((message[0], message[1], json.loads(message[2])))
    return found


@pytest.mark.large
async def test_tools_of_pulse_see_what_they_bind_to(rabbitmq: str) -> None:
    """Tools of Pulse receive what they bind to, by the primary key, and by a route as an index service would."""
    topic = "task-pending"
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq))
    channel = connection.channel()
    channel.exchange_declare(PREFIX + topic, exchange_type="topic", durable=True)
    for queue, pattern in (("mine", "primary.*.0.#"), ("indexed", "route.index.#")):
        channel.queue_declare(queue)
        channel.queue_bind(queue, PREFIX + topic, pattern)
    stop = threading.Event()
    first = life(1, routes=["index.a.b", "x|~y"])
    pending = [event for each in (first, life(2, routes=[])) for event in each.schedule() if event.topic == topic]
    with ServiceBus.start((topic,), subscriptions=[NAME]) as bus:
        async with publishing(bus) as publisher:
            await publisher.publish(pending)
        with ServiceBusClient.from_connection_string(bus.connection_string) as client, ThreadPoolExecutor(1) as pool:
            bridging = pool.submit(run, client, {topic: NAME}, rabbitmq, stop)
            try:
                mine: list[tuple[Any, Any, dict[str, Any]]] = []

                def arrived() -> bool | None:
                    mine.extend(received(channel, "mine"))
                    return len(mine) == 2 or bridging.done() or None

                eventually(arrived, timeout=60)
            finally:
                stop.set()
            bridging.result()
    by_task = {message["status"]["taskId"]: (method, properties) for method, properties, message in mine}
    method, properties = by_task[first.definition.task_id]
    assert method.routing_key == pending[0].properties["routingKey"]
    assert properties.headers["CC"] == ["route.index.a.b", "route.x|~y"]
    ((_, _, indexed),) = received(channel, "indexed")
    assert indexed["status"]["taskId"] == first.definition.task_id
    connection.close()
