"""Sends hot requests and reads their answers: HTTP/1.1 by the parser of httptools, on connections that are kept.

A connection carries one exchange at a time. It is closed when bytes come that are not HTTP, or no answer to its
request. Certificates are checked against the roots that OpenSSL finds, or those that SSL_CERT_FILE names. There is no
proxy and no redirection."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import ssl
from collections import deque
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from shared.base import bounds
from shared.base.shares import Place, Room, Scarce
from shared.store.wire import (
    REQUEST_ID,
    Disconnected,
    NoAnswer,
    Patience,
    Request,
    StorageAnswer,
    is_answer_to,
    may_pass,
)

_KEPT_SECONDS = 15.0
"""Seconds for which an idle connection may still be used: front ends and address translation (NAT) keep it longer."""
_LONGEST_HEAD = 1 << 16
"""The most bytes of an answer's head."""
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
"""Headers by which an answer says where it ends."""
_PIECE = 1 << 18
"""Bytes of the pieces in which a large body is written, so that it does not hold the event loop."""
_EYEBALLS_SECONDS = 0.25
"""Seconds before a second address of a name is tried in parallel with the first (RFC 8305, "happy eyeballs")."""


def system_trust() -> ssl.SSLContext:
    """Returns the trust in servers whose certificate names them, by TLS 1.2 or newer."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # a Python that follows the system's configuration sets none
    context.set_alpn_protocols(["http/1.1"])
    return context


class Connections:
    """A `wire.Sender`: the connections of a process to all services, for one event loop. None is opened before the
    first request. `close` ends them all."""

    def __init__(
        self,
        patience: Patience,
        *,
        trust: Callable[[], ssl.SSLContext] = system_trust,
        limit: int = bounds.CONNECTIONS,
        kept_seconds: float = _KEPT_SECONDS,
    ) -> None:
        """Makes the connections. `trust` is asked at the first connection with TLS: the roots take a moment to read."""
        self._connect_seconds = patience.connect
        self._trust = trust
        self._context: ssl.SSLContext | None = None
        self._kept_seconds = kept_seconds
        self._turns = Scarce(limit, Room(math.inf), ConnectionError, longest_wait=None)
        self._idle: dict[str, deque[_Connection]] = {}
        self._open: set[_Connection] = set()
        self._is_closed = False

    async def exchange(self, request: Request) -> StorageAnswer:
        """See `wire.Sender`. Where the service has closed an idle connection, another one is opened."""
        head = _head(request)
        origin = request.endpoint.origin
        await self._turns.take(turn := Place())
        try:
            answer = None
            connection = self._take(origin)
            if connection is not None:
                try:
                    answer = await connection.exchange(head, request.content)
                except Disconnected as end:
                    if end.has_begun:
                        raise
            if connection is None or answer is None:
                connection = await self._connect(origin)
                answer = await connection.exchange(head, request.content)
            if not is_answer_to(request, answer):
                connection.abort()
                raise NoAnswer("AnswerToAnother")
            if may_pass(answer.status) and answer.header(REQUEST_ID) is None:
                connection.abort()  # an error page of a proxy: the service's own answer may follow
            self._keep(origin, connection)
            return answer
        finally:
            self._turns.leave(turn)

    async def close(self) -> None:
        """Ends the connections. Exchanges under way fail, as do those that are begun afterwards."""
        self._is_closed = True
        for connection in self._open:
            connection.abort()
        while self._open:
            await next(iter(self._open)).lost

    def _take(self, origin: str) -> _Connection | None:
        """Returns the idle connection that was used last, as the server is least likely to close it now."""
        idle = self._idle.get(origin)
        oldest = asyncio.get_running_loop().time() - self._kept_seconds
        while idle:
            connection = idle.pop()
            if connection.is_open and connection.idle_since >= oldest:
                return connection
            connection.abort()
        return None

    def _keep(self, origin: str, connection: _Connection) -> None:
        if not connection.is_open:
            return
        now = connection.idle_since = asyncio.get_running_loop().time()
        idle = self._idle.setdefault(origin, deque())
        idle.append(connection)
        while not idle[0].is_open or idle[0].idle_since < now - self._kept_seconds:
            idle.popleft().abort()

    async def _connect(self, origin: str) -> _Connection:
        if self._is_closed:
            raise NoAnswer("NoConnection (closed)")
        loop = asyncio.get_running_loop()
        url = urlsplit(origin)
        assert url.hostname, "an endpoint names its host"
        if url.scheme == "https" and self._context is None:
            self._context = self._trust()
        context = self._context if url.scheme == "https" else None
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop, self._open),
                    url.hostname,
                    url.port or (80 if context is None else 443),
                    ssl=context,
                    # Before Python 3.13, a race that is cancelled just as it is won leaves a socket to the garbage
                    # collector.
                    happy_eyeballs_delay=None if _is_address(url.hostname) else _EYEBALLS_SECONDS,
                )
        except OSError as error:  # also TimeoutError, ssl.SSLError, socket.gaierror
            raise NoAnswer(f"NoConnection ({type(error).__name__})") from error
        return connection


class _Connection(asyncio.Protocol):
    """One connection, and the exchange that is under way on it. Methods named `on_…` are the parser's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, all_open: set[_Connection]) -> None:
        self.is_open = False
        self.idle_since = 0.0
        self.lost: asyncio.Future[None] = loop.create_future()
        """A future that is done when the connection has ended."""
        self._loop = loop
        self._all_open = all_open
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[StorageAnswer] | None = None

    # --- the exchange ---

    async def exchange(self, head: bytes, content: bytes) -> StorageAnswer:
        """Sends one request and returns its whole answer. Raises NoAnswer. In that case, and if it is cancelled, the
        connection is closed."""
        waiter: asyncio.Future[StorageAnswer] = self._loop.create_future()
        self._waiter = waiter
        self._raw: dict[bytes, bytes] = {}
        self.on_header = self._raw.setdefault  # the parser's: no code of ours runs for each header
        self._parser = HttpResponseParser(self)
        self._body: list[bytes] = []
        self._received = 0
        self._status = 0
        self._has_head = self._is_whole = self._has_sent = False
        try:
            if len(content) <= _PIECE:
                self._transport.write(head + content)
            else:
                self._transport.write(head)
                for start in range(0, len(content), _PIECE):
                    if waiter.done():  # an answer before the end, or none at all
                        break
                    self._transport.write(content[start : start + _PIECE])
                    await asyncio.sleep(0)
            self._has_sent = True
            return await waiter
        except BaseException:
            self.abort()
            raise
        finally:
            self._waiter = None

    def abort(self) -> None:
        """Closes the connection at once; a second call does nothing."""
        self.is_open = False
        self._transport.abort()

    def _answer(self) -> None:
        """Passes the complete answer on. If the request is not fully sent by now, the server would take the rest for
        the next request, so the connection is closed."""
        if not self._has_sent or self._transport.get_write_buffer_size():
            self.abort()
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(StorageAnswer(self._status, self._headers, b"".join(self._body)))

    def _fail(self, error: Exception) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    # --- asyncio's ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Marks the connection as usable."""
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True
        self._all_open.add(self)

    def data_received(self, data: bytes) -> None:
        """Takes bytes that arrived. They are part of the awaited answer, or unsolicited, which ends the connection."""
        if self._waiter is None:
            self.abort()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.abort()
            if not self._is_whole:
                self._fail(NoAnswer("BrokenAnswer (not HTTP)"))
        if self._is_whole:
            self._answer()
        elif not self._has_head and self._received > _LONGEST_HEAD:
            self.abort()
            self._fail(NoAnswer("BrokenAnswer (endless headers)"))

    def connection_lost(self, error: Exception | None) -> None:
        """Notes that the connection has ended, from either side."""
        self.is_open = False
        self._all_open.discard(self)
        self.lost.set_result(None)
        if self._waiter is None:
            return
        # Storage services state the length of their answers; a proxy that reports an error may not.
        is_delimited = not self._has_head or not _LENGTHS.isdisjoint(self._headers)
        if error is None and not is_delimited and self._status >= 300:
            self._answer()
        else:
            self._fail(Disconnected(has_begun=self._received > 0))

    # --- the parser's ---

    def on_message_begin(self) -> None:
        """Notes the beginning of an answer. A second answer to the same request is a protocol error."""
        if self._is_whole:
            raise HttpParserError("surplus")

    def on_headers_complete(self) -> None:
        """Notes status and headers, unless the answer is an interim one (100, 103). Trailers are not requested."""
        self._status = self._parser.get_status_code()
        if self._status >= 200:
            # Of a repeated header, the first counts.
            self._headers = {name.lower(): value for name, value in reversed(self._raw.items())}
            self._has_head = True

    def on_body(self, body: bytes) -> None:
        """Adds a part of the answer's body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Notes the end of an answer, by its length or its last chunk, or of an interim answer (1xx)."""
        if not self._has_head:
            self._raw.clear()
            return
        self._is_whole = True
        if not self._parser.should_keep_alive():
            self.abort()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _head(request: Request) -> bytes:
    """Returns the request's lines before its content. Raises ValueError for a header with a line break or other than
    ASCII."""
    lines = [f"{request.method} {request.path}{'?' if request.query else ''}{request.query} HTTP/1.1"]
    lines.append(f"Host: {request.endpoint.origin.partition('://')[2]}")
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    if request.content or request.method not in {"GET", "DELETE"}:
        lines.append(f"Content-Length: {len(request.content)}")
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
        raise ValueError("a header of several lines")
    return f"{head}\r\n\r\n".encode("ascii")
