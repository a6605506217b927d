"""HTTP triggers: an ASGI application that routes requests to functions and writes their answers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http.cookies import SimpleCookie
from typing import Any, Literal
from urllib.parse import parse_qsl

from azure.functions.meta import Datum

from tools.local.host.context import TraceContext
from tools.local.host.functions import IndexedFunction
from tools.local.host.invocation import InvocationFailed, Invoker
from tools.local.host.paths import RAW_URL_HEADERS, BadPath, decode_path, encode_path
from tools.local.host.routes import Router

PathMode = Literal["local", "azure"]
"""How paths reach the app: as with Core Tools, or as deployed (design 8)."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BODY_LIMIT = 104_857_600
"""Bytes of a request body; FUNCTIONS_REQUEST_BODY_SIZE_LIMIT changes it."""

_DRAIN_SECONDS = 5.0
_BODILESS = frozenset({204, 205, 304})
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})

_log = logging.getLogger(__name__)


class BodyTooLarge(Exception):
    """The request's body exceeds the limit."""


class ClientGone(Exception):
    """The connection was cut before the request was there as a whole."""


class HttpApp:
    """Serves the HTTP functions of an app.

    As the Functions host does: 404 for a path or method without a function (there is no 405), 413 for a body that is
    too large, 500 without a body when a function fails. A request that was cut before it was there as a whole reaches
    no function. A client that goes away later does not end its function, which is told nothing, and the answer is lost:
    the host tells only workers that say they handle it, and the Python worker does not.
    """

    def __init__(
        self,
        functions: Mapping[str, IndexedFunction],
        router: Router,
        invoker: Invoker,
        *,
        path_mode: PathMode = "local",
        body_limit: int = BODY_LIMIT,
    ) -> None:
        """`functions` by name; `router` names them."""
        self._functions = functions
        self._router = router
        self._invoker = invoker
        self._path_mode = path_mode
        self._body_limit = body_limit

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """ASGI; only `http` scopes are expected."""
        assert scope["type"] == "http", "websockets and lifespan are switched off"
        try:
            path = decode_path(scope["raw_path"].decode("ascii"), slashes=self._path_mode == "azure")
        except BadPath:
            await respond(send, 400)
            return
        method = scope["method"].upper()
        match = self._router.match(method, path)
        if path.lower() == "/admin/host/ping":
            await respond(send, 200)
        elif match is None:
            await respond(send, 200 if path == "/" and method == "GET" else 404)
        else:
            route, values = match
            await self._serve(self._functions[route.function], path, values, scope, receive, send)

    async def _serve(
        self,
        function: IndexedFunction,
        path: str,
        values: Mapping[str, str],
        scope: Mapping[str, Any],
        receive: Receive,
        send: Send,
    ) -> None:
        headers = _joined_headers(scope)
        try:
            body = await self._body(headers, receive)
        except BodyTooLarge:
            _log.warning("Function %s: a request body exceeds the limit of %d bytes", function.name, self._body_limit)
            await respond(send, 413, [(b"connection", b"close")])
            return
        except ClientGone:
            return
        if self._path_mode == "azure":
            raw = scope["raw_path"].decode("ascii") + _query(scope)
            headers |= dict.fromkeys(RAW_URL_HEADERS, raw)
        url = f"{scope['scheme']}://{headers.get('host', '')}{encode_path(path)}{_query(scope)}"
        request = _request_datum(scope, url, headers, values, body)
        trace = TraceContext.following(headers.get("traceparent", ""), headers.get("tracestate", ""))
        try:
            answer = await self._invoker.invoke(function, request, trace=trace)
        except InvocationFailed:
            await respond(send, 500)
            return
        await _send_datum(send, answer, scope["method"])

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        declared = headers.get("content-length", "0")
        if int(declared) > self._body_limit:
            # Reading on lets the client finish sending and see the answer; one that asks first has sent nothing yet.
            if headers.get("expect", "").lower() != "100-continue":
                await _drain(receive)
            raise BodyTooLarge
        chunks: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            more = message.get("more_body", False)
            if size > self._body_limit:
                await _drain(receive, more=more)
                raise BodyTooLarge
        return b"".join(chunks)


async def _drain(receive: Receive, *, more: bool = True) -> None:
    give_up = time.monotonic() + _DRAIN_SECONDS
    while more and time.monotonic() < give_up:
        try:
            message = await asyncio.wait_for(receive(), give_up - time.monotonic())
        except TimeoutError:
            return
        more = message.get("more_body", False)


def _joined_headers(scope: Mapping[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), _header_text(raw_value)
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


def _header_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _query(scope: Mapping[str, Any]) -> str:
    query: str = scope["query_string"].decode("latin-1")
    return f"?{query}" if query else ""


def _request_datum(
    scope: Mapping[str, Any], url: str, headers: Mapping[str, str], values: Mapping[str, str], body: bytes
) -> Datum:
    """The request in the form in which the host hands it to a worker (parameters without a value are dropped)."""
    query: dict[str, str] = {}
    spelling: dict[str, str] = {}
    for name, value in parse_qsl(scope["query_string"].decode("latin-1")):
        key = spelling.setdefault(name.lower(), name)
        query[key] = f"{query[key]},{value}" if key in query else value
    return Datum(
        {
            "method": Datum(scope["method"], "string"),
            "url": Datum(url, "string"),
            "headers": {name: Datum(value, "string") for name, value in headers.items()},
            "params": {name: Datum(value, "string") for name, value in values.items()},
            "query": {name: Datum(value, "string") for name, value in query.items()},
            "body": Datum(body, "bytes"),
        },
        "http",
    )


async def _send_datum(send: Send, answer: Datum | None, method: str) -> None:
    if answer is None:
        await respond(send, 200)
        return
    if answer.type == "string":
        await respond(send, 200, [(b"content-type", b"text/plain; charset=utf-8")], answer.value.encode())
        return
    status = int(answer.value["status_code"].value)
    body = b"" if status in _BODILESS else answer.value["body"].value
    headers = []
    for name, value in answer.value["headers"].items():
        if name.lower() in _HOP_BY_HOP or (name.lower() == "content-length" and method != "HEAD"):
            continue
        headers.append((name.lower().encode("latin-1"), value.value.encode()))
    headers += [(b"set-cookie", cookie) for cookie in _cookies(answer.value["cookies"] or [])]
    await respond(send, status, headers, body)


def _cookies(jars: list[SimpleCookie]) -> list[bytes]:
    return [morsel.OutputString().encode() for jar in jars for morsel in jar.values()]


async def respond(send: Send, status: int, headers: list[tuple[bytes, bytes]] | None = None, body: bytes = b"") -> None:
    lines = list(headers or [])
    if status not in _BODILESS and not any(name == b"content-length" for name, _ in lines):
        lines.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
