"""The function of the documentation that passes events on to mail and Teams: real events, a real subscription."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from azure.functions.servicebus import ServiceBusMessage
from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio.management import ServiceBusAdministrationClient

from docs.examples import notify
from shared.queue.events.exchanges import parse_exchange
from shared.queue.events.rendering import EventMessage
from shared.queue.tasks.rules import Resolved
from tests.events.builders import Life
from tests.events.receiving import publishing, received
from tools.listen.subscription import rules_for_any, subscription
from tools.local.service_bus import ServiceBus
from tools.local.service_bus_admin import AsyncPlainHttpTransport

PATTERNS = ("route.notify.email.#", "route.notify.teams.#")
MAIL = "notify.email.me@example.com"
TEAMS = "notify.teams.build-status"
IDLE = timedelta(minutes=5)
ROOT_URL = "https://queue.example.com"


class Sink:
    """Where notices go: by the last word of the address."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.status = 202
        self.url = ""


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    with listening() as there:
        monkeypatch.setenv("TASKCLUSTER_ROOT_URL", f"{ROOT_URL}/")
        for kind in ("EMAIL", "TEAMS"):
            monkeypatch.setenv(f"NOTIFY_{kind}_URL", f"{there.url}/{kind.lower()}")
        yield there


@contextmanager
def listening() -> Iterator[Sink]:
    there = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            there.got.append((self.path.strip("/"), body))
            self.send_response_only(there.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    there.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def as_trigger(body: bytes, properties: Mapping[str, Any]) -> ServiceBusMessage:
    """What the host makes of a message."""
    return ServiceBusMessage(body=body, application_properties={**properties}, message_id="m", user_properties={})


def of_received(message: ServiceBusReceivedMessage) -> ServiceBusMessage:
    """The same of one that was received, whose properties are bytes on the wire."""
    named: Mapping[Any, Any] = message.application_properties or {}
    return as_trigger(str(message).encode(), {_text(name): _text(value) for name, value in named.items()})


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def ended(number: int, resolution: Resolved, *routes: str) -> list[EventMessage]:
    """What is announced of a task that ends so."""
    life = Life.begin(task_id=f"{number:08d}QACAAAAAAAAAAA", routes=list(routes))
    life.schedule()
    life.claim()
    return life.report(resolution)


@pytest.mark.parametrize(
    ("topic", "state", "reason", "told"),
    [
        ("task-defined", "pending", None, ["defined", "transition"]),
        ("task-pending", "pending", None, ["pending", "transition"]),
        ("task-running", "running", None, ["running", "transition"]),
        ("task-completed", "completed", "completed", ["any", "completed", "resolved", "transition"]),
        ("task-failed", "failed", "failed", ["any", "failed", "resolved", "transition"]),
        ("task-exception", "exception", "malformed-payload", ["any", "exception", "resolved", "transition"]),
        ("task-exception", "exception", "canceled", []),
        ("task-exception", "exception", "deadline-exceeded", []),
        ("task-exception", "pending", "claim-expired", []),
    ],
)
def test_who_is_told_of_what(topic: str, state: str, reason: str | None, told: list[str]) -> None:
    """As by Taskcluster's Notify: nothing of what somebody has cancelled, and all of what is on its way for
    on-transition."""
    events = ["any", "completed", "defined", "exception", "failed", "pending", "resolved", "running", "transition"]
    routes = "".join(f"|.notify.matrix-room.a.b.{event}.on-{event}.|" for event in events)
    runs = [{"state": state, "reasonResolved": reason}] if reason or state == "running" else []
    event = {"status": {"taskId": "a", "taskQueueId": "p/w", "state": state, "runs": runs}}
    found = list(notify.notices(topic, event | ({"runId": 0} if runs else {}), routes, ROOT_URL))
    assert [(each.kind, each.address) for each in found] == [("matrix-room", f"a.b.{event}") for event in told]


async def test_tasks_that_failed_are_passed_on_to_those_who_asked(sink: Sink) -> None:
    with ServiceBus.start(["task-failed"]) as bus:
        async with ServiceBusAdministrationClient.from_connection_string(
            bus.connection_string, transport=AsyncPlainHttpTransport()
        ) as admin:
            rules = rules_for_any(parse_exchange("task-failed"), PATTERNS)
            async with subscription(admin, "task-failed", "notify", rules, IDLE), publishing(bus) as publisher:
                await publisher.publish(
                    [
                        *ended(1, Resolved.FAILED, "index.a", f"{MAIL}.on-failed", f"{TEAMS}.on-any"),
                        *ended(2, Resolved.FAILED, "index.a"),
                        *ended(3, Resolved.FAILED, f"{MAIL}.on-completed"),
                    ]
                )
                messages = await received(bus, "task-failed", 2, "notify")
    assert len(messages) == 2, "the filter leaves out a task without such routes"
    for message in messages:
        notify.notify("task-failed", of_received(message))
    task_id = "00000001QACAAAAAAAAAAA"
    assert sorted((where, body["address"]) for where, body in sink.got) == [
        ("email", "me@example.com"),
        ("teams", "build-status"),
    ]
    assert {body["subject"] for _, body in sink.got} == {f"Task {task_id} has failed"}
    assert {body["link"] for _, body in sink.got} == {f"{ROOT_URL}/tasks/{task_id}"}
    assert {body["text"] for _, body in sink.got} == {"Run 0 in prov/pool: failed."}


def test_it_is_triggered_by_its_subscription_on_each_topic() -> None:
    found = {str(one.get_function_name()): json.loads(str(one)) for one in notify.app.get_functions()}
    assert set(found) == {f"notify_{topic.replace('-', '_')}" for topic in notify.TOPICS}
    for name, function in found.items():
        (binding,) = function["bindings"]
        assert binding["type"] == "serviceBusTrigger"
        assert binding["topicName"] == name.removeprefix("notify_").replace("_", "-")
        assert (binding["subscriptionName"], binding["connection"]) == ("notify", "ServiceBus")
