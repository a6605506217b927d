"""Every kind of hot request, and a server that answers them by a script, well or badly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from azure.core.credentials import AccessToken, AccessTokenInfo, AzureNamedKeyCredential
from azure.core.credentials_async import AsyncTokenCredential

from shared.base.retrying import STORAGE_REQUEST
from shared.store.connection import AzureStorage, Credential, Endpoints
from shared.store.counting import Kind
from shared.store.http_connections import Connections
from shared.store.interface import Create, Delete, Merge, Receipt, Replace, Storage, Upsert
from shared.store.wire import REQUEST_ID, Patience, Request, StorageAnswer

KEY = AzureNamedKeyCredential("account", "c2VjcmV0LWtleQ==")
PATIENCE = Patience(total=20, retries=replace(STORAGE_REQUEST, first=0.001))
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
    "get": Hot(Kind.TABLE_READ, lambda s: s.tables.get_row("Tasks", "p", "k"), 200, ROW),
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
    "put": Hot(Kind.QUEUE_PUT, lambda s: s.queues.put_message("queue", "text"), 201, MESSAGES),
    "take": Hot(Kind.QUEUE_GET, lambda s: s.queues.get_messages("queue", hidden_for=5), 200, MESSAGES),
    "move": Hot(Kind.QUEUE_UPDATE, lambda s: s.queues.update("queue", RECEIPT, visible_in=5), 204, "", MOVED),
    "delete": Hot(Kind.QUEUE_DELETE, lambda s: s.queues.delete_message("queue", RECEIPT), 204),
}
every_kind = pytest.mark.parametrize("hot", HOT.values(), ids=HOT.keys())
with_answer = pytest.mark.parametrize(
    "hot", [hot for hot in HOT.values() if hot.body], ids=[name for name, hot in HOT.items() if hot.body]
)
Script = Callable[[web.Request], Awaitable[web.StreamResponse]]


def fine(hot: Hot) -> Script:
    return answers(hot.status, hot.body, hot.headers)


def answers(status: int, body: str = "", headers: dict[str, str] | None = None) -> Script:
    async def answer(request: web.Request) -> web.StreamResponse:
        named = {**(headers or {}), **name_of(request)}
        return web.Response(status=status, body=body.encode(), headers=named)

    return answer


def name_of(request: web.Request) -> dict[str, str]:
    """Returns the header that names the request, which an answer repeats."""
    return {REQUEST_ID: request.headers[REQUEST_ID]} if REQUEST_ID in request.headers else {}


async def cut_off(request: web.Request) -> web.StreamResponse:
    """Ends the connection without an answer: the request may have been carried out."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def truncated(hot: Hot) -> Script:
    """Returns a script that ends the connection in the middle of the body."""

    async def answer(request: web.Request) -> web.StreamResponse:
        headers = {**hot.headers, **name_of(request), "Content-Length": str(len(hot.body))}
        response = web.StreamResponse(status=hot.status, headers=headers)
        await response.prepare(request)
        await response.write(hot.body[: len(hot.body) // 2].encode())
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


async def silence(request: web.Request) -> web.StreamResponse:
    """Answers nothing until the client has given up."""
    while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    return web.Response()


class Unwrapped(Connections):
    """Speaks plain HTTP to the test's server, which the rest of the process takes for one with TLS."""

    async def exchange(self, request: Request) -> StorageAnswer:
        endpoint = replace(request.endpoint, origin=request.endpoint.origin.replace("https://", "http://"))
        return await super().exchange(replace(request, endpoint=endpoint))


class Identity(AsyncTokenCredential):
    """Hands out numbered tokens that last for a number of seconds; a script of errors comes first."""

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
        """Closes nothing."""

    async def __aexit__(self, *error: object) -> None:
        """Closes nothing."""


class IdentityWithInfo(Identity):
    """An identity that also says when a token should be replaced."""

    def __init__(self, refresh_in: float | None, lasts: float = 3600) -> None:
        super().__init__(lasts=lasts)
        self._refresh_in = refresh_in

    async def get_token_info(self, *scopes: str, options: Any = None) -> AccessTokenInfo:
        token = await self.get_token(*scopes, claims=(options or {}).get("claims"))
        refresh_on = None if self._refresh_in is None else int(time.time() + self._refresh_in)
        return AccessTokenInfo(token.token, token.expires_on, refresh_on=refresh_on)


@dataclass
class Service:
    """A server that answers by the script, then always as it did last, and keeps what it was asked."""

    url: str = ""
    patience: Patience = PATIENCE
    script: Sequence[Script] = ()
    requests: list[web.Request] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.requests.append(request)
        return await self.script[min(len(self.requests), len(self.script)) - 1](request)

    def account(self, credential: Credential = KEY, **options: Any) -> AzureStorage:
        """Returns the account behind this server; an identity takes the server for one with TLS."""
        options.setdefault("patience", self.patience)
        url = self.url if isinstance(credential, AzureNamedKeyCredential) else self.url.replace("http:", "https:")
        return AzureStorage(
            Endpoints(table=url, queue=url, blob=url), credential, exchange=Unwrapped(options["patience"]), **options
        )

    def authorisations(self) -> list[str]:
        return [request.headers["Authorization"] for request in self.requests]


@asynccontextmanager
async def serving(patience: Patience = PATIENCE) -> AsyncIterator[Service]:
    """Yields a server of the test's own."""
    made = Service(patience=patience)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/account"))
        yield made
