"""Signed URLs of queues: what is signed, with which key, and how often a delegated key is asked for."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import AsyncMock
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from azure.core.credentials import AccessToken, AccessTokenInfo
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.rest import HttpRequest
from azure.storage.queue import UserDelegationKey

from shared.base.retrying import STORAGE_REQUEST
from shared.store.connection import AzureStorage, Endpoints
from shared.store.interface import SignedQueue
from shared.store.pipeline import Transport
from shared.store.signing import DELEGATED_FOR, DelegatedKey, SignedAccess
from shared.store.wire import Patience

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
START, EXPIRY = NOW - timedelta(minutes=15), NOW + timedelta(minutes=30)
KEY = base64.b64encode(b"the account's key").decode()
QUEUE = "pending-abc-1"


def signature(text: str, key: str) -> str:
    return base64.b64encode(hmac.digest(base64.b64decode(key), text.encode(), hashlib.sha256)).decode()


def fields(signed: SignedQueue) -> dict[str, str]:
    """Returns the query, each parameter once."""
    query = parse_qs(signed.sas, keep_blank_values=True, strict_parsing=True)
    assert all(len(values) == 1 for values in query.values())
    return {name: values[0] for name, values in query.items()}


def access_with(
    key: str | DelegatedKey,
    *,
    queue_endpoint: str = "https://acct.queue.core.windows.net",
) -> SignedAccess:
    """Returns access to the account `acct`, whose URLs of queues this key signs."""
    return SignedAccess(
        account="acct",
        queue_endpoint=queue_endpoint,
        blob_endpoint="https://acct.blob.core.windows.net",
        queue_key=key,
        blob_key=KEY,
        ensure_container=AsyncMock(),
    )


def delegated(number: int = 1, start: datetime = START) -> UserDelegationKey:
    key = UserDelegationKey()  # type: ignore[no-untyped-call]  # the SDK's own, without types
    key.signed_oid = "11111111-2222-3333-4444-555555555555"
    key.signed_tid = "66666666-7777-8888-9999-000000000000"
    key.signed_start = start.strftime("%Y-%m-%dT%H:%M:%SZ")
    key.signed_expiry = (start + DELEGATED_FOR).strftime("%Y-%m-%dT%H:%M:%SZ")
    key.signed_service = "q"
    key.signed_version = "2026-02-06"
    key.signed_delegated_user_tid = None
    key.value = base64.b64encode(f"delegated {number}".encode()).decode()
    return key


async def test_plain_http_only_where_the_endpoint_is_http() -> None:
    access = access_with(KEY, queue_endpoint="http://127.0.0.1:10001/acct")
    assert fields(await access.process_queue(QUEUE, start=START, expiry=EXPIRY))["spr"] == "https,http"


async def test_with_a_delegated_key() -> None:
    async def fetch(start: datetime, expiry: datetime) -> UserDelegationKey:
        return delegated()

    access = access_with(DelegatedKey(fetch))
    query = fields(await access.process_queue(QUEUE, start=START, expiry=EXPIRY))
    key, version = delegated(), query["sv"]
    text = "\n".join(
        (
            *("p", "2026-11-21T11:45:00Z", "2026-11-21T12:30:00Z", "/queue/acct/pending-abc-1"),
            *("11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"),
            *("2026-11-21T11:45:00Z", "2026-11-25T11:45:00Z", "q", "2026-02-06"),
            *("", ""),  # no delegated tenant or user
            *("", "https", version),
        )
    )
    assert query == {
        "sp": "p",
        "st": "2026-11-21T11:45:00Z",
        "se": "2026-11-21T12:30:00Z",
        "spr": "https",
        "sv": version,
        "skoid": "11111111-2222-3333-4444-555555555555",
        "sktid": "66666666-7777-8888-9999-000000000000",
        "skt": "2026-11-21T11:45:00Z",
        "ske": "2026-11-25T11:45:00Z",
        "sks": "q",
        "skv": "2026-02-06",
        "sig": signature(text, str(key.value)),
    }


class Identity(AsyncTokenCredential):
    """A managed identity whose token is always at hand."""

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        return AccessToken("the-token", 4_000_000_000)

    async def get_token_info(self, *scopes: str, options: Any = None) -> AccessTokenInfo:
        return AccessTokenInfo("the-token", 4_000_000_000)

    async def close(self) -> None:
        """Closes nothing."""

    async def __aexit__(self, *error: object) -> None:
        """Closes nothing."""


class Unwrapped(Transport):
    """Speaks plain HTTP to the test's server where the pipeline thinks it is TLS: tokens are sent on no other."""

    async def send(self, request: HttpRequest, **config: Any) -> Any:
        request.url = request.url.replace("https://", "http://")
        return await super().send(request, **config)


class Azure:
    """A server that delegates keys as Azure does, or refuses."""

    def __init__(self) -> None:
        self.status = 200
        self.bodies: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        assert (request.method, request.query_string) == ("POST", "restype=service&comp=userdelegationkey")
        assert request.headers["Authorization"] == "Bearer the-token"
        self.bodies.append(await request.text())
        key = delegated()
        body = (
            '<?xml version="1.0" encoding="utf-8"?><UserDelegationKey>'
            f"<SignedOid>{key.signed_oid}</SignedOid><SignedTid>{key.signed_tid}</SignedTid>"
            f"<SignedStart>{key.signed_start}</SignedStart><SignedExpiry>{key.signed_expiry}</SignedExpiry>"
            f"<SignedService>q</SignedService><SignedVersion>{key.signed_version}</SignedVersion>"
            f"<Value>{key.value}</Value></UserDelegationKey>"
        )
        if self.status != 200:
            body = '<?xml version="1.0" encoding="utf-8"?><Error><Code>No</Code><Message>No.</Message></Error>'
        return web.Response(status=self.status, text=body, content_type="application/xml")


@pytest.fixture
async def azure() -> AsyncIterator[Azure]:
    made = Azure()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    async with TestServer(app) as server:
        made.url = str(server.make_url("")).replace("http://", "https://").rstrip("/")
        yield made


def account(azure: Azure, signing_key: str | None = None) -> AzureStorage:
    patience = Patience(retries=replace(STORAGE_REQUEST, tries=1))
    endpoints = Endpoints(table=azure.url, queue=azure.url, blob=azure.url)
    return AzureStorage(
        endpoints, Identity(), signing_key=signing_key, patience=patience, transport=Unwrapped(patience)
    )


async def test_an_identity_without_a_key_has_one_delegated(azure: Azure) -> None:
    async with account(azure) as storage:
        for _ in range(2):
            query = fields(await storage.storage.access.process_queue(QUEUE, start=START, expiry=EXPIRY))
    assert query["skoid"] == delegated().signed_oid
    (body,) = azure.bodies
    assert "<Start>2026-11-21T11:45:00Z</Start>" in body
    assert "<Expiry>2026-11-25T11:45:00Z</Expiry>" in body
