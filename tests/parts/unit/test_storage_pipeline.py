"""The HTTP pipeline against a server that misbehaves on purpose: retries, time limits, credentials, odd answers."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port

from shared.base.retrying import STORAGE_REQUEST
from shared.store.connection import AzureStorage, Endpoints, parse_connection_string
from shared.store.counting import Kind, counting
from shared.store.interface import Create, Refusal, StorageUnavailable, TransactionRefused, Upsert
from shared.store.wire import REQUEST_ID, Patience
from tests.parts.unit.hot_requests import Identity, IdentityWithInfo, Script, Service, cut_off, name_of, serving

_KEY = "c2VjcmV0LWtleQ=="
_PATIENCE = Patience(connect=1, read=0.2, total=1, retries=replace(STORAGE_REQUEST, first=0.001))
_ROW = {"PartitionKey": "p", "RowKey": "k", "Timestamp": "2026-01-01T00:00:00.0000000Z", "odata.etag": 'W/"1"'}


def _status(status: int, code: str = "") -> Script:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"odata.error": {"code": code, "message": {"value": code}}}, status=status)

    return answer


def _json(body: object, headers: dict[str, str] | None = None) -> Script:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, headers={**(headers or {}), **name_of(request)})

    return answer


def _batch(*parts: str) -> Script:
    async def answer(request: web.Request) -> web.StreamResponse:
        text = "\r\n".join(f"--c\r\nContent-Type: application/http\r\n\r\n{part}\r\n" for part in parts)
        headers = {"Content-Type": "multipart/mixed; boundary=b"}
        return web.Response(status=202, body=f"--b\r\n\r\n{text}--c--\r\n--b--".encode(), headers=headers)

    return answer


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving(_PATIENCE) as made:
        yield made


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, "reset"])
async def test_what_may_pass_is_tried_again(service: Service, status: int | str) -> None:
    trouble = _status(status) if isinstance(status, int) else cut_off
    service.script = [trouble, trouble, _json(_ROW)]
    async with service.account() as account:
        with counting() as operations:
            row = await account.storage.tables.get_row("Tasks", "p", "k")
    assert row is not None
    assert row.etag == 'W/"1"'
    assert operations.total == 1
    if status != "reset":  # aiohttp repeats some by itself, when the connection was in use before
        assert (operations.retries, len(service.requests)) == (2, 3)


async def test_requests_of_the_sdks_are_tried_again_and_count_once(service: Service) -> None:
    """Requests of the SDKs are tried again and count once, also after the answer to another request."""

    async def of_another(request: web.Request) -> web.StreamResponse:
        return web.Response(headers={REQUEST_ID: "another"})

    async def fine(request: web.Request) -> web.StreamResponse:
        return web.Response(headers={"x-ms-approximate-messages-count": "3", **name_of(request)})

    service.script = [_status(503), of_another, fine]
    async with service.account() as account:
        with counting() as operations:
            assert await account.storage.queues.length("queue-1") == 3
    assert (operations.counts, operations.retries) == ({Kind.QUEUE_LENGTH: 1}, 2)
    assert len({request.headers[REQUEST_ID] for request in service.requests}) == 3


async def test_no_connection_is_storage_unavailable_without_the_address(service: Service) -> None:
    service.url = f"http://127.0.0.1:{unused_port()}/account"
    async with service.account() as account:
        for request in (
            account.storage.tables.get_row("Tasks", "p", "k"),
            account.storage.queues.put_message("q-1", "text"),
            account.storage.blobs.upload("blobs", "a", b"x", content_type="text/plain"),
        ):
            with pytest.raises(StorageUnavailable) as caught:
                await request
            assert "127.0.0.1" not in str(caught.value)


async def test_a_repeat_may_be_refused_by_the_first_try(service: Service) -> None:
    """A repeat is refused if the answer to the first insert was lost; an operation id tells its caller."""
    service.script = [_status(503), _status(409, "EntityAlreadyExists")]
    async with service.account() as account:
        with pytest.raises(TransactionRefused) as caught:
            await account.storage.tables.transact("Tasks", "p", [Create("k", {})])
    assert caught.value.refusal is Refusal.EXISTS


async def test_a_table_that_another_process_makes_meanwhile(service: Service) -> None:
    """A refusal to make a table is understood though, as Azure Tables does it, the body alone says why."""
    service.script = [_status(404, "TableNotFound"), _status(409, "TableAlreadyExists"), _json({}, {"ETag": "1"})]
    async with service.account() as account:
        assert await account.storage.tables.transact("Tasks", "p", [Create("k", {})]) == ["1"]


async def test_a_transaction_that_failed_in_passing_is_tried_again(service: Service) -> None:
    fine = 'HTTP/1.1 204 No Content\r\nETag: W/"1"\r\n\r\n'
    busy = 'HTTP/1.1 503 Server Busy\r\n\r\n{"odata.error":{"code":"ServerBusy","message":{"value":"0:busy"}}}'
    service.script = [_batch(busy), _batch(fine, fine)]
    async with service.account() as account:
        with counting() as operations:
            etags = await account.storage.tables.transact("Tasks", "p", [Create("a", {}), Upsert("b", {})])
        service.script = [_batch(busy)]
        with pytest.raises(StorageUnavailable):
            await account.storage.tables.transact("Tasks", "p", [Create("a", {}), Upsert("b", {})])
    assert etags == ['W/"1"', 'W/"1"']
    assert (operations.total, operations.retries) == (1, 1)


async def test_a_page_that_ends_early_without_rows_is_followed_up(service: Service) -> None:
    more = {"x-ms-continuation-NextPartitionKey": "1!4!cA--", "x-ms-continuation-NextRowKey": "1!4!aw--"}
    service.script = [_json({"value": []}, more), _json({"value": []}, more), _json({"value": [_ROW]}, more)]
    async with service.account() as account:
        with counting() as operations:
            page = await account.storage.tables.query("Tasks", "p", start="", end="z")
    assert ([row.key for row in page.rows], page.resume) == (["k"], "k ")
    assert operations.total == 3
    assert service.requests[2].query["NextRowKey"] == "1!4!aw--"


async def test_each_try_is_signed(service: Service) -> None:
    service.script = [_status(503), _json(_ROW)]
    async with service.account() as account:
        await account.storage.tables.get_row("Tasks", "p", "k")
    for request in service.requests:
        assert request.headers["Authorization"].startswith("SharedKey account:")
        assert request.headers["x-ms-date"].endswith("GMT")
        assert _KEY not in str(request.headers)


async def test_a_managed_identity(service: Service) -> None:
    service.script = [_json(_ROW)]
    identity = IdentityWithInfo(None)
    async with service.account(identity) as account:
        for _ in range(3):
            assert await account.storage.tables.get_row("Tasks", "p", "k")
    assert len(identity.claims) == 1  # cached from then on
    assert service.authorisations() == ["Bearer token-1"] * 3


async def test_a_token_goes_over_tls_only(service: Service) -> None:
    endpoints = Endpoints(table=service.url, queue=service.url, blob=service.url)
    async with AzureStorage(endpoints, Identity(), patience=_PATIENCE) as account:
        with pytest.raises(ValueError, match="HTTPS"):
            await account.storage.tables.get_row("Tasks", "p", "k")
    assert service.requests == []


def test_connection_strings() -> None:
    endpoints, credential = parse_connection_string(f"AccountName=acc;AccountKey={_KEY};EndpointSuffix=core.example")
    table, queue, blob = (f"https://acc.{service}.core.example" for service in ("table", "queue", "blob"))
    assert endpoints == Endpoints(table=table, queue=queue, blob=blob)
    assert credential.named_key == ("acc", _KEY)
    text = f"DefaultEndpointsProtocol=http;AccountName=acc;AccountKey={_KEY};TableEndpoint=http://h:1/acc/;"
    endpoints, _ = parse_connection_string(text)
    assert (endpoints.table, endpoints.blob) == ("http://h:1/acc", "http://acc.blob.core.windows.net")
    endpoints, credential = parse_connection_string("UseDevelopmentStorage=true;")
    assert endpoints.queue == "http://127.0.0.1:10001/devstoreaccount1"
    assert credential.named_key.name == "devstoreaccount1"


@pytest.mark.parametrize("text", ["", "x", f"AccountKey={_KEY}", "AccountName=acc", f"AccountName=a;key={_KEY}"])
def test_a_bad_connection_string_is_not_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="Account") as caught:
        parse_connection_string(text)
    assert _KEY not in str(caught.value)
