"""Tokens of hot requests: shared, replaced in time, refused, challenged, and not to be had."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator

import pytest
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from shared.store.counting import Kind
from shared.store.interface import StorageRefused, StorageUnavailable
from shared.store.wire import Request, StorageEndpoint
from tests.parts.unit.hot_requests import HOT, Identity, IdentityWithInfo, Service, answers, fine, serving


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving() as made:
        yield made


async def test_one_token_serves_many_requests_and_both_services(service: Service) -> None:
    identity = Identity()
    service.script = [answers(404, "", {"x-ms-error-code": "QueueNotFound"})]
    async with service.account(identity) as account:
        storage = account.storage
        await asyncio.gather(*(storage.tables.get_row("Tasks", "p", "k") for _ in range(5)))
        await asyncio.gather(*(storage.queues.get_messages("queue", hidden_for=5) for _ in range(5)))
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
    return Request(Kind.TABLE_READ, "GET", StorageEndpoint(origin, ""), "/Tasks", {})
