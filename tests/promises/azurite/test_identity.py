"""The whole life of a task works with an identity instead of a key: the same code, another credential."""

from __future__ import annotations

import asyncio
import base64
import hmac
import ssl
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import aiohttp
import pytest
from azure.storage.blob import UserDelegationKey
from yarl import URL

from shared.app.assembly import assemble
from shared.base.ids import new_slugid
from shared.queue.tasks.internal_messages import DEADLINE_QUEUE, ResolvedBody
from shared.queue.tasks.rules import Resolved, State, Worker
from shared.runtime import Runtime, utc_now
from shared.store.connection import AzureStorage
from shared.store.interface import StorageUnavailable, Upsert
from shared.store.signing import SignedAccess
from tests.parts.twin.gate import open_gate
from tests.promises.azurite.identity import Identity, make_certificate, open_account
from tests.promises.simulator.topics import Topics
from tests.promises.simulator.world import POOL, World, settings
from tests.storage_accounts import ACCOUNTS
from tools.local.azurite import Azurite


@pytest.fixture
def validity() -> dict[str, datetime]:
    """Returns start and expiry of a URL that is valid for half an hour."""
    now = datetime.now(UTC).replace(microsecond=0)
    return {"start": now - timedelta(minutes=15), "expiry": now + timedelta(minutes=30)}


@pytest.fixture(autouse=True)
async def connections_end() -> AsyncIterator[None]:
    """Waits for the end of a test's connections: those that speak TLS end a moment after they were closed."""
    yield
    loop: Any = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        while any(transport._sock is not None for transport in list(loop._transports.values())):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def guarded(certificate: tuple[Path, Path]) -> Iterator[Azurite]:
    """Yields an Azurite that takes tokens."""
    public, key = certificate
    arguments = ["--oauth", "basic", "--cert", str(public), "--key", str(key)]
    with Azurite.start(in_memory=True, arguments=arguments, accounts=ACCOUNTS) as running:
        yield running


@pytest.fixture
async def account(guarded: Azurite, certificate: tuple[Path, Path]) -> AsyncIterator[AzureStorage]:
    async with open_account(guarded, certificate[0], Identity()) as opened:
        yield opened


async def test_the_life_of_a_task(account: AzureStorage) -> None:
    services = assemble(settings(), Runtime(), account.storage, Topics(open_gate))
    made = World().definition(new_slugid())
    now = utc_now()
    dates = {"created": now, "deadline": now + timedelta(hours=3), "expires": now + timedelta(days=2)}
    shown = {name: f"{moment:%Y-%m-%dT%H:%M:%S}.000Z" for name, moment in dates.items()}
    large = {"payload": {"incompressible": "".join(uuid.uuid4().hex for _ in range(35_000))}}
    definition = type(made)(made.task_id, {**made.body, **shown, **large, "taskGroupId": made.task_id})
    await services.create_task(definition)
    (claim,) = await services.work.claim_work(POOL, Worker(worker_group="g", worker_id="w"), 1, 5.0)
    assert claim.task.task_id == made.task_id
    task = await services.lifecycle.report(made.task_id, 0, Resolved.COMPLETED)
    assert task.state is State.COMPLETED
    await services.resolution.resolved_due(ResolvedBody(task_id=made.task_id, run_id=0, put=now))
    assert await account.storage.queues.length(DEADLINE_QUEUE) == 0
    other = assemble(settings(), Runtime(), account.storage, Topics(open_gate))
    assert (await other.lifecycle.definition(made.task_id))["payload"] == large["payload"], "in several rows"


async def test_artifacts_by_urls_that_a_delegated_key_signs(
    account: AzureStorage, certificate: tuple[Path, Path], validity: dict[str, datetime]
) -> None:
    """Artifacts are uploaded and read by URLs that a delegated key signs. Azurite hands out the keys, but knows only
    the form of signatures of before 2025: they are signed anew for it. The present form follows below."""
    write = await account.storage.access.write_blob("artifacts", "a/0/b", **validity)
    key = await _delegated_key(account, **validity)
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        block = URL(f"{in_old_form(write, key)}&comp=block&blockid=YQ%3D%3D", encoded=True)
        async with session.put(block, data=b"content") as answer:
            assert answer.status == 201
        assert await account.storage.blobs.commit_blocks(
            "artifacts", "a/0/b", ["a"], content_type="text/plain", content_encoding=""
        )
        read = await account.storage.access.read_blob(
            "artifacts",
            "a/0/b",
            **validity,
            content_type="text/x-log",
            content_disposition="",
        )
        async with session.get(URL(in_old_form(read, key), encoded=True)) as answer:
            assert (answer.status, await answer.read()) == (200, b"content")
            assert answer.headers["content-type"] == "text/x-log"
        wrong = URL(f"{in_old_form(read, key)}&comp=block&blockid=YQ%3D%3D", encoded=True)
        async with session.put(wrong, data=b"other") as answer:
            assert answer.status == 403, "reading is not writing"


async def test_a_url_of_today_is_signed_with_the_delegated_key(
    account: AzureStorage, validity: dict[str, datetime]
) -> None:
    """The delegated key signs what the REST reference says. Azurite does not know the fields that were added to such
    signatures since, so it cannot be asked."""
    disposition = 'inline; filename="a \\"b\\".html"'
    url = await account.storage.access.read_blob(
        "blobs", "task/0/digest", **validity, content_type="text/html", content_disposition=disposition
    )
    parts, key = URL(url, encoded=True), await _delegated_key(account, **validity)
    query = parts.query
    words = [
        *("r", query["st"], query["se"], f"/blob{parts.path}"),
        *(query["skoid"], query["sktid"], query["skt"], query["ske"], "b", query["skv"]),
        *("", "", ""),  # authorised user, unauthorised user, correlation id
        *("", ""),  # delegated tenant and user
        *("", "https", query["sv"], "b", "", ""),  # address, protocol, version, a blob, no snapshot, no scope
        *("", ""),  # headers and parameters that the request must have
        *("", disposition, "", "", "text/html"),
    ]
    signature = hmac.digest(base64.b64decode(str(key.value)), "\n".join(words).encode(), "sha256")
    assert query["sig"] == base64.b64encode(signature).decode()
    assert query["spr"] == "https"


async def _delegated_key(account: AzureStorage, start: datetime, expiry: datetime) -> UserDelegationKey:
    """Returns the key that the account's URLs are signed with."""
    access = account.storage.access
    assert isinstance(access, SignedAccess)
    assert not isinstance(access.blob_key, str)
    return cast(UserDelegationKey, await access.blob_key.current(start, expiry))


def in_old_form(url: str, key: UserDelegationKey) -> str:
    """Returns a URL with the same permission, signed as services did in 2023."""
    parts = URL(url, encoded=True)
    query = {**parts.query, "sv": "2023-11-03"}
    assert query["skoid"] == key.signed_oid
    fields = ("sp", "st", "se"), ("skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "scid", "sip", "spr")
    more = ("sv", "sr", "snapshot", "ses", "rscc", "rscd", "rsce", "rscl", "rsct")
    before, after = ([query.get(name, "") for name in names] for names in (fields[0], (*fields[1], *more)))
    text = "\n".join([*before, f"/blob{parts.path}", *after])
    assert key.value is not None
    query["sig"] = base64.b64encode(hmac.digest(base64.b64decode(key.value), text.encode(), "sha256")).decode()
    return f"{parts.with_query(None)}?{urlencode(query)}"


async def test_tokens_are_for_storage(guarded: Azurite, certificate: tuple[Path, Path]) -> None:
    identity = Identity()
    async with open_account(guarded, certificate[0], identity) as account:
        await account.storage.tables.get_row("Tasks", "p", "r")
        await account.storage.queues.length("claim")
    assert set(identity.scopes) == {"https://storage.azure.com/.default"}


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://vault.azure.net"},
        {"iss": "https://evil.example.com/"},
        {"exp": timedelta(hours=-1)},
        {"nbf": timedelta(hours=1)},
    ],
    ids=["another service's", "another issuer's", "expired", "not yet valid"],
)
async def test_a_token_that_is_not_taken_is_a_failure_that_says_nothing_of_it(
    guarded: Azurite, certificate: tuple[Path, Path], claims: dict[str, str | timedelta]
) -> None:
    now = datetime.now(UTC)
    wrong = {
        name: int((now + claim).timestamp()) if isinstance(claim, timedelta) else claim
        for name, claim in claims.items()
    }
    async with open_account(guarded, certificate[0], Identity(**wrong)) as account:
        for request in (
            account.storage.tables.transact("Tasks", "p", [Upsert("r", {})]),
            account.storage.queues.put_message("claim", "text"),
            account.storage.blobs.properties("artifacts", "a"),
        ):
            with pytest.raises(StorageUnavailable) as caught:
                await request
            assert "40" in str(caught.value)
            assert "eyJ" not in str(caught.value)
