"""A worker that has only HTTP and a search for a string, as the poll draft describes it (contract 15)."""

from __future__ import annotations

import base64
import http.client
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from tests.promises.host.service import Service
from tests.promises.host.wire import API, send


@dataclass(frozen=True)
class Plain:
    """An answer of storage."""

    status: int
    text: str

    @property
    def has_message(self) -> bool:
        """Whether the answer contains the text that the draft searches for."""
        return "<MessageId>" in self.text

    def values(self, name: str) -> list[str]:
        """Returns the texts of the elements of that name."""
        return re.findall(f"<{name}>([^<]*)</{name}>", self.text)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Returns the content of the messages."""
        return [json.loads(base64.b64decode(text)) for text in self.values("MessageText")]


def request(method: str, url: str, body: str = "") -> Plain:
    """Sends a request without any header of our own."""
    site = urlsplit(url)
    connection = http.client.HTTPConnection(str(site.hostname), site.port, timeout=30)
    try:
        connection.request(method, f"{site.path}?{site.query}", body.encode())
        answer = connection.getresponse()
        return Plain(answer.status, answer.read().decode())
    finally:
        connection.close()


def poll_urls(service: Service, pool: str | None = None) -> list[dict[str, str]]:
    """Calls pollTaskUrls, by the route of provisioner and worker type."""
    answer = send(service, "GET", f"{API}/poll-task-url/{pool or service.pool}")
    assert answer.status == 200, answer.text
    queues: list[dict[str, str]] = answer.body["queues"]
    return queues


def poll(url: str, *, count: int = 1, hidden: int | None = None) -> Plain:
    """Gets messages at a poll URL. `hidden` is in seconds, and replaces what the URL says."""
    if hidden is not None:
        url = re.sub("visibilitytimeout=[0-9]+", f"visibilitytimeout={hidden}", url)
    answer = request("GET", f"{url}&numofmessages={count}")
    assert answer.status == 200, answer.text
    return answer


def find(service: Service, *, count: int = 1, hidden: int | None = None) -> Plain | None:
    """Returns the first answer with a message, of all bands in order."""
    for queue in poll_urls(service):
        answer = poll(queue["signedPollUrl"], count=count, hidden=hidden)
        if answer.has_message:
            return answer
    return None


def claim(service: Service, text: str, *, tasks: int = 1, worker: str = "bare", pool: str | None = None) -> Any:
    """Calls claimWork with the answer of a poll URL as it is, by the route of provisioner and worker type."""
    body = {"workerGroup": "g", "workerId": worker, "tasks": tasks, "xmlMessage": text}
    return send(service, "POST", f"{API}/claim-work/{pool or service.pool}", json.dumps(body).encode())


def claims(service: Service, text: str, *, tasks: int = 1, worker: str = "bare") -> list[dict[str, Any]]:
    """Returns the claims of `claim`, which must be answered 200."""
    answer = claim(service, text, tasks=tasks, worker=worker)
    assert answer.status == 200, answer.text
    assert answer.body.keys() == {"tasks"}
    found: list[dict[str, Any]] = answer.body["tasks"]
    return found


def delete(queue: dict[str, str], message_id: str, pop_receipt: str) -> Plain:
    """Deletes a message at the delete URL, whose placeholders are filled in."""
    url = queue["signedDeleteUrl"].replace("{{messageId}}", quote(message_id, safe=""))
    return request("DELETE", url.replace("{{popReceipt}}", quote(pop_receipt, safe="")))
