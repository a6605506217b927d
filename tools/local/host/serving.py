"""The HTTP server: uvicorn, within the limits of Kestrel, the server of the Functions host."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from urllib.parse import urlsplit

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tools.local.host.errors import HostError

_KEEP_ALIVE_SECONDS = 130
_LINE_BYTES = 8 * 1024
_HEADERS_BYTES = 32 * 1024
_HEADERS = 100


class _Refused(Exception):
    """A request is answered without being read any further."""


class _Protocol(HttpToolsProtocol):
    """Protocol that refuses what Kestrel refuses, as Kestrel does: without a body, and the connection is closed."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._refusal = HTTPStatus.BAD_REQUEST
        self._bytes = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.parser.get_method()) + len(self.url) + len("  HTTP/1.1\r\n") > _LINE_BYTES:
            self._refuse(HTTPStatus.REQUEST_URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._bytes += len(name) + len(b": ") + len(value) + len(b"\r\n")
        if self._bytes > _HEADERS_BYTES or len(self.headers) > _HEADERS:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        value.decode()  # an error is one of the parser's

    def on_headers_complete(self) -> None:
        hosts = [value for name, value in self.headers if name == b"host"]
        address = urlsplit(self.url).netloc if not self.url.startswith(b"/") else b""
        is_older = self.parser.get_http_version() == "1.0"
        if len(hosts) > 1 or not (hosts or is_older) or (address and address != hosts[0]):
            self._refuse(HTTPStatus.BAD_REQUEST)
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        lines = [f"HTTP/1.1 {self._refusal} {self._refusal.phrase}", "connection: close", "content-length: 0"]
        self.transport.write("\r\n".join([*lines, "server: Kestrel", "", ""]).encode())
        self.transport.close()

    def _refuse(self, status: HTTPStatus) -> None:
        self._refusal = status
        raise _Refused


class HttpServer:
    """Serves an ASGI application on a port, from `open` until `close`."""

    def __init__(self, app: Callable[..., Awaitable[None]], listener: socket.socket) -> None:
        """Takes a socket that is bound, and not yet listening: connections are refused."""
        self._listener = listener
        self._server = _Server(
            uvicorn.Config(
                app,
                http=_Protocol,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            )
        )
        self._serving: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Takes connections. Raises OSError if another process listens on the port by now."""
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({self._serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        if not listening.done():
            listening.cancel()
            await self._serving

    async def close(self, seconds: float) -> None:
        """Refuses connections, and waits until all calls are answered; cuts those that take longer than `seconds`."""
        if self._serving is None:
            self._listener.close()
            return
        for server in self._server.servers:
            server.close()
        self._server.should_exit = True
        _, late = await asyncio.wait({self._serving}, timeout=seconds)
        if late:
            self._server.force_exit = True
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()
            await self._serving


class _Server(uvicorn.Server):
    """uvicorn with two differences: the host handles signals, and one can wait until the server has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(address: str, port: int) -> socket.socket:
    """Returns a socket that is bound to the address, and refuses connections still. Raises HostError."""
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by its connections; asyncio sets it only on those of listeners that it has made itself.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.bind((address, port))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise HostError(f"port {port} on {address} is taken; choose another one with --port") from None
        raise HostError(f"cannot listen on {address}, port {port}: {error.strerror}") from None
    return bound
