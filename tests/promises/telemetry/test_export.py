"""Telemetry that a whole stack exports to a collector: spans, logs and metrics of a task's life."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from shared.base.ids import new_slugid
from shared.telemetry.instruments import INSTRUMENTS
from tests.parts.local.stacks import free_ports
from tests.promises.clients.deployment import Credentials, Deployment
from tests.promises.host.service import METADATA, eventually, in_future
from tests.promises.telemetry.collector import Collector, attributes, collecting
from tests.promises.telemetry.test_meter import parsed
from tools.admin.signing import signed_url
from tools.local import settings_docs, state
from tools.local.stack import Stack, StackOptions

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@dataclass(frozen=True)
class Life:
    """A deployment on which a task was created, claimed and completed, and the collector of its telemetry."""

    deployment: Deployment
    collector: Collector
    task_id: str

    def is_measured(self, name: str, labels: dict[str, str], value: float) -> bool:
        """Whether a series has had this value."""
        points = [point for point in self.collector.points(name) if point["labels"] == labels]
        return value in [float(point["asDouble"] if "asDouble" in point else point["asInt"]) for point in points]


@pytest.fixture(scope="module")
def life() -> Iterator[Life]:
    """Yields the life of one task, exported to a collector."""
    with collecting() as collector:
        settings = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_METRIC_EXPORT_INTERVAL": "300",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_BLRP_SCHEDULE_DELAY": "200",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
            "APPLICATIONINSIGHTS_CONNECTION_STRING": "InstrumentationKey=00000000-0000-0000-0000-000000000000;"
            f"IngestionEndpoint={collector.url}/;LiveEndpoint={collector.url}/",
            "LONG_POLL_SECONDS": "1",
        }
        options = StackOptions(free_ports(), in_memory=True, app_settings=settings)
        try:
            with Stack.start(options) as stack:
                deployment = Deployment.of(stack)
                logs = deployment.logs.glob
                eventually(lambda: any("telemetry is exported" in log.read_text() for log in logs("host-*.log")))
                yield Life(deployment, collector, one_task(deployment))
        finally:
            shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)


def one_task(deployment: Deployment) -> str:
    """Runs a task from its creation to its completion."""
    task_id = new_slugid()
    call(deployment, "createTask", task_id, a_task())
    work = call(deployment, "claimWork", "telemetry/pool", {"workerGroup": "g", "workerId": "w"})
    assert [claim["status"]["taskId"] for claim in work["tasks"]] == [task_id]
    call(deployment, "reportCompleted", task_id, "0")
    return task_id


def a_task() -> dict[str, Any]:
    return {
        "taskQueueId": "telemetry/pool",
        "created": in_future(0),
        "deadline": in_future(600),
        "payload": {},
        "metadata": METADATA,
    }


def call(deployment: Deployment, method: str, *args: Any) -> Any:
    outcome = deployment.python(method, *args, credentials=deployment.root, service="Queue")
    assert outcome.status == 200, outcome
    return outcome.body


def metrics_url(deployment: Deployment, credentials: Credentials) -> str:
    """Returns the path of /metrics, signed, as Prometheus would ask for it."""
    signed = signed_url(credentials, f"{deployment.root_url}/metrics", timedelta(days=3650))
    return signed.removeprefix(deployment.root_url)


def test_a_call_is_a_span_with_its_storage_requests_below(life: Life) -> None:
    def created() -> dict[str, Any] | None:
        return next((span for span in life.collector.spans if span["name"] == "createTask"), None)

    span = eventually(created)
    sent = attributes(span)
    assert span["kind"] == "SPAN_KIND_SERVER"
    assert (sent["taskId"], sent["outcome"]) == (life.task_id, "200")

    def children() -> list[dict[str, Any]]:
        return [each for each in life.collector.spans if each.get("parentSpanId") == span["spanId"]]

    eventually(lambda: {each["kind"] for each in children()} == {"SPAN_KIND_CLIENT", "SPAN_KIND_PRODUCER"})
    below = children()
    assert len([each for each in below if each["kind"] == "SPAN_KIND_CLIENT"]) == int(sent["storageOperations"])
    assert {each["traceId"] for each in below} == {span["traceId"]}
    assert any(attributes(each).get("messaging.destination.name") for each in below)


def test_messages_are_spans_too(life: Life) -> None:
    """The handling of messages has spans, too, as of the resolutions that a cancellation of a group leaves to them."""
    task_id = new_slugid()
    call(life.deployment, "createTask", task_id, a_task())
    call(life.deployment, "sealTaskGroup", task_id)
    call(life.deployment, "cancelTaskGroup", task_id)

    def outcomes() -> set[object]:
        return {attributes(span)["outcome"] for span in life.collector.spans if span["kind"] == "SPAN_KIND_CONSUMER"}

    # On a busy machine a dependency may not answer in time; then the message comes again.
    eventually(lambda: "done" in outcomes())
    assert outcomes() <= {"done", "again"}


def test_metrics_have_their_names_units_and_labels(life: Life) -> None:
    assert life.deployment.request("GET", "/metrics").status == 403
    path = metrics_url(life.deployment, life.deployment.new_client("queue:metrics"))
    polls = signed_url(
        life.deployment.new_client("queue:poll-task-urls:telemetry/pool"),
        f"{life.deployment.root_url}/api/queue/v1/poll-task-url/telemetry/pool",
        timedelta(hours=1),
    )
    assert life.deployment.request("GET", polls.removeprefix(life.deployment.root_url)).status == 200

    def is_measured(name: str, labels: dict[str, str], value: float) -> bool:
        assert life.deployment.text("GET", path)[0] == 200  # has the gauges read, unless they are fresh
        return life.is_measured(name, labels, value)

    known = {instrument.name: instrument for instrument in INSTRUMENTS}
    pool = {"provisionerId": "telemetry", "workerType": "pool"}
    for name, labels, value in (
        ("queue_completed_tasks", pool, 1),
        ("queue_pending_tasks", pool, 0),
        ("queue_claimed_tasks", pool, 0),
        ("queue_desired_workers", pool, 0),
        ("queue_waiting_workers", {**pool, "way": "pollTaskUrls"}, 1),
        ("queue_poison_messages", {"queue": "claim"}, 0),
    ):
        eventually(partial(is_measured, name, labels, value), 20)
    for metric in life.collector.metrics:
        if metric["name"] in known:
            assert metric["unit"] == known[metric["name"]].unit
    for name in ("queue_storage_operations", "queue_call_duration_seconds", "queue_fan_out_lag_seconds"):
        point = eventually(partial(life.collector.points, name))[0]
        assert point["explicitBounds"] == list(known[name].buckets)


def test_lines_come_with_their_fields_and_their_trace(life: Life) -> None:
    def completed() -> dict[str, Any] | None:
        return next((line for line in life.collector.logs if attributes(line).get("action") == "run_completed"), None)

    line = eventually(completed)
    sent = attributes(line)
    assert (sent["taskId"], sent["runId"], sent["call"]) == (life.task_id, "0", "reportCompleted")
    assert sent["requestId"]
    assert "{" not in line["body"]["stringValue"]
    # Lines and spans are exported apart.
    eventually(lambda: any(span["spanId"] == line["spanId"] for span in life.collector.spans))


def test_application_insights_gets_traces_and_metrics(life: Life) -> None:
    def kinds() -> set[str]:
        return {envelope["data"]["baseType"] for envelope in life.collector.envelopes}

    eventually(lambda: {"RequestData", "RemoteDependencyData", "MetricData"} <= kinds())
    # A connection that is lost on a busy machine is logged with its exception.
    assert kinds() <= {"RequestData", "RemoteDependencyData", "MetricData", "MessageData", "ExceptionData"}
    names = {
        envelope["data"]["baseData"]["name"]
        for envelope in life.collector.envelopes
        if envelope["data"]["baseType"] == "RequestData"
    }
    assert "createTask" in names


def test_a_trace_goes_on_from_the_caller(life: Life) -> None:
    parent = f"00-{TRACE}-{PARENT}-01"
    life.deployment.request("GET", "/api/queue/v1/ping", {"traceparent": parent})

    def continued() -> dict[str, Any] | None:
        return next((span for span in life.collector.spans if span["traceId"] == _base64(TRACE)), None)

    span = eventually(continued)
    assert span["name"] == "ping"
    assert span["parentSpanId"]  # the host's own span, which is below the caller's


def test_every_line_of_a_call_names_it(life: Life) -> None:
    def created() -> dict[str, Any] | None:
        done = [sent for line in life.collector.logs if (sent := attributes(line)).get("action") == "call_done"]
        return next((sent for sent in done if (sent["call"], sent.get("taskId")) == ("createTask", life.task_id)), None)

    assert eventually(created)["requestId"]


def test_no_secret_is_exported(life: Life) -> None:
    """Neither the bewit of a call is exported nor the signatures of the URLs in its answer. An id in base64 may end in
    the letters `sig=`."""
    root, collector = life.deployment.root, life.collector
    polling = f"{life.deployment.root_url}/api/queue/v1/poll-task-url/telemetry/pool"
    path = signed_url(root, polling, timedelta(hours=1)).removeprefix(life.deployment.root_url)
    status, _, text = life.deployment.text("GET", path)
    assert (status, "&sig=" in text) == (200, True)
    eventually(lambda: {"pollTaskUrls"} <= {span["name"] for span in collector.spans} and collector.envelopes)
    sent = repr([collector.spans, collector.logs, collector.envelopes, collector.metrics])
    for secret in (re.escape(root["accessToken"]), "bewit=", "[?&]sig=", "Hawk "):
        assert re.search(f".{{,80}}{secret}.{{,80}}", sent) is None


def test_prometheus_reads_it(life: Life) -> None:
    path = metrics_url(life.deployment, life.deployment.new_client("queue:metrics"))
    status, content_type, text = life.deployment.text("GET", path)
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert ("queue_event_backlog", frozenset()) in parsed(text)

    def settled() -> dict[tuple[str, frozenset[tuple[str, str]]], float] | None:
        """Returns the metrics once no event waits in its fallback queue, as one may for a moment on a busy machine."""
        found = parsed(life.deployment.text("GET", path)[2])
        return found if found["queue_event_backlog", frozenset()] == 0 else None

    samples = eventually(settled, timeout=90)
    pool = frozenset({("provisionerId", "telemetry"), ("workerType", "pool")})
    completed = [
        value for (name, labels), value in samples.items() if name == "queue_completed_tasks" and pool < labels
    ]
    assert completed == [1]
    other = metrics_url(life.deployment, life.deployment.new_client("queue:status:*"))
    assert life.deployment.text("GET", other)[0] == 403


@pytest.mark.parametrize("endpoint", ["", "http://127.0.0.1:1"])
def test_the_sdk_is_there_only_for_exporters(endpoint: str) -> None:
    script = (
        "import sys, function_app; from functions import process;"
        "print(*(found.get_function_name() for found in function_app.app.get_functions()));"
        "print('opentelemetry.sdk' in sys.modules)"
    )
    environment = {**os.environ, **settings_docs.EXAMPLE_VALUES, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=state.ROOT, env=environment, capture_output=True, text=True, check=True
    )
    names, facts = done.stdout.splitlines()
    assert "observe" in names.split()
    if not endpoint:
        assert facts == "False"


def _base64(identifier: str) -> str:
    """Returns an id as the JSON form of protobuf has it."""
    return base64.b64encode(bytes.fromhex(identifier)).decode()
