"""A client that costs little itself: one connection that is kept, Hawk by the service's own arithmetic."""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

from shared.auth.hawk import Signed, Site, calculate_mac, payload_hash
from shared.base.dates import format_date
from shared.base.ids import new_slugid

JSON = "application/json"
SECONDS = 120
"""Seconds that a call waits for its answer."""
LOOK_SECONDS = 0.2


class CallFailed(Exception):
    """The service has answered with an error, or not at all."""


@dataclass(frozen=True)
class Target:
    """A deployment, and the credentials to load it with."""

    root_url: str
    client_id: str
    access_token: str = field(repr=False)
    certificate: str = field(default="", repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Target:
        """Reads TASKCLUSTER_* variables. Raises KeyError with the name of one that is missing."""
        return cls(
            root_url=environment["TASKCLUSTER_ROOT_URL"].rstrip("/"),
            client_id=environment["TASKCLUSTER_CLIENT_ID"],
            access_token=environment["TASKCLUSTER_ACCESS_TOKEN"],
            certificate=environment.get("TASKCLUSTER_CERTIFICATE", ""),
        )


class Client:
    """Makes calls of one deployment, one after the other."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._site = Site.of(target.root_url)
        self._connection: http.client.HTTPConnection | None = None

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        credentials: Mapping[str, str] | None = None,
        gives_up: Callable[[], bool] | None = None,
    ) -> Any:
        """Returns the answer's JSON. Returns None for a call that is to be repeated at once (contract 5.1), and when
        `gives_up` says so, which is asked while the answer is waited for. Raises CallFailed."""
        resource = f"/api/queue/v1{path}"
        data = b"" if body is None else json.dumps(body).encode()
        headers = {"Authorization": self._authorization(method, resource, data, credentials)}
        if data:
            headers["Content-Type"] = JSON
        try:
            answer = self._send(method, resource, data, headers, gives_up)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise CallFailed(f"{method} {path}: {error!r}") from error
        if answer is None:
            return None
        status, content = answer
        if status == 503 and b"CallAgain" in content[:40]:
            return None
        if status >= 300:
            raise CallFailed(f"{method} {path}: {status} {content[:300].decode(errors='replace')}")
        return json.loads(content) if content else None

    def close(self) -> None:
        """Ends the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(
        self, method: str, resource: str, data: bytes, headers: dict[str, str], gives_up: Callable[[], bool] | None
    ) -> tuple[int, bytes] | None:
        if self._connection is None:
            parts = urlsplit(self._target.root_url)
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(self._site.host, self._site.port, timeout=SECONDS)
        self._connection.request(method, resource, body=data or None, headers=headers)
        while gives_up is not None and not select.select([self._connection.sock], [], [], LOOK_SECONDS)[0]:
            if gives_up():
                self.close()
                return None
        response = self._connection.getresponse()
        return response.status, response.read()

    def _authorization(self, method: str, resource: str, data: bytes, credentials: Mapping[str, str] | None) -> str:
        client_id, key, certificate = (
            (self._target.client_id, self._target.access_token, self._target.certificate)
            if credentials is None
            else (credentials["clientId"], credentials["accessToken"], credentials.get("certificate", ""))
        )
        ext = ""
        if certificate:
            ext = base64.b64encode(json.dumps({"certificate": json.loads(certificate)}).encode()).decode()
        signed = Signed(
            id=client_id,
            ts=str(int(time.time())),
            mac="",
            nonce=secrets.token_urlsafe(6),
            hash=payload_hash(JSON if data else "", data).decode(),
            ext=ext,
        )
        mac = calculate_mac(signed, key=key, method=method, resource=resource, site=self._site).decode()
        named = {"id": signed.id, "ts": signed.ts, "nonce": signed.nonce, "hash": signed.hash, "ext": ext, "mac": mac}
        return "Hawk " + ", ".join(f'{name}="{value}"' for name, value in named.items() if value)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Properties of the tasks that are created."""

    task_queue_id: str
    task_group_id: str
    dependencies: tuple[str, ...] = ()
    payload: int = 1000
    """Approximate number of bytes of the payload."""

    def depending_on(self, *task_ids: str) -> Kind:
        """Returns the same kind of tasks, depending on these tasks."""
        return replace(self, dependencies=task_ids)

    def definition(self) -> dict[str, Any]:
        """Returns the body of createTask, valid from now on."""
        now = datetime.now(UTC)
        return {
            "taskQueueId": self.task_queue_id,
            "taskGroupId": self.task_group_id,
            "schedulerId": "bench",
            "dependencies": list(self.dependencies),
            "retries": 5,
            "created": format_date(now),
            "deadline": format_date(now + timedelta(hours=3)),
            "expires": format_date(now + timedelta(hours=24)),
            "scopes": [],
            "payload": {"command": ["/bin/sh", "-c", "x" * self.payload], "maxRunTime": 3600},
            "metadata": {
                "name": "bench",
                "description": "A task of a measurement",
                "owner": "bench@example.com",
                "source": "https://example.com/",
            },
            "tags": {"kind": "bench"},
        }


@dataclass(frozen=True)
class Claimed:
    """A run that this client holds."""

    task_id: str
    run_id: int
    credentials: Mapping[str, str]


class Calls:
    """The calls that are measured, each by its name in the API."""

    def __init__(self, target: Target, worker_id: str) -> None:
        self.client = Client(target)
        self._worker_id = worker_id

    def create(self, kind: Kind, task_id: str | None = None) -> str:
        """Calls createTask."""
        task_id = task_id or new_slugid()
        self.client.call("PUT", f"/task/{task_id}", kind.definition())
        return task_id

    def claim(self, task_queue_id: str, gives_up: Callable[[], bool] | None = None) -> Claimed | None:
        """Calls claimWork for one task, which waits for as long as the service waits."""
        answer = self.client.call(
            "POST",
            f"/claim-work/{quote(task_queue_id, safe='')}",
            {"workerGroup": "bench", "workerId": self._worker_id, "tasks": 1},
            gives_up=gives_up,
        )
        if not answer or not answer["tasks"]:
            return None
        claim = answer["tasks"][0]
        return Claimed(claim["status"]["taskId"], claim["runId"], claim["credentials"])

    def reclaim(self, claimed: Claimed) -> None:
        """Calls reclaimTask."""
        self._of_run(claimed, "reclaim")

    def complete(self, claimed: Claimed) -> None:
        """Calls reportCompleted."""
        self._of_run(claimed, "completed")

    def artifact(self, claimed: Claimed, name: str) -> None:
        """Calls createArtifact for a reference, so that no bytes are measured."""
        body = {
            "storageType": "reference",
            "url": "https://example.com/",
            "contentType": "text/plain",
            "expires": format_date(datetime.now(UTC) + timedelta(hours=20)),
        }
        path = f"/task/{claimed.task_id}/runs/{claimed.run_id}/artifacts/{quote(name, safe='')}"
        self.client.call("POST", path, body, credentials=claimed.credentials)

    def status(self, task_id: str) -> str:
        """Calls status, and returns the task's state."""
        return str(self.client.call("GET", f"/task/{task_id}/status")["status"]["state"])

    def list_group(self, task_group_id: str) -> int:
        """Calls listTaskGroup for all pages, and returns the number of tasks."""
        count, token = 0, ""
        while True:
            page = self.client.call("GET", f"/task-group/{task_group_id}/list{token}")
            count += len(page["tasks"])
            if "continuationToken" not in page:
                return count
            token = f"?continuationToken={page['continuationToken']}"

    def pending(self, task_queue_id: str) -> int:
        """Calls taskQueueCounts, and returns how many runs are pending."""
        return int(self.client.call("GET", f"/task-queues/{quote(task_queue_id, safe='')}/counts")["pendingTasks"])

    def _of_run(self, claimed: Claimed, what: str) -> None:
        path = f"/task/{claimed.task_id}/runs/{claimed.run_id}/{what}"
        self.client.call("POST", path, credentials=claimed.credentials)
