"""Hot requests against a server that cuts connections, answers nonsense or throttles.

Every kind of hot request meets every fault, with a key and with an identity.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from aiohttp import web

from shared.store import wire
from shared.store.connection import Credential
from shared.store.counting import counting
from shared.store.interface import StorageRefused, StorageUnavailable
from shared.store.wire import REQUEST_ID
from tests.parts.unit.hot_requests import (
    HOT,
    KEY,
    MESSAGES,
    PATIENCE,
    ROW,
    TRANSACTION,
    Hot,
    Identity,
    Script,
    Service,
    answers,
    cut_off,
    every_kind,
    fine,
    serving,
    silence,
    truncated,
    with_answer,
)

TRIED_TWICE = replace(PATIENCE, retries=replace(PATIENCE.retries, tries=2))


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving() as made:
        yield made


@pytest.fixture(params=["key", "identity"])
def credential(request: pytest.FixtureRequest) -> Credential:
    return KEY if request.param == "key" else Identity()


@every_kind
async def test_answers_and_counts(service: Service, credential: Credential, hot: Hot) -> None:
    service.script = [fine(hot)]
    async with service.account(credential) as account:
        with counting() as operations:
            await hot.send(account.storage)
    assert [request.kind for request in operations.requests] == [hot.kind]
    assert (operations.retries, len(service.requests)) == (0, 1)


@every_kind
@pytest.mark.parametrize("fault", ["cut off", "silence"])
async def test_what_may_pass_is_tried_again(service: Service, credential: Credential, hot: Hot, fault: str) -> None:
    trouble = cut_off if fault == "cut off" else silence
    service.script = [trouble, trouble, fine(hot)]
    patience = replace(PATIENCE, read=0.2) if fault == "silence" else PATIENCE
    async with service.account(credential, patience=patience) as account:
        with counting() as operations:
            await hot.send(account.storage)
    assert operations.total == 1  # of the tries nothing is said: aiohttp repeats a read that was cut off
    assert {request.headers["x-ms-date"][-3:] for request in service.requests} == {"GMT"}


@every_kind
async def test_a_service_that_is_busy_is_asked_again(service: Service, credential: Credential, hot: Hot) -> None:
    for status in (408, 429, 500, 502, 503, 504):
        # A server that asks for much patience is not given more than the request has.
        trouble = answers(status, "busy", {"Retry-After": "3600"})
        service.requests.clear()
        service.script = [trouble, trouble, fine(hot)]
        async with service.account(credential) as account:
            with counting() as operations:
                await hot.send(account.storage)
        assert (operations.total, operations.retries, len(service.requests)) == (1, 2, 3), status
        assert {request.headers["x-ms-date"][-3:] for request in service.requests} == {"GMT"}, status


@every_kind
async def test_each_try_is_dated_and_signed_by_itself(
    service: Service, hot: Hot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try has its own date and signature, since the service refuses what was signed a quarter of an hour ago."""
    seconds = itertools.count(1_000_000_000, 600)
    monkeypatch.setattr(wire, "time", SimpleNamespace(time=lambda: next(seconds)))
    service.script = [answers(503), fine(hot)]
    async with service.account(KEY) as account:
        await hot.send(account.storage)
    first, second = (request.headers for request in service.requests)
    assert first["x-ms-date"] != second["x-ms-date"]
    assert first["Authorization"] != second["Authorization"]


async def test_an_empty_page_is_followed_up_where_it_says(service: Service) -> None:
    place = {"NextPartitionKey": "1!4!cA--", "NextRowKey": "1!4!aw--"}
    headers = {f"x-ms-continuation-{name}": value for name, value in place.items()}
    service.script = [answers(200, '{"value":[]}', headers), fine(HOT["query"])]
    async with service.account(KEY) as account:
        page = await account.storage.tables.query("Tasks", "p", start="a", end="z")
    assert ([row.key for row in page.rows], page.resume, page.is_of_one_moment) == (["k"], None, False)
    first, second = (request.query for request in service.requests)
    assert dict(second) == {**first, **place}


@with_answer
async def test_half_an_answer_is_none(service: Service, hot: Hot) -> None:
    service.script = [truncated(hot), fine(hot)]
    async with service.account(KEY) as account:
        await hot.send(account.storage)
    assert len(service.requests) == 2
    service.script = [truncated(hot)]
    async with service.account(KEY) as account:
        with pytest.raises(StorageUnavailable) as caught:
            await hot.send(account.storage)
    assert not isinstance(caught.value, StorageRefused)


@with_answer
@pytest.mark.parametrize(
    "body", ["", "<html>a proxy</html>", "{}", "[]", '{"value":[{"RowKey":"k"}]}', '"x"', "\x00", "<a/>", MESSAGES[:80]]
)
async def test_nonsense_is_storage_unavailable(service: Service, hot: Hot, body: str) -> None:
    """An answer that cannot be read raises StorageUnavailable, as a write may have happened."""
    service.script = [answers(hot.status, body, {"Content-Type": "text/html"})]
    async with service.account(KEY) as account:
        with pytest.raises(StorageUnavailable) as caught:
            await hot.send(account.storage)
    assert not isinstance(caught.value, StorageRefused)


@every_kind
async def test_what_will_not_pass_is_refused_at_once(service: Service, credential: Credential, hot: Hot) -> None:
    """Answers that no retry changes, such as 403 for a wrong key or clock, raise StorageRefused at once."""
    for status in (301, 401, 403, 405, 501, 505):
        service.requests.clear()
        service.script = [answers(status, "", {"x-ms-error-code": "AuthenticationFailed", "Location": "/elsewhere"})]
        async with service.account(credential) as account:
            with pytest.raises(StorageRefused) as caught:
                await hot.send(account.storage)
        assert len(service.requests) == 1, status
        assert str(caught.value) == f"AuthenticationFailed {status}"


@asynccontextmanager
async def surplus(hot: Hot) -> AsyncIterator[tuple[str, list[int]]]:
    """Yields the address of a server that answers the first request twice: that answer comes once more before the one
    to the second request. Also yields how many requests each connection has brought."""
    served: list[int] = []
    first = b""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal first
        number = len(served)
        served.append(0)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
                await reader.readexactly(int(lines.get(b"content-length", b"0")))
                served[number] += 1
                name = lines[REQUEST_ID.encode()].decode()
                headers = {**hot.headers, "Content-Length": str(len(hot.body)), REQUEST_ID: name}
                text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                answer = f"HTTP/1.1 {hot.status} OK\r\n{text}\r\n{hot.body}".encode()
                writer.write(first + answer if served == [2] else answer)
                first = answer
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/account", served


@every_kind
async def test_an_answer_that_nobody_asked_for_is_nobody_s_answer(service: Service, hot: Hot) -> None:
    """After an unexpected answer the connection is closed, and the request is sent on another one."""
    async with surplus(hot) as (service.url, served), service.account(KEY) as account:
        await hot.send(account.storage)
        with counting() as operations:
            await hot.send(account.storage)
        await hot.send(account.storage)
        assert (operations.retries, served) == (1, [2, 2])


async def test_an_answer_without_a_name_counts_only_if_it_says_what_it_is_about(service: Service) -> None:
    other_row = replace(HOT["get"], body=ROW.replace('"p"', '"other"'))

    def creating(key: str) -> Hot:
        place = f"Location: http://host/account/Tasks(PartitionKey='p',RowKey='{key}')\r\nETag"
        return replace(HOT["transaction"], body=TRANSACTION.replace("ETag", place, 1))

    for hot, wanted in (
        (HOT["get"], True),
        (HOT["query"], True),
        (other_row, False),
        (HOT["create"], False),
        (HOT["transaction"], True),
        (creating("k"), True),
        (creating("other"), False),
    ):
        service.script = [nameless(hot)]
        async with service.account(KEY, patience=TRIED_TWICE) as account:
            if wanted:
                await hot.send(account.storage)
                continue
            with pytest.raises(StorageUnavailable):
                await hot.send(account.storage)


def nameless(hot: Hot) -> Script:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=hot.status, body=hot.body.encode(), headers=hot.headers)

    return answer
