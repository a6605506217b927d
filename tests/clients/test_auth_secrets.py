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
import taskcluster
from azure.servicebus import ServiceBusClient
from taskcluster import utils

from local import state
from local.azurite import ACCOUNT_KEY
from local.stack import Stack, StackOptions
from shared.events.exchanges import TOPICS
from shared.runtime import new_slugid
from tests.clients.deployment import Credentials, Deployment, format_time, temporary
from tests.local.stacks import free_ports

SUBSCRIPTION = "all"
_IN_HEADER = re.compile(r'mac="([^"]+)"')


class Secrets:
    """What must not appear anywhere."""

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
        """Whatever secrets an answer carries, at any depth."""
        if isinstance(body, dict):
            if "accessToken" in body:
                self.add_credentials("answered", body)
            for value in body.values():
                self.add_answer(value)
        elif isinstance(body, list):
            for value in body:
                self.add_answer(value)
        elif isinstance(body, str) and "sig=" in body:
            for signature in parse_qs(urlsplit(body).query).get("sig", []):
                self.add("SAS", signature)

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
def stack() -> Iterator[Stack]:
    options = StackOptions(free_ports(), in_memory=True, subscriptions=(SUBSCRIPTION,))
    try:
        with Stack.start(options) as running:
            yield running
    finally:
        shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)


def use_every_credential(deployment: Deployment, secrets: Secrets) -> list[str]:
    """Calls that succeed and calls that fail; answers the bodies of errors that no client reads."""
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


def run_a_task(deployment: Deployment) -> None:
    """A task from creation to its end, with the credentials of its claim."""
    task_id, queue_id = new_slugid(), "test/secrets"
    task = {
        "taskQueueId": queue_id,
        "created": format_time(timedelta(0)),
        "deadline": format_time(timedelta(hours=1)),
        "scopes": ["secrets:get:x"],
        "payload": {},
        "metadata": {"name": "x", "description": "x", "owner": "x@example.com", "source": "https://example.com"},
    }
    root, worker = deployment.root, {"workerGroup": "g", "workerId": "w", "tasks": 1}
    assert deployment.python("createTask", task_id, task, credentials=root, service="Queue").status == 200
    claimed = deployment.python("claimWork", queue_id, worker, credentials=root, service="Queue")
    credentials = claimed.body["tasks"][0]["credentials"]
    again = deployment.python("reclaimTask", task_id, "0", credentials=credentials, service="Queue")
    for issued in (credentials, again.body["credentials"]):
        refused = deployment.python("createTask", new_slugid(), task, credentials=issued, service="Queue")
        assert refused.code == "InsufficientScopes"
    done = deployment.python("reportCompleted", task_id, "0", credentials=again.body["credentials"], service="Queue")
    assert done.body["status"]["state"] == "completed"


def events_of(stack: Stack) -> list[str]:
    """All events, as text; the topics side by side, since ending a receiver takes a while."""
    with ServiceBusClient.from_connection_string(stack.environment["SERVICEBUS_CONNECTION_STRING"]) as bus:

        def read(topic: str) -> list[str]:
            with bus.get_subscription_receiver(topic, SUBSCRIPTION) as receiver:
                messages = receiver.receive_messages(max_message_count=100, max_wait_time=1)
                return [f"{one}{one.application_properties}{one.message_id}{one.subject}" for one in messages]

        with ThreadPoolExecutor(len(TOPICS)) as threads:
            return [event for events in threads.map(read, TOPICS) for event in events]


def test_nothing_secret_is_put_out(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = Deployment.of(stack)
    secrets, errors = Secrets(), list[str]()
    secrets.add_credentials("root", deployment.root)
    secrets.add("account key", ACCOUNT_KEY)
    with recorded(secrets, errors, monkeypatch):
        errors += use_every_credential(deployment, secrets)
        run_a_task(deployment)
        events = events_of(stack)
        stack.azurite.children["table"].kill()
        assert deployment.python("listRoles", credentials=deployment.root).status == 503
    stack.stop_hosts()
    assert len(secrets.found) > 40
    assert len(events) >= 3
    assert len(errors) > 10
    for text in events:
        secrets.check("an event", text)
    for text in errors:
        secrets.check("an error", text)
    logs = [path for path in Path(deployment.logs).iterdir() if path.is_file()]
    assert any("host" in path.name and path.stat().st_size > 1000 for path in logs)
    for path in logs:
        secrets.check(path.name, path.read_text())
