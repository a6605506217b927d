"""Nothing secret in a log, an error or an event: every output of a run is searched for every secret that it used."""

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import taskcluster
from azure.servicebus import ServiceBusClient
from taskcluster import utils

from shared.base.ids import new_slugid
from shared.queue.events.exchanges import TOPICS
from tests.parts.local.stacks import free_ports
from tests.promises.clients.deployment import Credentials, Deployment, a_task, format_time, temporary
from tests.promises.host.service import eventually
from tests.promises.telemetry.collector import Collector, collecting
from tools.local import state
from tools.local.azurite import ACCOUNT_KEY
from tools.local.stack import Stack, StackOptions

SUBSCRIPTION = "all"
_IN_HEADER = re.compile(r'mac="([^"]+)"')


class Secrets:
    """Texts that must not appear anywhere."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def add(self, what: str, value: str) -> None:
        assert len(value) >= 20, what
        self.found[value] = what

    def add_credentials(self, what: str, credentials: Any) -> None:
        self.add(f"{what}: token", credentials["accessToken"])
        if "certificate" in credentials:
            self.add(f"{what}: signature", json.loads(credentials["certificate"])["signature"])

    def add_answer(self, body: Any) -> None:
        """Adds the secrets in an answer, at any depth."""
        if isinstance(body, dict):
            if "accessToken" in body:
                self.add_credentials("answered", body)
            for value in body.values():
                self.add_answer(value)
        elif isinstance(body, list):
            for value in body:
                self.add_answer(value)
        elif isinstance(body, str) and "?" in body:
            query = parse_qs(urlsplit(body).query)
            for name in ("sig", "signature"):  # of storage, and of our own upload route
                for signature in query.get(name, []):
                    self.add("signed URL", signature)

    def check(self, where: str, text: str) -> None:
        for value, what in self.found.items():
            for form in (value, value.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"), value.rstrip("=")):
                assert form not in text, f"{what} in {where}"


@contextmanager
def recorded(secrets: Secrets, errors: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Notes the MAC of every request of the PyPI client, the secrets in every answer, and every error."""
    send = utils.makeSingleHttpRequest

    def noting(method: str, url: str, payload: Any, headers: dict[str, Any], session: Any = None) -> Any:
        header = headers.get("Authorization", "")
        for mac in _IN_HEADER.findall(header.decode() if isinstance(header, bytes) else header):
            secrets.add("MAC", mac)
        answer = send(method, url, payload, headers, session)
        if answer.status_code >= 400:
            errors.append(answer.text)
        elif answer.content:
            secrets.add_answer(answer.json())
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(utils, "makeSingleHttpRequest", noting)
        yield


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture
def stack(collector: Collector) -> Iterator[Stack]:
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    options = StackOptions(free_ports(), in_memory=True, subscriptions=(SUBSCRIPTION,), app_settings=settings)
    try:
        with Stack.start(options) as running:
            yield running
    finally:
        shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)


def use_every_credential(deployment: Deployment, secrets: Secrets) -> list[str]:
    """Makes calls that succeed and calls that fail; returns the bodies of errors that no client reads."""
    client = deployment.new_client("auth:current-scopes", "queue:status:*", "auth:create-client:test/*")
    named = temporary(client, "auth:current-scopes", name="test/temporary")
    unnamed = temporary(client, "auth:current-scopes")
    for what, issued in (("named", named), ("unnamed", unnamed)):
        secrets.add_credentials(what, issued)
    bodies: list[str] = []
    forms: tuple[Credentials, ...] = (deployment.root, client, named, unnamed)
    for credentials in forms:
        for authorized in (None, ["auth:current-scopes"], ["beyond"], []):
            deployment.python("currentScopes", credentials=credentials, authorized=authorized)
        deployment.python("currentScopes", credentials={**credentials, "accessToken": credentials["accessToken"][::-1]})
        url = urlsplit(taskcluster.Auth(deployment.options(credentials)).buildSignedUrl("currentScopes"))
        bewit = url.query.removeprefix("bewit=")
        secrets.add("bewit", bewit)
        for target in (f"{url.path}?{url.query}", f"{url.path}x?{url.query}", f"{url.path}?{url.query}0"):
            for method in ("GET", "POST", "OPTIONS", "HEAD"):
                outcome = deployment.request(method, target) if method != "OPTIONS" else None
                bodies.append(json.dumps(outcome.body if outcome and outcome.status >= 400 else None))
    with deployment.auth() as auth:
        auth.resetAccessToken(client["clientId"])
        auth.createRole("anonymous", {"description": "of a test", "scopes": ["queue:status:*"]})
    return bodies


def run_a_task(deployment: Deployment) -> list[str]:
    """Runs a task to its end with the credentials of its claim; returns the bodies of errors."""
    task_id, queue_id = new_slugid(), "test/secrets"
    task = a_task(queue_id, scopes=["secrets:get:x"])
    root, worker = deployment.root, {"workerGroup": "g", "workerId": "w", "tasks": 1}
    assert deployment.python("createTask", task_id, task, credentials=root, service="Queue").status == 200
    poll_by_url(deployment, queue_id)
    # The poll has hidden it for a second, and a call that waits is told to call again, by 503 or empty (contract 5.1).
    claimed = eventually(
        lambda: deployment.python("claimWork", queue_id, worker, credentials=root, service="Queue").body.get("tasks"),
        60,
    )
    credentials = claimed[0]["credentials"]
    again = deployment.python("reclaimTask", task_id, "0", credentials=credentials, service="Queue")
    for issued in (credentials, again.body["credentials"]):
        refused = deployment.python("createTask", new_slugid(), task, credentials=issued, service="Queue")
        assert refused.code == "InsufficientScopes"
    bodies = upload_and_read(deployment, task_id, again.body["credentials"])
    done = deployment.python("reportCompleted", task_id, "0", credentials=again.body["credentials"], service="Queue")
    assert done.body["status"]["state"] == "completed"
    return bodies


def poll_by_url(deployment: Deployment, queue_id: str) -> None:
    """Looks into all queues of a pool by signed URLs; finds what waits there, and leaves it visible."""
    session = taskcluster.createSession()
    try:
        queue = taskcluster.Queue(deployment.options(deployment.root), session)
        urls = queue._makeHttpRequest("GET", f"poll-task-url/{queue_id}", None)["queues"]
        polled = [re.sub("visibilitytimeout=[0-9]+", "visibilitytimeout=1", url["signedPollUrl"]) for url in urls]
        assert sum("<MessageId>" in session.get(url, timeout=30).text for url in polled) == 1
    finally:
        session.close()


def upload_and_read(deployment: Deployment, task_id: str, credentials: Credentials) -> list[str]:
    """Uploads and reads artifacts by signed URLs, straight to storage and through our own route, also with a wrong
    signature; returns the bodies of errors."""
    bodies = []
    headers = {"content-type": "text/plain"}
    for name, length in (("public/direct", {"contentLength": 1 << 30}), ("public/relay", {})):
        request = {"storageType": "s3", "contentType": "text/plain", "expires": format_time(timedelta(hours=1))}
        created = deployment.python(
            "createArtifact", task_id, "0", name, {**request, **length}, credentials=credentials, service="Queue"
        )
        url = created.body["putUrl"]
        assert requests.put(url, b"content", headers=headers, timeout=30).ok
        if not length:
            bodies.append(requests.put(f"{url}x", b"content", headers=headers, timeout=30).text)
        for method in ("getLatestArtifact", "latestArtifact"):
            found = deployment.python(method, task_id, name, credentials=deployment.root, service="Queue")
            assert requests.get(found.body["url"], timeout=30).content == b"content"
    assert [json.loads(body)["code"] for body in bodies] == ["InsufficientScopes"]
    return bodies


def events_of(stack: Stack) -> list[str]:
    """Returns all events as text; receives from topics side by side, since ending a receiver takes a while."""
    with ServiceBusClient.from_connection_string(stack.environment["SERVICEBUS_CONNECTION_STRING"]) as bus:

        def read(topic: str) -> list[str]:
            with bus.get_subscription_receiver(topic, SUBSCRIPTION) as receiver:
                messages = receiver.receive_messages(max_message_count=100, max_wait_time=1)
                return [f"{one}{one.application_properties}{one.message_id}{one.subject}" for one in messages]

        with ThreadPoolExecutor(len(TOPICS)) as threads:
            return [event for events in threads.map(read, TOPICS) for event in events]


def test_nothing_secret_is_put_out(stack: Stack, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = Deployment.of(stack)
    secrets, errors = Secrets(), list[str]()
    secrets.add_credentials("root", deployment.root)
    secrets.add("account key", ACCOUNT_KEY)
    with recorded(secrets, errors, monkeypatch):
        errors += use_every_credential(deployment, secrets)
        errors += run_a_task(deployment)
        events = events_of(stack)
        stack.azurite.children["table"].kill()
        assert deployment.python("listRoles", credentials=deployment.root).status == 503
    stack.stop_hosts()
    assert len(secrets.found) > 40
    assert len(events) >= 3
    assert sum(what == "signed URL" for what in secrets.found.values()) > 10
    assert collector.spans
    secrets.check("what is exported", repr([collector.spans, collector.logs, collector.metrics]))
    assert len(errors) > 10
    for text in events:
        secrets.check("an event", text)
    for text in errors:
        secrets.check("an error", text)
    logs = [path for path in Path(deployment.logs).iterdir() if path.is_file()]
    assert any("host" in path.name and path.stat().st_size > 1000 for path in logs)
    for path in logs:
        secrets.check(path.name, path.read_text())
