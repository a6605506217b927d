"""HTTP triggers: an ASGI application that routes requests to functions and writes their answers."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from http.cookies import Morsel
from typing import Any, Literal
from urllib.parse import parse_qsl

from azure.functions.meta import Datum

from tools.local.host.context import TraceContext
from tools.local.host.functions import IndexedFunction
from tools.local.host.invocation import InvocationFailed, Invokes
from tools.local.host.paths import RAW_URL_HEADERS, BadPath, decode_path, encode_path
from tools.local.host.routes import Router

PathMode = Literal["local", "azure"]
"""How paths reach the app: as with Core Tools (`local`), or as deployed (`azure`, design 8)."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BODY_LIMIT = 104_857_600
"""The most bytes of a request body, unless FUNCTIONS_REQUEST_BODY_SIZE_LIMIT says otherwise."""

_BODILESS = frozenset({204, 205, 304})
_ITS_OWN = frozenset({"date", "keep-alive", "transfer-encoding"})
"""Headers of an answer that the server writes by itself."""
_FOR_KEYS = re.compile(
    r"/(admin/(functions|instance/(assign|info|http-health)|pod/assign|host/(status|processes|drain|resume|scale/status|"
    r"log|debug|synctriggers|restart|state|config|extensions|extensionBundle|(function|system)?keys))|runtime/webhooks/.)"
    r"(?![^/])",
    re.IGNORECASE,
)
"""Paths of the host's own that need a key, which nobody has here."""
_HOME = b"<!DOCTYPE html><title>Local Functions host</title><p>Your Azure Function App is up and running."

_log = logging.getLogger(__name__)


class ClientGone(Exception):
    """The connection was cut before the request was there as a whole."""


class HttpApp:
    """Serves the HTTP functions of an app.

    As the Functions host does: 404 for a path or method without a function (there is no 405), 500 without a body when
    a function fails and for a body that is too large. A body in chunks reaches no function: it sees an empty one. A
    request that was cut before it was there as a whole reaches no function. A client that goes away later does not end
    its function, which is told nothing, and the answer is lost: the host tells only workers that say they handle it,
    and the Python worker does not.
    """

    def __init__(
        self,
        functions: Mapping[str, IndexedFunction],
        router: Router,
        invoker: Invokes,
        *,
        path_mode: PathMode = "local",
        body_limit: int = BODY_LIMIT,
    ) -> None:
        """Takes the functions by name; `router` names them."""
        self._functions = functions
        self._router = router
        self._invoker = invoker
        self._path_mode = path_mode
        self._body_limit = body_limit

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serves a request by the ASGI protocol; only `http` scopes are expected."""
        assert scope["type"] == "http", "websockets and lifespan are switched off"
        method = scope["method"].upper()
        try:
            path = decode_path(scope["raw_path"].decode("ascii"), slashes=self._path_mode == "azure")
        except BadPath:
            await respond(send, method, 400, {"connection": "close"})
            return
        if path.lower() == "/admin/host/ping" and method in ("GET", "POST"):
            await respond(send, method, 200)
        elif _FOR_KEYS.match(path):
            await respond(send, method, 401, {"www-authenticate": "Bearer"})
        elif path.startswith("//") or (match := self._router.match(method, path)) is None:
            home = _HOME if path == "/" else b""
            await respond(send, method, 200 if home else 404, {"content-type": "text/html"} if home else {}, home)
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
        headers, method = _joined_headers(scope), scope["method"].upper()
        declared = int(headers.get("content-length", "0"))
        if declared > self._body_limit:
            _log.warning("Function %s: a request body exceeds the limit of %d bytes", function.name, self._body_limit)
            await respond(send, method, 500, {"connection": "close"})
            return
        try:
            body = await _body(receive) if declared else b""
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
            await respond(send, method, 500)
            return
        await _send_datum(send, method, answer)


async def _body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(chunks)


def _joined_headers(scope: Mapping[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


def _query(scope: Mapping[str, Any]) -> str:
    query: str = scope["query_string"].decode("latin-1")
    return f"?{query}" if query else ""


def _request_datum(
    scope: Mapping[str, Any], url: str, headers: Mapping[str, str], values: Mapping[str, str], body: bytes
) -> Datum:
    """Returns the request in the form in which the host hands it to a worker (parameters without a value are
    dropped)."""
    query: dict[str, str] = {}
    spelling: dict[str, str] = {}
    for name, value in parse_qsl(scope["query_string"].decode("latin-1")):
        key = spelling.setdefault(name.lower(), name)
        query[key] = f"{query[key]},{value}" if key in query else value
    return Datum(
        {
            "method": Datum(scope["method"].upper(), "string"),
            "url": Datum(url, "string"),
            "headers": {name: Datum(value, "string") for name, value in headers.items()},
            "params": {name: Datum(value, "string") for name, value in values.items()},
            "query": {name: Datum(value, "string") for name, value in query.items()},
            "body": Datum(body, "bytes"),
        },
        "http",
    )


async def _send_datum(send: Send, method: str, answer: Datum | None) -> None:
    if answer is None:
        await respond(send, method, 200)
        return
    if answer.type == "string":
        await respond(send, method, 200, {"content-type": "text/plain; charset=utf-8"}, answer.value.encode())
        return
    status = int(answer.value["status_code"].value)
    headers = {name.lower(): value.value for name, value in answer.value["headers"].items()}
    headers = {name: value for name, value in headers.items() if name not in _ITS_OWN}
    if not all(value.isascii() and value.isprintable() for value in headers.values()):
        await respond(send, method, 500)
        return
    cookies = [cookie_line(morsel) for jar in answer.value["cookies"] or [] for morsel in jar.values()]
    await respond(send, method, status, headers, b"" if status in _BODILESS else answer.value["body"].value, cookies)


def cookie_line(morsel: Morsel[str]) -> str:
    """Returns a cookie as ASP.NET writes it: in its order, in small letters, with a domain and a path."""
    parts = [f"{morsel.key}={morsel.coded_value}"]
    parts += [f"{name}={morsel[name]}" for name in ("expires", "max-age") if morsel[name]]
    parts += [f"{name}={morsel[name]}" for name in ("domain", "path")]
    parts += ["secure"] * bool(morsel["secure"])
    parts += [f"samesite={morsel['samesite'].lower()}"] * bool(morsel["samesite"])
    return "; ".join([*parts, *["httponly"] * bool(morsel["httponly"])])


async def respond(
    send: Send,
    method: str,
    status: int,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    cookies: Sequence[str] = (),
) -> None:
    """Sends an answer as Kestrel does: a body goes in chunks, unless its length is among the headers."""
    lines = {"server": "Kestrel", **(headers or {})}
    if not body and status not in _BODILESS and method != "HEAD":
        lines.setdefault("content-length", "0")
    encoded = [(name.encode("latin-1"), value.encode()) for name, value in lines.items()]
    encoded += [(b"set-cookie", cookie.encode()) for cookie in cookies]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
