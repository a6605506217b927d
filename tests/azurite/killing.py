"""A transport whose every request passes a gate, which may kill the caller before it is sent or before it is answered.

Below the SDKs and their retries: what an adapter sends for one operation (a queue that is missing, made, and put to)
are kill points of their own.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlsplit

from shared.store.counting import Kind
from shared.store.names import Names
from shared.store.pipeline import Transport
from shared.store.wire import Patience, Request, Sender, StorageAnswer
from tests.azurite.inside import View, milliseconds
from tests.azurite.simulation import RequestLoop
from tests.twin.clock import VirtualClock
from tests.twin.gate import Call, Gate, Phase

REQUEST_SECONDS = 0.001
"""Virtual time that a request takes."""
_PARTITION = re.compile(r"PartitionKey(?:=| eq |\": ?)['\"]([^'\"]+)['\"]")
T = TypeVar("T")
_MESSAGES = {
    "POST": Kind.QUEUE_PUT,
    "GET": Kind.QUEUE_GET,
    "PUT": Kind.QUEUE_UPDATE,
    "DELETE": Kind.QUEUE_DELETE,
}


class Killing:
    """The gate, in the words of requests."""

    def __init__(self, loop: RequestLoop, clock: VirtualClock, gate: Gate, view: View, names: Names) -> None:
        self._loop = loop
        self._clock = clock
        self._gate = gate
        self._view = view
        self._names = names

    async def gated(self, request: Any, send: Callable[[], Awaitable[T]]) -> T:
        call = called(request, self._names)
        if (turn := self._gate(call, Phase.BEFORE)) is not None:
            await turn
        self._clock.advance(REQUEST_SECONDS)
        request.headers["clock"] = str(milliseconds(self._clock.exact()))
        try:
            with self._loop.request():
                response = await send()
        finally:
            self._view.forget()
        if (turn := self._gate(call, Phase.AFTER)) is not None:
            await turn
        return response


class KillingExchange:
    """Sends hot requests by connections that last; `close` leaves those open."""

    def __init__(self, inner: Sender, killing: Killing) -> None:
        self._inner = inner
        self._killing = killing

    async def exchange(self, request: Request) -> StorageAnswer:
        """One hot request."""
        return await self._killing.gated(request, lambda: self._inner.exchange(request))

    async def close(self) -> None:
        """Others go on using the connections."""


class KillingTransport(Transport):
    """Sends requests of the SDKs by a transport that lasts; `close` leaves that one open."""

    def __init__(self, inner: Transport, killing: Killing) -> None:
        super().__init__(Patience())
        self._inner = inner
        self._killing = killing

    async def send(self, request: Any, **options: Any) -> Any:
        """One request of the SDKs, its whole answer read."""

        async def send() -> Any:
            response = await self._inner.send(request, **options)
            await response.internal_response.content.wait_eof()
            return response

        return await self._killing.gated(request, send)

    async def open(self) -> None:
        """Open already."""

    async def close(self) -> None:
        """Others go on using the connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """See `close`."""


def called(request: Any, names: Names) -> Call:
    """What a request of the SDKs does, in the words of the simulator's gates."""
    url = urlsplit(request.url)
    _, _, resource = url.path.lstrip("/").partition("/")
    about, _, rest = resource.partition("/")
    if about == "Tables":
        return Call(Kind.MAKE, about)
    of_queue_or_blob = about.startswith(f"{names.prefix}-")
    if not of_queue_or_blob:
        return _called_table(request, names, unquote(f"{resource}?{url.query}"))
    target = about.removeprefix(f"{names.prefix}-")
    if rest.startswith("messages"):
        kind = Kind.QUEUE_PEEK if "peekonly=true" in url.query else _MESSAGES[request.method]
        return Call(kind, target, unquote(rest.removeprefix("messages").strip("/")))
    if not rest:
        return Call(Kind.MAKE if request.method == "PUT" else Kind.BLOB_READ, target)
    return Call(Kind.BLOB_READ if request.method in {"GET", "HEAD"} else Kind.BLOB_WRITE, target, unquote(rest))


def _called_table(request: Any, names: Names, resource: str) -> Call:
    body = getattr(request, "content", None) or getattr(request, "data", None) or b""
    text = unquote(body.decode() if isinstance(body, bytes) else str(body))
    where = text if resource.startswith("$batch") else resource
    table = re.search(rf"{names.prefix}([A-Za-z]+)", where)
    partition = _PARTITION.search(resource) or _PARTITION.search(text)
    assert table, f"a request to a table that is not named: {request.method} {resource}"
    return Call(
        Kind.TABLE_READ if request.method == "GET" else Kind.TABLE_WRITE, table[1], partition[1] if partition else ""
    )
