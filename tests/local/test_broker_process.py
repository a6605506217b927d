"""The local Service Bus as a process: how it starts, what it refuses, and that it goes with its parent."""

import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

from tests.local.broker_support import client, counts, receive, send, texts
from tests.local.stacks import is_running, wait
from tools.local.service_bus import ServiceBus, Topic

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "tools" / "local" / "broker" / "main.js"

pytestmark = pytest.mark.usefixtures("quick_sdk")


def test_it_starts_with_topics_of_every_form_and_stops(tmp_path: Path) -> None:
    topics: list[Topic] = [
        "plain",
        {"name": "full", "subscriptions": [{"name": "own", "rules": []}], "duplicateDetectionSeconds": 5},
    ]
    with ServiceBus.start(topics, subscriptions=["everything"], logs=tmp_path, lockSeconds=7) as bus:
        assert "UseDevelopmentEmulator=true" in bus.connection_string
        declared = {name: sorted(topic["subscriptions"]) for name, topic in bus.state()["topics"].items()}
        assert declared == {"plain": ["everything"], "full": ["everything", "own"]}
        with client(bus) as service_bus, service_bus.get_subscription_receiver("plain", "everything") as receiver:
            send(service_bus, "plain", "x")
            [message] = receive(receiver, 1)
            assert message.locked_until_utc is not None
            assert message.enqueued_time_utc is not None
            assert 6 < (message.locked_until_utc - message.enqueued_time_utc).total_seconds() < 8
        pid = bus.pid
        assert (tmp_path / "service-bus.log").read_text().startswith('{"amqpPort":')
    assert not is_running(pid)


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"topic": []}, "configuration has an unknown key: topic"),
        ({"amqpPort": 70000}, "configuration: amqpPort must be a port"),
        ({"topics": {}}, "configuration: topics must be a list"),
        ({"lockSeconds": 0}, "configuration: lockSeconds must be a number above 0"),
        ({"topics": [{}]}, "topic: name must be a string"),
        ({"topics": ["t"]}, "topic must be an object"),
        ({"topics": [{"name": "a b"}]}, "a topic needs a name of 1 to 260 characters"),
        ({"topics": [{"name": "t"}, {"name": "T"}]}, "topic T exists"),
        ({"topics": [{"name": "t", "subscriptions": [{"name": "a/b"}]}]}, "a subscription needs a name of 1 to 50"),
        ({"topics": [{"name": "t", "subscriptions": [{"name": "s"}, {"name": "S"}]}]}, "subscription S .* exists"),
        (
            {"topics": [{"name": "t", "subscriptions": [{"name": "s", "maxDeliveryCount": 1.5}]}]},
            "subscription: maxDeliveryCount must be a whole number above 0",
        ),
        (
            {"topics": [{"name": "t", "subscriptions": [{"name": "s", "rules": [{"name": "r", "sql": "a"}]}]}]},
            "SQL filter: expected a comparison",
        ),
    ],
    ids=str,
)
def test_a_bad_configuration_stops_the_start_with_one_line(config: Mapping[str, Any], error: str) -> None:
    done = subprocess.run(
        ["node", str(MAIN), "--config", json.dumps(config)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert re.match(f"broker: .*{error}", line)


def test_a_killed_parent_leaves_nothing_running() -> None:
    script = (
        "import time; from tools.local.service_bus import ServiceBus\n"
        "bus = ServiceBus.start(['t']); print(bus.pid, flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    wait(lambda: not is_running(pid))


@pytest.mark.usefixtures("lost_connections")
def test_a_killed_broker_starts_again_empty_on_its_port() -> None:
    with ServiceBus.start(["t"], subscriptions=["s"]) as bus:
        address = bus.connection_string
        with client(bus, retry_total=3) as service_bus, service_bus.get_topic_sender("t") as sender:
            sender.send_messages(ServiceBusMessage("lost"))
            bus.kill()
            bus.restart()
            assert bus.connection_string == address
            sender.send_messages(ServiceBusMessage("kept"))
            with service_bus.get_subscription_receiver("t", "s") as receiver:
                assert texts(receive(receiver, 1)) == ["kept"]


def test_other_protocols_and_broken_messages_do_no_harm(service_bus: ServiceBus) -> None:
    topic = uuid.uuid4().hex
    service_bus.add_topic({"name": topic, "subscriptions": [{"name": "s"}]})
    for start in (b"\x16\x03\x01\x02\x00", b"AMQP\x00\x01\x00\x00\xff\xff\xff\xff\xff", b"AMQX", b"NONSENSE\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", service_bus.port), timeout=5) as connection:
            connection.sendall(start)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1000):
                pass
    with pytest.raises(urllib.error.HTTPError) as answer:
        urllib.request.urlopen(f"http://127.0.0.1:{service_bus.port}/none")
    assert answer.value.code == 404
    answer.value.close()
    with client(service_bus) as bus:
        send(bus, topic, "x")
    assert counts(service_bus, topic)["active"] == 1
