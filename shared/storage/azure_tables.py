"""Azure Tables behind `interface.Tables`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline import AsyncPipeline
from azure.data.tables import EdmType, EntityProperty, TableEntity, UpdateMode
from azure.data.tables.aio import TableClient

from shared.storage import batch, limits
from shared.storage.interface import (
    Create,
    Delete,
    Merge,
    Operation,
    Page,
    Refusal,
    Replace,
    Row,
    TransactionRefused,
    Upsert,
    Value,
)
from shared.storage.pipeline import REFUSALS, Refused, unavailable

_NO_TABLE = "TableNotFound"
_TOO_LARGE = frozenset({"EntityTooLarge", "PropertyValueTooLarge", "RequestBodyTooLarge", "TooManyProperties"})
_NO_ECHO = {"response_preference": "return-no-content"}
_REFUSAL = {404: Refusal.MISSING, 409: Refusal.EXISTS, 412: Refusal.STALE}


class AzureTables:
    """Tables of one account. A table that does not exist yet reads as empty and is made by the first write."""

    def __init__(self, open_client: Callable[[str], TableClient], pipeline: AsyncPipeline[Any, Any]) -> None:
        self._open_client = open_client
        self._pipeline = pipeline
        self._clients: dict[str, TableClient] = {}

    async def get(self, table: str, partition: str, key: str) -> Row | None:
        """One row, or None. Raises StorageUnavailable."""
        limits.check_key(partition)
        limits.check_key(key)
        try:
            with unavailable():
                entity = await self._client(table).get_entity(partition, key, error_map=REFUSALS)
        except Refused as answer:
            if answer.status == 404:
                return None
            raise
        return _row(entity)

    async def query(
        self,
        table: str,
        partition: str,
        *,
        start: str,
        end: str,
        limit: int = 1000,
        select: Sequence[str] | None = None,
    ) -> Page:
        """See `interface.Tables.query`. An empty page with a continuation is followed up here, by one more request.

        Azure's continuation is opaque, so `resume` is made from the last key: the next legal key after it is at
        least that key and a space, the lowest character that keys may hold.
        """
        limits.check_key(partition)
        limits.check_page(limit)
        pages = (
            self._client(table)
            .query_entities(
                f"PartitionKey eq {_quoted(partition)} and RowKey ge {_quoted(start)} and RowKey lt {_quoted(end)}",
                results_per_page=limit,
                select=None if select is None else ["PartitionKey", "RowKey", "Timestamp", *select],
                error_map=REFUSALS,
            )
            .by_page()
        )
        rows: list[Row] = []
        try:
            with unavailable():
                async for page in pages:
                    rows = [_row(entity) async for entity in page]
                    if rows:
                        break
        except Refused as answer:
            if answer.code != _NO_TABLE:
                raise
        more = rows and getattr(pages, "continuation_token", None)
        return Page(rows=rows, resume=f"{rows[-1].key} " if more else None)

    async def transact(self, table: str, partition: str, operations: Sequence[Operation]) -> list[str]:
        """See `interface.Tables.transact`."""
        limits.check_transaction(partition, operations)
        try:
            return await self._send(table, partition, operations)
        except Refused as answer:
            if answer.code != _NO_TABLE:
                raise
        await _make(self._client(table))
        return await self._send(table, partition, operations)

    async def _send(self, table: str, partition: str, operations: Sequence[Operation]) -> list[str]:
        """One request. Raises Refused when the table is missing, and for what we cannot explain."""
        try:
            with unavailable():
                if len(operations) > 1:
                    return await self._send_batch(table, partition, operations)
                return [await _send_one(self._client(table), partition, operations[0])]
        except Refused as answer:
            raise _explained(answer) from None

    async def _send_batch(self, table: str, partition: str, operations: Sequence[Operation]) -> list[str]:
        client = self._client(table)
        request = batch.encode(client.url, client.table_name, partition, operations)
        response = (await self._pipeline.run(request, stream=True)).http_response
        if response.status_code != 202:
            if response.status_code in REFUSALS:
                raise REFUSALS[response.status_code](response)
            raise HttpResponseError(response=response)
        try:
            return batch.decode(response.content, operations)
        except batch.OperationRefused as answer:
            raise Refused(answer.status, answer.code, answer.index) from None

    def _client(self, table: str) -> TableClient:
        client = self._clients.get(table)
        if client is None:
            client = self._clients[table] = self._open_client(table)
        return client


async def _make(client: TableClient) -> None:
    try:
        with unavailable():
            await client.create_table(error_map=REFUSALS)
    except Refused as answer:
        if answer.code != "TableAlreadyExists":
            raise


async def _send_one(client: TableClient, partition: str, operation: Operation) -> str:
    match operation:
        case Create(key, values):
            written = await client.create_entity(_entity(partition, key, values), error_map=REFUSALS, **_NO_ECHO)
        case Upsert(key, values):
            entity = _entity(partition, key, values)
            written = await client.upsert_entity(entity, UpdateMode.REPLACE, error_map=REFUSALS)
        case Merge(key, values, etag) | Replace(key, values, etag):
            mode = UpdateMode.MERGE if isinstance(operation, Merge) else UpdateMode.REPLACE
            entity = _entity(partition, key, values)
            written = await client.update_entity(entity, mode, error_map=REFUSALS, **_condition(etag))
        case Delete(key, etag):
            await client.delete_entity(partition, key, error_map=REFUSALS, **_condition(etag))
            return ""
    return str(written["etag"])


def _explained(answer: Refused) -> Exception:
    """What a refusal of a write means to the caller; the answer itself where it means nothing but a defect."""
    if answer.code == _NO_TABLE:
        return answer
    if answer.status == 413 or answer.code in _TOO_LARGE:
        return ValueError(f"Azure Tables finds it too large: {answer.code}")
    if refusal := _REFUSAL.get(answer.status):
        return TransactionRefused(answer.index, refusal)
    return answer


def _condition(etag: str | None) -> dict[str, Any]:
    """Without an ETag the SDK sends `If-Match: *`: the row must exist, whatever is in it."""
    return {} if etag is None else {"etag": etag, "match_condition": MatchConditions.IfNotModified}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _entity(partition: str, key: str, values: Mapping[str, Value]) -> dict[str, Any]:
    """The SDK's form of a row: keys among the properties, large numbers marked as such."""
    entity: dict[str, Any] = {"PartitionKey": partition, "RowKey": key}
    for name, value in values.items():
        large = isinstance(value, int) and not limits.fits_int32(value)
        entity[name] = EntityProperty(value, EdmType.INT64) if large else value
    return entity


def _row(entity: TableEntity) -> Row:
    values: dict[str, Value] = {}
    for name, value in entity.items():
        if isinstance(value, EntityProperty):
            values[name] = value.value
        elif value is not None:  # a selected property that the row has not
            values[name] = value
    partition, key = str(values.pop("PartitionKey")), str(values.pop("RowKey"))
    etag, timestamp = entity.metadata["etag"], entity.metadata["timestamp"]
    return Row(partition=partition, key=key, values=values, etag=cast(str, etag), timestamp=cast(datetime, timestamp))
