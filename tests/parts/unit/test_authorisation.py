"""The hand-made signatures equal those of the SDKs for any legal key, option and body, and addresses are as yarl would
send them. The SDKs' signing policies are private names of theirs, which `shared.store.connection` uses for all other
requests: this fails when one of them moves, or signs something else."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from unittest.mock import AsyncMock

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.pipeline import PipelineContext, PipelineRequest
from azure.core.pipeline.transport import AioHttpTransport
from azure.core.rest import HttpRequest
from azure.data.tables._authentication import SharedKeyCredentialPolicy as TableKeyPolicy
from azure.storage.queue._shared.authentication import SharedKeyCredentialPolicy as StorageKeyPolicy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from yarl import URL

from shared.store import table_requests
from shared.store import table_requests as batch
from shared.store.authorisation import QueueKey, TableKey
from shared.store.azure_queues import AzureQueues
from shared.store.counting import Kind
from shared.store.interface import Create, Delete, Merge, Operation, Receipt, Replace, StorageUnavailable, Upsert
from shared.store.wire import Authorisation, Request, StorageEndpoint

ACCOUNT, KEY = "account", "c2VjcmV0LWtleQ=="
CREDENTIAL = AzureNamedKeyCredential(ACCOUNT, KEY)
ENDPOINTS = st.sampled_from(
    [
        StorageEndpoint.of("https://account.table.core.windows.net"),
        StorageEndpoint.of("http://127.0.0.1:10002/devstoreaccount1"),
    ]
)
ODD = "a'b\"+ %41%2F&={x}[]()!*@:,$~<>|^`.-_é\u2028\U0001f600"
# Not ";": the SDK signs what comes before it only. Ours is held to the services' own word in tests/promises/azurite.
LEGAL = st.characters(exclude_characters="/\\#?;", exclude_categories=["Cc", "Cs"])
KEYS = st.text(st.sampled_from(ODD) | LEGAL, max_size=30)
TEXTS = st.text(LEGAL, min_size=1, max_size=30)
IDS = st.text(st.sampled_from("0123456789abcdef-/+= %\u00e9"), min_size=1, max_size=40)


def policy_says(policy: Any, request: Request) -> str:
    """Returns the header that an SDK's policy adds to this request when it is sent by aiohttp."""
    http = HttpRequest(request.method, request.url, headers=request.headers, content=request.content or None)
    if request.content:
        http.headers["Content-Length"] = str(len(request.content))
    policy.on_request(PipelineRequest(http, PipelineContext(AioHttpTransport())))
    return str(http.headers["Authorization"])


async def agreed(authorisation: Authorisation, policy: Any, request: Request) -> None:
    assert str(URL(request.url)) == request.url, "yarl would send another address than is signed"
    request.headers["x-ms-date"] = "Sun, 22 Nov 2026 12:15:43 GMT"
    await authorisation.authorise(request)
    ours = request.headers.pop("Authorization")
    assert ours.startswith("SharedKey account:")
    assert policy_says(policy, request) == ours, request


@settings(deadline=None, max_examples=60)
@given(ENDPOINTS, KEYS, KEYS, KEYS, st.none() | st.lists(st.just("state"), max_size=2))
@example(StorageEndpoint.of("https://a.example"), ODD, "", "é", None)
async def test_reads_of_tables(
    endpoint: StorageEndpoint, partition: str, start: str, end: str, select: list[str] | None
) -> None:
    more = {"NextPartitionKey": "1!8!cGFydA--", "NextRowKey": "1!4!=/+aw--"}
    for request in (
        table_requests.row_request(endpoint, "Tasks", partition, start),
        table_requests.query(
            endpoint, "Tasks", partition, start=start, end=end, limit=7, select=select, continuation=more
        ),
    ):
        await agreed(TableKey(CREDENTIAL), TableKeyPolicy(CREDENTIAL), request)  # type: ignore[no-untyped-call]


@settings(deadline=None, max_examples=60)
@given(ENDPOINTS, KEYS, KEYS, st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
async def test_writes_of_tables(endpoint: StorageEndpoint, partition: str, key: str, text: str) -> None:
    operations: list[Operation] = [
        Create(key, {"text": text}),
        Upsert(key, {}),
        Replace(key, {"n": 1 << 40}),
        Merge(key, {}, "W/\"datetime'2026-01-02T03%3A04%3A05.1234567Z'\""),
        Delete(key),
    ]
    requests = [table_requests.request_of(endpoint, "Tasks", partition, operation) for operation in operations]
    requests.append(batch.encode(endpoint, "Tasks", partition, operations))
    for request in requests:
        await agreed(TableKey(CREDENTIAL), TableKeyPolicy(CREDENTIAL), request)  # type: ignore[no-untyped-call]


@settings(deadline=None, max_examples=60)
@given(ENDPOINTS, TEXTS, IDS, IDS)
@example(StorageEndpoint.of("https://a.example"), "<&>", "a/b+c=", "id/with + signs%2F")
async def test_requests_of_queues(endpoint: StorageEndpoint, text: str, pop_receipt: str, message_id: str) -> None:
    receipt = Receipt(message_id=message_id, pop_receipt=pop_receipt, visible=datetime(2026, 1, 1, tzinfo=UTC))
    wire = AsyncMock()
    wire.send.side_effect = StorageUnavailable
    queues = AzureQueues(wire, endpoint)
    for call in (
        queues.put_message("queue-1", text, visible_in=3),
        queues.get_messages("queue-1", count=32, hidden_for=600),
        queues.update("queue-1", receipt, visible_in=0),
        queues.update("queue-1", receipt, visible_in=604_800, text=text),
        queues.delete_message("queue-1", receipt),
        queues.create_queue("queue-1"),
        queues.drop("queue-1"),
        queues.length("queue-1"),
    ):
        with pytest.raises(StorageUnavailable):
            await call
    for sent in wire.send.call_args_list:
        (request,) = sent.args
        await agreed(QueueKey(CREDENTIAL), StorageKeyPolicy(ACCOUNT, KEY), request)  # type: ignore[no-untyped-call]


async def test_a_key_that_was_replaced_is_used_at_once() -> None:
    credential = AzureNamedKeyCredential(ACCOUNT, KEY)
    signed = TableKey(credential)
    request = table_requests.row_request(StorageEndpoint.of("https://a.example"), "Tasks", "p", "k")
    request.headers["x-ms-date"] = "Sun, 22 Nov 2026 12:15:43 GMT"
    await signed.authorise(request)
    before = request.headers["Authorization"]
    credential.update(ACCOUNT, "b3RoZXIta2V5")
    await signed.authorise(request)
    assert request.headers["Authorization"] != before
    assert re.fullmatch(r"SharedKey account:[A-Za-z0-9+/]{43}=", before)


@pytest.mark.parametrize(
    ("url", "origin", "base"),
    [
        ("https://a.table.core.windows.net", "https://a.table.core.windows.net", ""),
        ("http://127.0.0.1:10002/devstoreaccount1", "http://127.0.0.1:10002", "/devstoreaccount1"),
    ],
)
def test_endpoints(url: str, origin: str, base: str) -> None:
    endpoint = StorageEndpoint.of(url)
    assert (endpoint.origin, endpoint.base) == (origin, base)
    assert Request(Kind.TABLE_READ, "GET", endpoint, "/T", {}).url == f"{url}/T"
