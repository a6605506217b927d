"""Hot requests against a server that cuts connections, answers nonsense, throttles, or wants another token.

Every kind of hot request meets every fault, with a key and with an identity.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from azure.core.credentials import AccessToken, AccessTokenInfo, AzureNamedKeyCredential
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from shared.storage import wire
from shared.storage.authorisation import Bearer
from shared.storage.connection import AzureStorage, Credential, Endpoints
from shared.storage.counting import Kind, counting
from shared.storage.interface import (
    Create,
    Delete,
    Merge,
    Receipt,
    ReceiptLost,
    Refusal,
    Replace,
    Storage,
    StorageRefused,
    StorageUnavailable,
    TransactionRefused,
    Upsert,
)
from shared.storage.pipeline import Transport
from shared.storage.wire import Answer, Endpoint, Patience, Refused, Request

KEY = AzureNamedKeyCredential("account", "c2VjcmV0LWtleQ==")
PATIENCE = Patience(total=20, first_pause=0.001)
RECEIPT = Receipt(message_id="id", pop_receipt="receipt", visible=datetime(2026, 1, 1, tzinfo=UTC))
ROW = '{"PartitionKey":"p","RowKey":"k","Timestamp":"2026-01-01T00:00:00.1234567Z","odata.etag":"W/\\"1\\""}'
DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
MESSAGES = (
    '<?xml version="1.0" encoding="utf-8"?><QueueMessagesList><QueueMessage><MessageId>id</MessageId>'
    f"<InsertionTime>{DATE}</InsertionTime><ExpirationTime>{DATE}</ExpirationTime><PopReceipt>receipt</PopReceipt>"
    f"<TimeNextVisible>{DATE}</TimeNextVisible><DequeueCount>1</DequeueCount><MessageText>text</MessageText>"
    "</QueueMessage></QueueMessagesList>"
)
PART = 'Content-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/"1"\r\n\r\n\r\n'
TRANSACTION = f"--b\r\n\r\n--c\r\n{PART}--c\r\n{PART}--c--\r\n--b--\r\n"


@dataclass(frozen=True)
class Hot:
    """A hot request: how it is made, and the answer that it gets when all is well."""

    kind: Kind
    send: Callable[[Storage], Awaitable[Any]]
    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    needs_body: bool = True


ETAG = {"ETag": 'W/"1"'}
MOVED = {"x-ms-popreceipt": "receipt", "x-ms-time-next-visible": DATE}
HOT = {
    "get": Hot(Kind.TABLE_READ, lambda s: s.tables.get("Tasks", "p", "k"), 200, ROW),
    "query": Hot(
        Kind.TABLE_READ, lambda s: s.tables.query("Tasks", "p", start="a", end="z"), 200, f'{{"value":[{ROW}]}}'
    ),
    "create": Hot(Kind.TABLE_WRITE, lambda s: s.tables.transact("Tasks", "p", [Create("k", {"n": 1})]), 204, "", ETAG),
    "merge": Hot(Kind.TABLE_WRITE, lambda s: s.tables.transact("Tasks", "p", [Merge("k", {})]), 204, "", ETAG),
    "replace": Hot(Kind.TABLE_WRITE, lambda s: s.tables.transact("Tasks", "p", [Replace("k", {})]), 204, "", ETAG),
    "upsert": Hot(Kind.TABLE_WRITE, lambda s: s.tables.transact("Tasks", "p", [Upsert("k", {})]), 204, "", ETAG),
    "remove": Hot(Kind.TABLE_WRITE, lambda s: s.tables.transact("Tasks", "p", [Delete("k")]), 204),
    "transaction": Hot(
        Kind.TABLE_WRITE,
        lambda s: s.tables.transact("Tasks", "p", [Create("k", {}), Upsert("l", {})]),
        202,
        TRANSACTION,
        {"Content-Type": "multipart/mixed; boundary=b"},
    ),
    "put": Hot(Kind.QUEUE_PUT, lambda s: s.queues.put("queue", "text"), 201, MESSAGES),
    "take": Hot(Kind.QUEUE_GET, lambda s: s.queues.get("queue", hidden_for=5), 200, MESSAGES),
    "move": Hot(Kind.QUEUE_UPDATE, lambda s: s.queues.update("queue", RECEIPT, visible_in=5), 204, "", MOVED),
    "delete": Hot(Kind.QUEUE_DELETE, lambda s: s.queues.delete("queue", RECEIPT), 204),
}
every_kind = pytest.mark.parametrize("hot", HOT.values(), ids=HOT.keys())
with_answer = pytest.mark.parametrize(
    "hot", [hot for hot in HOT.values() if hot.body], ids=[name for name, hot in HOT.items() if hot.body]
)
with_headers = pytest.mark.parametrize("name", ["create", "merge", "replace", "upsert", "move"])

Script = Callable[[web.Request], Awaitable[web.StreamResponse]]


def fine(hot: Hot) -> Script:
    return answers(hot.status, hot.body, hot.headers)


def answers(status: int, body: str = "", headers: dict[str, str] | None = None) -> Script:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body.encode(), headers=headers)

    return answer


async def cut_off(request: web.Request) -> web.StreamResponse:
    """The connection ends: the request may have been carried out."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def truncated(hot: Hot) -> Script:
    """The connection ends in the middle of the body."""

    async def answer(request: web.Request) -> web.StreamResponse:
        headers = {**hot.headers, "Content-Length": str(len(hot.body))}
        response = web.StreamResponse(status=hot.status, headers=headers)
        await response.prepare(request)
        await response.write(hot.body[: len(hot.body) // 2].encode())
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


async def silence(request: web.Request) -> web.StreamResponse:
    """No answer until the client has given up."""
    while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    return web.Response()


class Unwrapped(Transport):
    """Speaks plain HTTP to the test's server, which the rest of the process takes for one with TLS."""

    async def exchange(self, request: Request) -> Answer:
        endpoint = replace(request.endpoint, origin=request.endpoint.origin.replace("https://", "http://"))
        return await super().exchange(replace(request, endpoint=endpoint))


class Identity(AsyncTokenCredential):
    """Hands out numbered tokens that last so many seconds; a script of errors comes first."""

    def __init__(self, *errors: Exception, lasts: float = 3600) -> None:
        self.claims: list[str | None] = []
        self.errors = list(errors)
        self.lasts = lasts

    async def get_token(self, *scopes: str, claims: str | None = None, **options: Any) -> AccessToken:
        assert scopes == ("https://storage.azure.com/.default",)
        self.claims.append(claims)
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)
        return AccessToken(f"token-{len(self.claims)}", int(time.time() + self.lasts))

    async def close(self) -> None:
        """Nothing to close."""

    async def __aexit__(self, *error: object) -> None:
        """Nothing to close."""


class IdentityWithInfo(Identity):
    """Also says when a token should be replaced."""

    def __init__(self, refresh_in: float | None, lasts: float = 3600) -> None:
        super().__init__(lasts=lasts)
        self._refresh_in = refresh_in

    async def get_token_info(self, *scopes: str, options: Any = None) -> AccessTokenInfo:
        token = await self.get_token(*scopes, claims=(options or {}).get("claims"))
        refresh_on = None if self._refresh_in is None else int(time.time() + self._refresh_in)
        return AccessTokenInfo(token.token, token.expires_on, refresh_on=refresh_on)


@dataclass
class Service:
    """Answers by the script, then always as it did last; keeps what it was asked."""

    url: str = ""
    script: Sequence[Script] = ()
    requests: list[web.Request] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.requests.append(request)
        return await self.script[min(len(self.requests), len(self.script)) - 1](request)

    def account(self, credential: Credential, **options: Any) -> AzureStorage:
        options.setdefault("patience", PATIENCE)
        url = self.url if isinstance(credential, AzureNamedKeyCredential) else self.url.replace("http:", "https:")
        return AzureStorage(
            Endpoints(table=url, queue=url, blob=url), credential, transport=Unwrapped(options["patience"]), **options
        )

    def authorisations(self) -> list[str]:
        return [request.headers["Authorization"] for request in self.requests]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/account"))
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
@pytest.mark.parametrize("fault", ["cut off", "silence", 408, 429, 500, 502, 503, 504])
async def test_what_may_pass_is_tried_again(
    service: Service, credential: Credential, hot: Hot, fault: str | int
) -> None:
    if isinstance(fault, int):
        # A server that asks for much patience is not given more than the request has.
        trouble = answers(fault, "busy", {"Retry-After": "3600"})
    else:
        trouble = cut_off if fault == "cut off" else silence
    service.script = [trouble, trouble, fine(hot)]
    patience = replace(PATIENCE, read=0.2) if fault == "silence" else PATIENCE
    async with service.account(credential, patience=patience) as account:
        with counting() as operations:
            await hot.send(account.storage)
    assert operations.total == 1
    if isinstance(fault, int):  # aiohttp repeats a read that was cut off; a slow machine may be silent once more
        assert (operations.retries, len(service.requests)) == (2, 3)
    dates = {request.headers["x-ms-date"][-3:] for request in service.requests}
    assert dates == {"GMT"}


@every_kind
async def test_each_try_is_dated_and_signed_by_itself(
    service: Service, hot: Hot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service refuses what was signed a quarter of an hour ago."""
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
    assert ([row.key for row in page.rows], page.resume) == (["k"], None)
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
    "body",
    [
        "",
        "<html>a proxy</html>",
        "{}",
        "[]",
        '{"value":[{"RowKey":"k"}]}',
        '"x"',
        "\x00",
        "<a/>",
        MESSAGES[:80],
    ],
)
async def test_nonsense_is_storage_unavailable(service: Service, hot: Hot, body: str) -> None:
    """A write whose answer cannot be read may have happened: its outcome is unknown, never guessed."""
    service.script = [answers(hot.status, body, {"Content-Type": "text/html"})]
    async with service.account(KEY) as account:
        with pytest.raises(StorageUnavailable) as caught:
            await hot.send(account.storage)
    assert not isinstance(caught.value, StorageRefused)


@with_headers
async def test_an_answer_without_its_headers_is_storage_unavailable(service: Service, name: str) -> None:
    service.script = [answers(HOT[name].status)]
    async with service.account(KEY) as account:
        with pytest.raises(StorageUnavailable):
            await HOT[name].send(account.storage)


@every_kind
@pytest.mark.parametrize("status", [301, 401, 403, 405, 501, 505])
async def test_what_will_not_pass_is_refused_at_once(
    service: Service, credential: Credential, hot: Hot, status: int
) -> None:
    """403: the token or the key is not right, or this machine's clock is not."""
    service.script = [answers(status, "", {"x-ms-error-code": "AuthenticationFailed", "Location": "/elsewhere"})]
    async with service.account(credential) as account:
        with pytest.raises(StorageRefused) as caught:
            await hot.send(account.storage)
    assert len(service.requests) == 1
    assert str(caught.value) == f"AuthenticationFailed {status}"


@every_kind
async def test_an_unknown_refusal_is_a_defect(service: Service, hot: Hot) -> None:
    service.script = [answers(400, "", {"x-ms-error-code": "InvalidInput"})]
    async with service.account(KEY) as account:
        with pytest.raises(Refused, match="400 InvalidInput"):
            await hot.send(account.storage)


@pytest.mark.parametrize(
    ("name", "status", "refusal"),
    [
        ("create", 409, Refusal.EXISTS),
        ("merge", 404, Refusal.MISSING),
        ("replace", 412, Refusal.STALE),
        ("remove", 412, Refusal.STALE),
        ("remove", 404, Refusal.MISSING),
    ],
)
async def test_refused_writes(service: Service, name: str, status: int, refusal: Refusal) -> None:
    """The code may be in the body alone, as Azure Tables has it, or not be there at all."""
    for body in ('{"odata.error":{"code":"Some","message":{"value":"no"}}}', "", "<html/>"):
        service.script = [answers(status, body)]
        async with service.account(KEY) as account:
            with pytest.raises(TransactionRefused) as caught:
                await HOT[name].send(account.storage)
        assert (caught.value.index, caught.value.refusal) == (0, refusal)


@pytest.mark.parametrize("code", ["MessageNotFound", "PopReceiptMismatch", "QueueNotFound", "QueueBeingDeleted"])
@pytest.mark.parametrize("name", ["move", "delete"])
async def test_a_receipt_that_does_not_count(service: Service, name: str, code: str) -> None:
    service.script = [answers(400 if code == "PopReceiptMismatch" else 404, "", {"x-ms-error-code": code})]
    async with service.account(KEY) as account:
        with pytest.raises(ReceiptLost, match=code):
            await HOT[name].send(account.storage)


async def test_a_large_body_is_sent_whole_at_each_try(service: Service) -> None:
    sizes = []

    async def count(request: web.Request) -> web.StreamResponse:
        sizes.append(len(await request.read()))
        return web.Response(status=503 if len(sizes) < 3 else 204, headers=ETAG)

    service.script = [count]
    values = {f"p{number}": b"\xff" * 65_000 for number in range(8)}
    app = web.Application(client_max_size=1 << 22)
    app.router.add_route("*", "/{path:.*}", count)
    async with TestServer(app) as server:
        service.url = str(server.make_url("/account"))
        async with service.account(KEY) as account:
            await account.storage.tables.transact("Tasks", "p", [Create("k", dict(values))])
    assert len(sizes) == 3
    assert len(set(sizes)) == 1
    assert sizes[0] > 8 * 65_000 * 4 / 3


async def test_no_error_says_where_or_with_what(service: Service, credential: Credential) -> None:
    service.script = [cut_off]
    async with service.account(credential) as account:
        for hot in HOT.values():
            with pytest.raises(StorageUnavailable) as caught:
                await hot.send(account.storage)
            text = str(caught.value)
            assert "127.0.0.1" not in text
            assert "token" not in text
            assert "c2VjcmV0" not in text


async def test_requests_are_watched_for_every_client(service: Service) -> None:
    """Hot or by the SDK: each once, with the status of its last answer."""
    seen: list[tuple[str, str, str, int]] = []

    @contextmanager
    def watch(name: str, method: str, url: str) -> Iterator[Callable[[int], None]]:
        yield lambda status: seen.append((name, method, url.removeprefix(service.url), status))

    service.script = [answers(503), fine(HOT["get"]), answers(404, "", {"x-ms-error-code": "QueueNotFound"})]
    async with service.account(KEY, watch=watch) as account:
        await HOT["get"].send(account.storage)
        assert await account.storage.queues.length("queue") == 0
        assert await account.storage.queues.get("queue", hidden_for=5) == []
    assert seen == [
        ("table", "GET", "/Tasks(PartitionKey='p',RowKey='k')", 200),
        ("queue", "GET", "/queue?comp=metadata", 404),
        ("queue", "GET", "/queue/messages?numofmessages=1&visibilitytimeout=5", 404),
    ]


async def test_one_token_serves_many_requests_and_both_services(service: Service) -> None:
    identity = Identity()
    service.script = [answers(404, "", {"x-ms-error-code": "QueueNotFound"})]
    async with service.account(identity) as account:
        storage = account.storage
        await asyncio.gather(*(storage.tables.get("Tasks", "p", "k") for _ in range(5)))
        await asyncio.gather(*(storage.queues.get("queue", hidden_for=5) for _ in range(5)))
    assert set(service.authorisations()) == {"Bearer token-1"}


async def test_a_token_that_was_refused_is_not_used_again(service: Service) -> None:
    service.script = [answers(401, "", {"WWW-Authenticate": "Bearer authorization_uri=x"}), fine(HOT["get"])]
    async with service.account(Identity()) as account:
        with pytest.raises(StorageRefused):
            await HOT["get"].send(account.storage)
        await HOT["get"].send(account.storage)
    assert service.authorisations() == ["Bearer token-1", "Bearer token-2"]


@pytest.mark.parametrize("identity", [Identity(), IdentityWithInfo(None)], ids=["token", "token info"])
async def test_a_challenge_with_claims_is_met_once(service: Service, identity: Identity) -> None:
    claims = '{"access_token":{"nbf":{"essential":true}}}'
    wanted = base64.urlsafe_b64encode(claims.encode()).decode().rstrip("=")
    challenge = {"WWW-Authenticate": f'Bearer realm="", error="insufficient_claims", claims="{wanted}"'}
    service.script = [answers(401, "", challenge), fine(HOT["get"])]
    async with service.account(identity) as account:
        await HOT["get"].send(account.storage)
    assert identity.claims == [None, claims]
    service.requests.clear()
    service.script = [answers(401, "", challenge)]
    async with service.account(identity) as account:
        with pytest.raises(StorageRefused):
            await HOT["get"].send(account.storage)
    assert len(service.requests) == 2


async def test_who_gives_tokens_may_fail(service: Service) -> None:
    service.script = [fine(HOT["get"])]
    async with service.account(Identity(ServiceRequestError("no network"))) as account:
        await HOT["get"].send(account.storage)
    async with service.account(Identity(*[ServiceRequestError("no network at 127.0.0.1")] * 9)) as account:
        with pytest.raises(StorageUnavailable, match="ServiceRequestError"):
            await HOT["get"].send(account.storage)
    async with service.account(Identity(ClientAuthenticationError("no such identity"))) as account:
        with pytest.raises(StorageUnavailable, match=r"^ClientAuthenticationError$"):
            await HOT["get"].send(account.storage)


def request_of(origin: str) -> Request:
    return Request(Kind.TABLE_READ, "GET", Endpoint(origin, ""), "/Tasks", {})


@pytest.mark.parametrize(
    ("identity", "asked"),
    [
        (Identity(lasts=3600), 1),
        (Identity(lasts=200), 3),
        (IdentityWithInfo(None), 1),
        (IdentityWithInfo(600), 1),
        (IdentityWithInfo(-61), 3),
    ],
    ids=["lasts", "ends soon", "lasts, with info", "is to be replaced later", "is to be replaced"],
)
async def test_a_token_is_replaced_in_time(identity: Identity, asked: int) -> None:
    bearer = Bearer(identity, jitter=lambda: 0.99)
    for _ in range(3):
        await bearer.authorise(request_of("https://account.example"))
    assert len(identity.claims) == asked


async def test_a_token_goes_over_tls_only() -> None:
    identity, request = Identity(), request_of("http://account.example")
    with pytest.raises(ValueError, match="HTTPS"):
        await Bearer(identity).authorise(request)
    assert (identity.claims, request.headers) == ([], {})
