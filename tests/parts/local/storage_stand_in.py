"""An account with queues and the host's blobs in memory, which answers the requests of Microsoft's SDKs in virtual
time. The local host's own retries, back-off and leases run as they are, and storage fails exactly when a test says.
What storage does when nothing fails is held to Azurite by tests/parts/local/test_host_process.py."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from azure.core.exceptions import ServiceRequestError, ServiceResponseTimeoutError
from azure.core.pipeline.transport import AsyncHttpTransport
from azure.core.rest import HttpRequest
from azure.core.rest._http_response_impl_async import AsyncHttpResponseImpl
from azure.core.utils import case_insensitive_dict

from tests.parts.twin import VirtualClock

CUT = "the connection is cut"
NEVER = "there is no answer"
ANSWER_SECONDS = 100.0
CONNECTION = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;" + "".join(
    f"{kind.capitalize()}Endpoint=http://{kind}.example/a;" for kind in ("blob", "queue")
)

Answer = tuple[int, dict[str, str], str]
"""Status, headers and body of an answer."""


class Refused(Exception):
    """The answer is an error with a status and a code."""


@dataclass(frozen=True)
class Fault:
    """A fault that requests of one kind meet, from one second on until another."""

    kind: str
    """Kind of request as `Storage.asked` names it; `*` for all."""
    answer: tuple[int, str] | str
    """What the requests meet: a status with an error code, CUT, or NEVER."""
    begin: float = 0.0
    end: float = float("inf")


@dataclass
class Message:
    """A message of a queue."""

    text: str
    visible: float
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    receipt: str = ""
    count: int = 0


@dataclass
class Request:
    """A request of the host."""

    method: str
    name: str
    """Name of the queue or blob."""
    rest: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Storage:
    """An account in memory. `asked` has the time and the kind of each request, such as `get` or `poison put`."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.faults: list[Fault] = []
        self.asked: list[tuple[float, str]] = []
        self.queues: dict[str, list[Message]] = {}
        self.blobs: dict[str, bytes] = {}
        self._containers: set[str] = set()
        self._leases: dict[str, tuple[str, float]] = {}
        """By blob: the id of the last lease, and its end."""

    def transport(self) -> AsyncHttpTransport[Any, Any]:
        """Returns a transport for a client of an SDK."""
        return _Transport(self)

    def put(self, queue: str, text: str) -> None:
        """Puts a message as some other client would."""
        self.queues.setdefault(queue, []).append(Message(text, self._clock.elapsed))

    def times(self, kind: str) -> list[float]:
        """Returns when requests of this kind came, in seconds."""
        return [at for at, asked in self.asked if asked == kind]

    async def answer(self, url: str, request: Request) -> Answer:
        """Carries a request out, unless a fault is in its way. Raises Refused, or what the SDK's transport raises."""
        is_queue = urlsplit(url).netloc.startswith("queue")
        kind = _queue_kind(request) if is_queue else _blob_kind(request)
        now = self._clock.elapsed
        self.asked.append((round(now, 1), kind))
        for fault in self.faults:
            if fault.kind in ("*", kind) and fault.begin <= now < fault.end:
                if isinstance(fault.answer, tuple):
                    raise Refused(*fault.answer)
                if fault.answer == NEVER:
                    await asyncio.sleep(ANSWER_SECONDS)
                    raise ServiceResponseTimeoutError(NEVER)
                raise ServiceRequestError(CUT)
        return self._queue(kind.split()[-1], request, now) if is_queue else self._blob(kind.split()[-1], request, now)

    def _queue(self, kind: str, request: Request, now: float) -> Answer:
        if kind == "create":
            self.queues.setdefault(request.name, [])
            return 201, {}, ""
        if request.name not in self.queues:
            raise Refused(404, "QueueNotFound")
        messages = self.queues[request.name]
        if kind == "metadata":
            return 200, {}, ""
        if kind == "put":
            self.put(request.name, ElementTree.fromstring(request.body).findtext("MessageText") or "")
            return 201, {}, self._listed(messages[-1:])
        if kind == "get":
            found = [each for each in messages if each.visible <= now][: int(request.query["numofmessages"])]
            for each in found:
                each.count, each.receipt = each.count + 1, uuid.uuid4().hex
                each.visible = now + int(request.query["visibilitytimeout"])
            return 200, {}, self._listed(found)
        message = next((each for each in messages if each.id == request.rest.split("/")[1]), None)
        if message is None:
            raise Refused(404, "MessageNotFound")
        if message.receipt != request.query["popreceipt"]:
            raise Refused(400, "PopReceiptMismatch")
        if kind == "delete":
            messages.remove(message)
            return 204, {}, ""
        message.receipt, message.visible = uuid.uuid4().hex, now + int(request.query["visibilitytimeout"])
        return 204, {"x-ms-popreceipt": message.receipt, "x-ms-time-next-visible": self._date(message.visible)}, ""

    def _listed(self, messages: list[Message]) -> str:
        entries = []
        for each in messages:
            fields = {"MessageId": each.id, "PopReceipt": each.receipt, "DequeueCount": str(each.count)}
            moments = {"InsertionTime": 0.0, "ExpirationTime": 604_800.0, "TimeNextVisible": each.visible}
            fields |= {name: self._date(moment) for name, moment in moments.items()}
            fields["MessageText"] = escape(each.text)
            inner = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
            entries.append(f"<QueueMessage>{inner}</QueueMessage>")
        return f"<?xml version='1.0' encoding='utf-8'?><QueueMessagesList>{''.join(entries)}</QueueMessagesList>"

    def _blob(self, kind: str, request: Request, now: float) -> Answer:
        path = f"{request.name}/{request.rest}"
        lease, end = self._leases.get(path, ("", 0.0))
        if kind == "container":
            self._containers.add(request.name)
            return 201, {}, ""
        if kind == "put":
            if request.name not in self._containers:
                raise Refused(404, "ContainerNotFound")
            self.blobs[path] = request.body
            return 201, {"etag": '"1"', "last-modified": self._date(0)}, ""
        if path not in self.blobs:
            raise Refused(404, "BlobNotFound")
        if kind == "acquire":
            if end > now:
                raise Refused(409, "LeaseAlreadyPresent")
            lease, end = str(uuid.uuid4()), now + int(request.headers["x-ms-lease-duration"])
        elif kind in ("renew", "release"):
            if lease != request.headers["x-ms-lease-id"]:
                raise Refused(409, "LeaseIdMismatchWithLeaseOperation")
            end = now + 60 if kind == "renew" else now
        else:
            content = self.blobs[path].decode()
            state = "leased" if end > now else "available"
            whole = {"content-length": str(len(content)), "content-range": f"bytes 0-{len(content) - 1}/{len(content)}"}
            return 200, {**whole, "last-modified": self._date(0), "x-ms-lease-state": state}, content
        self._leases[path] = (lease, end)
        return 201 if kind == "acquire" else 200, {"x-ms-lease-id": lease}, ""

    def _date(self, seconds: float) -> str:
        return format_datetime(self._clock.exact() + timedelta(seconds=seconds - self._clock.elapsed), usegmt=True)


def _queue_kind(request: Request) -> str:
    if request.rest:
        kind = {"GET": "get", "POST": "put", "DELETE": "delete", "PUT": "update"}[request.method]
    else:
        kind = "create" if request.method == "PUT" else "metadata"
    return f"poison {kind}" if request.name.endswith("-poison") else kind


def _blob_kind(request: Request) -> str:
    if request.query.get("restype") == "container":
        return "container"
    if request.query.get("comp") == "lease":
        return request.headers["x-ms-lease-action"]
    return f"{'lock' if request.rest.startswith('locks/') else 'status'} {request.method.lower()}"


class _Transport(AsyncHttpTransport[Any, Any]):
    """Takes the requests of an SDK's client."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def send(self, request: HttpRequest, *, stream: bool = False, **_: Any) -> Any:
        address = urlsplit(request.url)
        name, _slash, rest = address.path.strip("/").partition("/")[2].partition("/")
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        headers = {key.lower(): value for key, value in request.headers.items()}
        content: Any = request.content or b""
        body = (
            content.read() if hasattr(content, "read") else content if isinstance(content, bytes) else content.encode()
        )
        try:
            asked = Request(request.method, name, rest, query, headers, body)
            status, more, text = await self._storage.answer(request.url, asked)
        except Refused as refused:
            status, (code,) = refused.args[0], refused.args[1:]
            more, text = {"x-ms-error-code": code}, ""
        kind = "application/xml" if text.startswith("<") else "application/octet-stream"
        response = _Response(
            request=request,
            internal_response=None,
            status_code=status,
            reason="",
            content_type=kind,
            headers=case_insensitive_dict({"content-type": kind, **more}),
            stream_download_generator=lambda *_, **__: _Stream(text.encode()),
        )
        if not stream:
            await response.read()
        return response

    async def sleep(self, duration: float) -> None:
        await asyncio.sleep(duration)

    async def open(self) -> None:
        """Opens nothing."""

    async def close(self) -> None:
        """Closes nothing."""

    async def __aexit__(self, *_: object) -> None:
        """Closes nothing."""


class _Response(AsyncHttpResponseImpl):
    """An answer that needs no connection."""

    async def close(self) -> None:
        self._is_closed = True


class _Stream:
    """An answer's body, to which the SDK adds attributes."""

    response = SimpleNamespace(headers={})

    def __init__(self, content: bytes) -> None:
        self.content_length = len(content)
        self._left = [content]

    def __aiter__(self) -> _Stream:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()
