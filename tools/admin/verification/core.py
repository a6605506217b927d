"""A check of an assumption, the deployment that it looks at, and what comes out."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import requests
import taskcluster
from azure.core.exceptions import AzureError
from azure.data.tables import TableClient, TableServiceClient
from azure.identity import DefaultAzureCredential
from azure.servicebus import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError
from azure.servicebus.management import ServiceBusAdministrationClient
from azure.storage.blob import BlobServiceClient, ContainerClient
from azure.storage.queue import QueueClient, QueueServiceClient
from taskcluster.exceptions import TaskclusterFailure

from tools.admin.account import CONNECTION_STRINGS
from tools.admin.connection import credentials, root_url

PREFIX = "verify"
"""How the names begin of what is made for the checks, and removed after them."""
MANAGEMENT = "https://management.azure.com"
SECONDS = 60
"""How long a check waits for an answer."""


FAILURES = (AzureError, ServiceBusError, TaskclusterFailure, requests.RequestException, HTTPException)
"""What clients raise when a service refuses or does not answer."""


class Differs(Exception):
    """Azure does not do what is assumed; the message says what it does."""


class NotChecked(Exception):
    """The check has nothing to look at; the message says why."""


@dataclass(frozen=True)
class Check:
    """One assumption. `name` is its anchor in docs/assumptions.md."""

    name: str
    run: Callable[[Deployment], str | None]
    emulated: str | None = None
    """How the local stack is known to differ."""


@dataclass(frozen=True)
class Outcome:
    """What a check has found: `holds`, `differs`, `expected` (on the local stack) or `not checked`."""

    check: str
    result: str
    found: str
    seconds: float


@dataclass
class Deployment:
    """A deployment, and things made in it for the checks. Use as a context manager: they are removed at the end."""

    environment: Mapping[str, str]
    suffix: str = field(default_factory=lambda: secrets.token_hex(4))
    _undo: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    @cached_property
    def root_url(self) -> str:
        return root_url(self.environment).rstrip("/")

    @cached_property
    def session(self) -> requests.Session:
        """A session for plain calls, without retries."""
        return self._undo.enter_context(requests.Session())

    def api(self, name: str) -> Any:
        """Returns the public client, with the environment's credentials. It tries once: a retry would hide a
        failure."""
        options = {"rootUrl": self.root_url, "credentials": credentials(self.environment), "maxRetries": 0}
        return getattr(taskcluster, name)(options, self.session)

    @cached_property
    def emulated(self) -> bool:
        """Whether storage is the local stack's."""
        return urlsplit(self.queues.url).hostname in ("127.0.0.1", "localhost")

    @cached_property
    def _identity(self) -> DefaultAzureCredential:
        credential = DefaultAzureCredential()
        self._undo.callback(credential.close)
        return credential

    def _storage(self, kind: Any, service: str) -> Any:
        text = next((self.environment[name] for name in CONNECTION_STRINGS if self.environment.get(name)), None)
        if text:
            return self._undo.enter_context(kind.from_connection_string(text, retry_total=0))
        account = self.environment.get("STORAGE_ACCOUNT_NAME")
        if not account:
            raise NotChecked("STORAGE_ACCOUNT_NAME is not set")
        url = f"https://{account}.{service}.core.windows.net"
        where = "endpoint" if kind is TableServiceClient else "account_url"
        return self._undo.enter_context(kind(**{where: url, "credential": self._identity}))

    @cached_property
    def queues(self) -> QueueServiceClient:
        found: QueueServiceClient = self._storage(QueueServiceClient, "queue")
        return found

    @cached_property
    def tables(self) -> TableServiceClient:
        found: TableServiceClient = self._storage(TableServiceClient, "table")
        return found

    @cached_property
    def blobs(self) -> BlobServiceClient:
        found: BlobServiceClient = self._storage(BlobServiceClient, "blob")
        return found

    def queue(self) -> QueueClient:
        """Returns a new queue."""
        client = self.queues.create_queue(f"{PREFIX}-{self.suffix}-{secrets.token_hex(3)}")
        self._undo.callback(client.delete_queue)
        return client

    @cached_property
    def table(self) -> TableClient:
        """A new table."""
        client = self.tables.create_table(f"{PREFIX}{self.suffix}")
        self._undo.callback(client.delete_table)
        return client

    @cached_property
    def container(self) -> ContainerClient:
        """A new container."""
        client = self.blobs.create_container(f"{PREFIX}-{self.suffix}")
        self._undo.callback(client.delete_container)
        return client

    @cached_property
    def bus(self) -> tuple[ServiceBusClient, ServiceBusAdministrationClient]:
        """Clients of the namespace: for messages, and for topics and subscriptions."""
        text, name = (self.environment.get(f"SERVICEBUS_{what}") for what in ("CONNECTION_STRING", "NAMESPACE"))
        if text:
            return (
                self._undo.enter_context(ServiceBusClient.from_connection_string(text)),
                self._undo.enter_context(
                    ServiceBusAdministrationClient.from_connection_string(text, **_transport(text))
                ),
            )
        if not name:
            raise NotChecked("SERVICEBUS_NAMESPACE is not set")
        return (
            self._undo.enter_context(ServiceBusClient(name, self._identity)),
            self._undo.enter_context(ServiceBusAdministrationClient(name, self._identity)),
        )

    def arm(self, method: str, path: str, version: str, query: Mapping[str, str] | None = None) -> Any:
        """Returns the JSON that Azure's management plane answers. Raises `requests.HTTPError` for a refusal."""
        token = self._identity.get_token(f"{MANAGEMENT}/.default").token
        answer = self.session.request(
            method,
            f"{MANAGEMENT}{path}",
            params={"api-version": version, **(query or {})},
            headers={"Authorization": f"Bearer {token}"},
            timeout=SECONDS,
        )
        answer.raise_for_status()
        return answer.json()


def _transport(connection_string: str) -> dict[str, Any]:
    """Returns the option by which the SDK administers the local broker over plain HTTP; elsewhere no option."""
    if "usedevelopmentemulator=true" not in connection_string.lower():
        return {}
    from tools.local.service_bus_admin import PlainHttpTransport

    return {"transport": PlainHttpTransport()}


def run(deployment: Deployment, checks: Iterable[Check]) -> Iterator[Outcome]:
    """Yields the outcomes, one by one. A service's error is what it does instead of what is assumed."""
    for check in checks:
        began = time.monotonic()
        result, found = _outcome(deployment, check)
        # Errors name the URL that was asked for; whoever reads its signature could use it.
        found = _SIGNED.sub(r"\1=…", found)
        yield Outcome(check.name, result, found, round(time.monotonic() - began, 1))


def _outcome(deployment: Deployment, check: Check) -> tuple[str, str]:
    try:
        return "holds", check.run(deployment) or ""
    except NotChecked as reason:
        return "not checked", str(reason)
    except (Differs, *FAILURES) as difference:
        found = f"{type(difference).__name__}: " * (not isinstance(difference, Differs)) + _first_line(difference)
        if check.emulated and deployment.emulated:
            return "expected", f"{check.emulated} ({found})"
        return "differs", found


_SIGNED = re.compile(r"(?i)\b(sig|bewit)=[^&\s'\")]+")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def expect(condition: bool, found: str) -> None:
    """Raises Differs, with what was found, unless the condition holds."""
    if not condition:
        raise Differs(found)


def refused(what: str, call: Callable[[], object], *codes: str) -> None:
    """Raises Differs unless a call is refused, with one of these error codes."""
    try:
        call()
    except AzureError as error:
        code = getattr(error, "error_code", None)
        name = str(getattr(code, "value", code))
        expect(not codes or name in codes, f"{what} is refused with {name}, not {' or '.join(codes)}")
        return
    raise Differs(f"{what} is accepted")
