"""Connections against servers that frame their answers in every way, or badly, or end too early; with TLS as well."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.store import http_connections as subject
from shared.store.counting import Kind
from shared.store.http_connections import Connections, system_trust
from shared.store.wire import REQUEST_ID, Disconnected, NoAnswer, Patience, Request, StorageAnswer, StorageEndpoint
from tests.promises.azurite.identity import make_certificate

NAME = "name-1"
NAMED = f"x-MS-client-request-ID: {NAME}\r\n"
PATIENCE = Patience(connect=5)
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

WHOLE = {
    "by length": f"HTTP/1.1 200 OK\r\n{NAMED}ETag: W/1\r\nContent-Length: 5\r\n\r\nhello",
    "in chunks": f"HTTP/1.1 200 OK\r\n{NAMED}ETag: W/1\r\nTransfer-Encoding: chunked\r\n\r\n"
    "2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n",
    "with trailers": f"HTTP/1.1 200 OK\r\n{NAMED}etag:W/1\r\nTransfer-Encoding: chunked\r\n\r\n"
    f"5\r\nhello\r\n0\r\nETag: W/2\r\n{REQUEST_ID}: another\r\n\r\n",
    "after an interim answer": f"HTTP/1.1 100 Continue\r\nETag: W/0\r\n\r\n"
    f"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n{NAMED}ETag: W/1\r\nContent-Length: 5\r\n\r\nhello",
    "twice the same header": f"HTTP/1.1 200 OK\r\n{NAMED}ETag: W/1\r\nETag: W/2\r\nContent-Length: 5\r\n\r\nhello",
}
BROKEN = {
    "no HTTP": "SSH-2.0-OpenSSH_9\r\n",
    "two lengths": f"HTTP/1.1 200 OK\r\n{NAMED}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "a length and chunks": f"HTTP/1.1 200 OK\r\n{NAMED}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    "0\r\n\r\n",
    "no size of a chunk": f"HTTP/1.1 200 OK\r\n{NAMED}Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
    "a header in two lines": f"HTTP/1.1 200 OK\r\n{NAMED}ETag: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "another protocol": f"HTTP/1.1 101 Switching Protocols\r\n{NAMED}Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    "endless headers": f"HTTP/1.1 200 OK\r\n{NAMED}" + "X-Filler: xxxxxxxxxxxxxxxx\r\n" * 4000,
}
FINE = WHOLE["by length"].encode()


def request(url: str, *, method: str = "GET", content: bytes = b"", if_match: str = "") -> Request:
    headers = {REQUEST_ID: NAME, **({"If-Match": if_match} if if_match else {})}
    return Request(Kind.TABLE_READ, method, StorageEndpoint.of(url), "/row", headers, content, query="a=b")


@dataclass
class Server:
    """Answers each request by the script, then always as it did last; counts the requests of each connection."""

    url: str = ""
    script: list[bytes | Handler] = field(default_factory=lambda: [FINE])
    served: list[int] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    open: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.served)
        self.served.append(0)
        self.open += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                self.served[number] += 1
                answer = self.script[min(sum(self.served), len(self.script)) - 1]
                if callable(answer):
                    await answer(reader, writer)
                    continue
                lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
                await reader.readexactly(int(lines.get("Content-Length", "0")))
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.open -= 1


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Server]:
    made = Server()
    async with await asyncio.start_server(made.handle, "127.0.0.1", 0, **options) as server:
        scheme = "https" if options else "http"
        made.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/account"
        yield made
        await until(lambda: not made.open)


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[Connections]:
    made = Connections(PATIENCE, **options)
    try:
        yield made
    finally:
        await made.close()


def ending(*parts: bytes) -> Handler:
    """Returns a handler that sends these parts, and ends the connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        raise ConnectionError

    return handle


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE.keys())
async def test_whole_answers(text: str) -> None:
    """The connection of a whole answer is used again, whatever the answer's framing."""
    async with serving() as server, connected() as connections:
        server.script = [text.encode()]
        for _ in range(3):
            answer = await connections.exchange(request(server.url))
            assert (answer.status, answer.content) == (200, b"hello")
            assert (answer.header("etag"), answer.header("x-none")) == ("W/1", None)
        assert server.served == [3]


async def test_what_is_sent() -> None:
    async with serving() as server, connected() as connections:
        await connections.exchange(request(server.url))
        await connections.exchange(request(server.url, method="PUT", if_match="*"))
        await connections.exchange(request(server.url, method="POST", content=b"x" * 700_000))
    host = server.url.removeprefix("http://").removesuffix("/account")
    first, second, third = (head.split("\r\n")[:-2] for head in server.heads)
    assert first == ["GET /account/row?a=b HTTP/1.1", f"Host: {host}", f"{REQUEST_ID}: {NAME}"]
    assert second[3:] == ["If-Match: *", "Content-Length: 0"]
    assert third[3:] == ["Content-Length: 700000"]
    assert server.served == [3]


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\rb", "a\nb", "é"])
async def test_a_header_is_one_line_of_ascii(value: str) -> None:
    async with serving() as server, connected() as connections:
        with pytest.raises(ValueError, match=r"header|ascii"):
            await connections.exchange(request(server.url, if_match=value))
    assert server.heads == []


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
async def test_broken_answers(text: str) -> None:
    async with serving() as server, connected() as connections:
        server.script = [text.encode(), FINE]
        with pytest.raises(NoAnswer, match="BrokenAnswer") as caught:
            await connections.exchange(request(server.url))
        assert "127.0.0.1" not in str(caught.value)
        await connections.exchange(request(server.url))
        assert server.served == [1, 1]


@pytest.mark.parametrize("name", ["by length", "in chunks"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.99])
async def test_answers_that_are_cut(name: str, share: float) -> None:
    """An answer that is cut on a new connection raises Disconnected: the request may have been carried out."""
    whole = WHOLE[name].encode()
    async with serving() as server, connected() as connections:
        server.script = [ending(whole[: int(len(whole) * share)]), whole]
        with pytest.raises(Disconnected) as caught:
            await connections.exchange(request(server.url))
        assert caught.value.has_begun == (share > 0)
        await connections.exchange(request(server.url))
        assert server.served == [1, 1]


async def test_a_connection_that_the_service_closed_while_it_was_idle_is_no_failure() -> None:
    """A connection that the service closed while it was idle is replaced, also if it ends just as the request is sent.
    If an answer has begun, the request is not sent again."""
    async with serving() as server, connected() as connections:
        server.script = [FINE, ending(), FINE, ending(FINE[:20]), FINE]
        for _ in range(2):
            await connections.exchange(request(server.url, method="POST", content=b"x"))
        assert server.served == [2, 1]
        with pytest.raises(Disconnected):
            await connections.exchange(request(server.url))


@pytest.mark.parametrize("surplus", [FINE, b"garbage", b"\r\n\r\nx"], ids=["an answer", "no HTTP", "after lines"])
@pytest.mark.parametrize("apart", [False, True])
async def test_surplus_bytes_are_nobodys_answer(surplus: bytes, *, apart: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(FINE if apart else FINE + surplus)
        if apart:
            await until(lambda: bool(idle(connections)))
            writer.write(surplus)

    async with serving() as server, connected() as connections:
        server.script = [answer, FINE]
        assert (await connections.exchange(request(server.url))).content == b"hello"
        await until(lambda: not connections._open)
        await connections.exchange(request(server.url))
        assert server.served == [1, 1]


async def test_an_answer_to_another_request() -> None:
    async with serving() as server, connected() as connections:
        server.script = [FINE.replace(NAME.encode(), b"name-2"), FINE]
        with pytest.raises(NoAnswer, match="AnswerToAnother"):
            await connections.exchange(request(server.url))
        await connections.exchange(request(server.url))
        assert server.served == [1, 1]


async def test_a_request_that_was_given_up_ends_its_connection() -> None:
    async with serving() as server, connected() as connections:
        server.script = [silence, FINE]
        given_up = asyncio.ensure_future(connections.exchange(request(server.url)))
        await until(lambda: server.served == [1])
        given_up.cancel()
        await asyncio.wait([given_up])
        await connections.exchange(request(server.url))
        assert server.served == [1, 1]


# --- TLS ---


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


def of_server(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def test_with_tls(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS connections trust OpenSSL's roots, or those that the environment names, and send the server's name."""
    names: list[str | None] = []
    context = of_server(certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    context.sni_callback = lambda socket, name, _: names.append(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    async with serving(ssl=context) as server, connected() as connections:
        for text in WHOLE.values():
            server.script = [text.encode()]
            assert (await connections.exchange(request(server.url))).content == b"hello"
        large = await connections.exchange(request(server.url, method="POST", content=b"x" * 3_000_000))
        assert large.status == 200
        assert server.served == [len(WHOLE) + 1]
        with pytest.raises(NoAnswer, match=r"NoConnection \((SSL)?Cert"):
            await connections.exchange(request(server.url.replace("127.0.0.1", "localhost")))
    assert names == [None, "localhost"]  # an address is no name
    assert system_trust().minimum_version >= ssl.TLSVersion.TLSv1_2


async def test_a_certificate_that_nobody_vouches_for(certificate: tuple[Path, Path]) -> None:
    async with serving(ssl=of_server(certificate)) as server, connected() as connections:
        with pytest.raises(NoAnswer, match=r"NoConnection \(SSLCertVerificationError\)"):
            await connections.exchange(request(server.url))
        assert server.heads == []


# --- the protocol by itself ---


class FakeTransport:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        """Keeps what is written."""

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.is_aborted = True


@given(st.binary(max_size=60), st.integers(0, 200), st.lists(st.integers(0, 300), max_size=4))
async def test_nonsense_never_hangs_nor_passes(noise: bytes, at: int, cuts: list[int]) -> None:
    """Bytes inserted into an answer lead to an answer or an error, never to a hang."""
    text = FINE[:at] + noise + FINE[at:]
    answer, transport = await feed(text, cuts)
    assert isinstance(answer, StorageAnswer | NoAnswer)
    if isinstance(answer, NoAnswer):
        assert transport.is_aborted


async def feed(text: bytes, cuts: list[int]) -> tuple[StorageAnswer | BaseException, FakeTransport]:
    loop = asyncio.get_running_loop()
    connection, transport = subject._Connection(loop, set()), FakeTransport()
    connection.connection_made(cast(asyncio.Transport, transport))
    waiting = asyncio.ensure_future(connection.exchange(b"", b""))
    await asyncio.sleep(0)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    for start, end in pairwise(places):
        if not transport.is_aborted:
            connection.data_received(text[start:end])
    if not waiting.done():
        await asyncio.sleep(0)
    if not waiting.done():
        connection.connection_lost(None)
    (answer,) = await asyncio.gather(waiting, return_exceptions=True)
    return answer, transport


def idle(connections: Connections) -> list[object]:
    return [connection for kept in connections._idle.values() for connection in kept if connection.is_open]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.001)
