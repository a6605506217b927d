"""A running deployment as its clients see it: the PyPI client, the npm client, and bare requests."""

from __future__ import annotations

import atexit
import http.client
import json
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import taskcluster
from taskcluster.exceptions import TaskclusterAuthFailure, TaskclusterRestFailure

from tools.local import state
from tools.local.stack import Stack

Credentials = Mapping[str, str]

_JAVASCRIPT = Path(__file__).parent / "javascript.mjs"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call: a result, or an error's status and code."""

    status: int
    body: Any

    @property
    def code(self) -> str | None:
        """The code of the error envelope."""
        return self.body.get("code") if isinstance(self.body, dict) else None


@dataclass(frozen=True)
class Deployment:
    """A root URL, the root client's credentials, the folder of the hosts' logs, and the stack's storage."""

    root_url: str
    root: Credentials = field(repr=False)
    azure_paths: bool
    logs: Path
    storage: str = field(repr=False)
    """The storage account's connection string."""
    service_bus: str = field(repr=False)
    """The Service Bus namespace's connection string."""

    @classmethod
    def of(cls, stack: Stack) -> Deployment:
        environment = stack.environment
        return cls(
            root_url=environment["TASKCLUSTER_ROOT_URL"],
            root={
                "clientId": environment["TASKCLUSTER_CLIENT_ID"],
                "accessToken": environment["TASKCLUSTER_ACCESS_TOKEN"],
            },
            azure_paths=stack.options.azure_paths,
            logs=state.logs_folder(stack.options.ports.api),
            storage=environment["AZURE_STORAGE_CONNECTION_STRING"],
            service_bus=environment["SERVICEBUS_CONNECTION_STRING"],
        )

    def options(self, credentials: Credentials | None, *, authorized: Sequence[str] | None = None) -> dict[str, Any]:
        """Returns options of either client; None stands for no credentials."""
        chosen: dict[str, Any] = {"rootUrl": self.root_url, "maxRetries": 0}
        if credentials is not None:
            chosen["credentials"] = dict(credentials)
        if authorized is not None:
            chosen["authorizedScopes"] = list(authorized)
        return chosen

    @contextmanager
    def auth(self, credentials: Credentials | None = None, **options: Any) -> Iterator[Any]:
        """Yields the PyPI client's Auth, by default with the root credentials."""
        session = taskcluster.createSession()
        try:
            yield taskcluster.Auth(self.options(self.root if credentials is None else credentials, **options), session)
        finally:
            session.close()

    def python(
        self,
        method: str,
        *args: Any,
        credentials: Credentials | None = None,
        service: str = "Auth",
        query: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Outcome:
        """Makes a call with the PyPI client."""
        session = taskcluster.createSession()
        try:
            client = getattr(taskcluster, service)(self.options(credentials, **options), session)
            keywords: dict[str, Any] = {} if query is None else {"query": dict(query)}
            if keywords and args and isinstance(args[-1], dict):  # with options, the body goes by its name
                *args, keywords["payload"] = args  # type: ignore[assignment] # a list will do
            return Outcome(200, getattr(client, method)(*args, **keywords))
        except (TaskclusterRestFailure, TaskclusterAuthFailure) as failure:
            return Outcome(failure.status_code, failure.body)
        finally:
            session.close()

    def javascript_call(
        self,
        method: str,
        *args: Any,
        credentials: Credentials | None = None,
        service: str = "Auth",
        **options: Any,
    ) -> dict[str, Any]:
        """Returns a call for `javascript`."""
        chosen = self.options(credentials, **options)
        chosen["retries"] = chosen.pop("maxRetries")
        return {"operation": "call", "service": service, "options": chosen, "method": method, "args": list(args)}

    def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Outcome:
        """Sends a bare request with this very target on its request line."""
        site = urlsplit(self.root_url)
        connection = http.client.HTTPConnection(str(site.hostname), site.port, timeout=30)
        try:
            connection.request(method, target, body, dict(headers or {}))
            answer = connection.getresponse()
            text = answer.read()
            return Outcome(answer.status, json.loads(text) if text else None)
        finally:
            connection.close()

    def text(self, method: str, target: str) -> tuple[int, str, str]:
        """Returns status, content type and body of a bare request whose answer is no JSON."""
        site = urlsplit(self.root_url)
        connection = http.client.HTTPConnection(str(site.hostname), site.port, timeout=30)
        try:
            connection.request(method, target)
            answer = connection.getresponse()
            return answer.status, answer.getheader("content-type") or "", answer.read().decode()
        finally:
            connection.close()

    def new_client(self, *scopes: str, suffix: str = "", **changes: Any) -> Credentials:
        """Makes a client with these scopes, whose id ends with the suffix, and returns its credentials."""
        client_id = f"test/{uuid.uuid4().hex}{suffix}"
        definition = {
            "description": "of a test",
            "expires": format_time(timedelta(days=1)),
            "scopes": list(scopes),
            **changes,
        }
        with self.auth() as auth:
            created = auth.createClient(client_id, definition)
        return {"clientId": client_id, "accessToken": created["accessToken"]}

    def new_role(self, *scopes: str) -> str:
        """Makes a role with these scopes, and returns its id."""
        role_id = f"test:{uuid.uuid4().hex}"
        with self.auth() as auth:
            auth.createRole(role_id, {"description": "of a test", "scopes": list(scopes)})
        return role_id


def javascript(*calls: Mapping[str, Any]) -> list[Outcome]:
    """Makes calls with the npm client, one after the other."""
    process = _javascript_process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(calls) + "\n")
    process.stdin.flush()
    return [
        Outcome(200, outcome["result"])
        if "result" in outcome
        else Outcome(outcome["status"] or 0, {name: outcome[name] for name in ("code", "message", "body")})
        for outcome in json.loads(process.stdout.readline())
    ]


@cache
def _javascript_process() -> subprocess.Popen[str]:
    """Starts one process for all tests of this process: to load the client takes longer than many calls."""
    process = subprocess.Popen(
        ["node", str(_JAVASCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=state.ROOT
    )

    atexit.register(process.communicate)
    return process


def a_task(pool: str, **changes: Any) -> dict[str, Any]:
    """Returns a definition that is valid now; `changes` are by the contract's names."""
    return {
        "taskQueueId": pool,
        "created": format_time(timedelta(0)),
        "deadline": format_time(timedelta(hours=1)),
        "payload": {},
        "metadata": {"name": "x", "description": "x", "owner": "x@example.com", "source": "https://example.com"},
        **changes,
    }


def format_time(from_now: timedelta) -> str:
    """Returns a time relative to now, as the API takes it."""
    return (datetime.now(UTC) + from_now).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def temporary(
    issuer: Credentials,
    *scopes: str,
    name: str | None = None,
    start: timedelta = timedelta(0),
    expiry: timedelta = timedelta(minutes=20),
) -> dict[str, str]:
    """Makes temporary credentials by the PyPI client; times are relative to now."""
    now = datetime.now(UTC)
    made = taskcluster.createTemporaryCredentials(
        issuer["clientId"], issuer["accessToken"], now + start, now + expiry, list(scopes), name=name
    )
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in made.items()}
