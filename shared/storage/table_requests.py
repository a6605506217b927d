"""Requests for single rows and for ranges of rows, and what their answers say; `batch` has the transactions.

The form is that of the Table service's REST reference, with JSON and minimal metadata. A key stands in the address as
the SDK and yarl would write it, for the signature is over the address as it is sent.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from shared.storage import limits
from shared.storage.counting import Kind
from shared.storage.interface import Create, Delete, Merge, Operation, Replace, Row, StorageUnavailable, Upsert, Value
from shared.storage.wire import IN_PATH, IN_QUERY, USER_AGENT, Answer, Endpoint, Request

VERSION = "2019-02-02"
"""Of the Table service's protocol."""
Continuation = Mapping[str, str]
"""Where a query goes on: options of its next request."""

_METHOD = {Create: "POST", Upsert: "PUT", Replace: "PUT", Merge: "PATCH", Delete: "DELETE"}
_COMMON = {
    "Accept": "application/json;odata=minimalmetadata",
    "DataServiceVersion": "3.0",
    "User-Agent": USER_AGENT,
    "x-ms-version": VERSION,
}
_CONTINUATION = ("NextPartitionKey", "NextRowKey")
_TYPE = "@odata.type"


def get(endpoint: Endpoint, table: str, partition: str, key: str) -> Request:
    """Asks for one row."""

    def is_named_in(content: bytes) -> bool:
        return _names(content, lambda found: [found], partition, key)

    return Request(
        Kind.TABLE_READ, "GET", endpoint, _resource(table, partition, key), dict(_COMMON), is_named_in=is_named_in
    )


def query(
    endpoint: Endpoint,
    table: str,
    partition: str,
    *,
    start: str,
    end: str,
    limit: int,
    select: Sequence[str] | None,
    continuation: Continuation,
) -> Request:
    """Asks for a page of the rows with start ≤ key < end. The first request has no continuation."""
    rows = f"PartitionKey eq {_quoted(partition)} and RowKey ge {_quoted(start)} and RowKey lt {_quoted(end)}"
    options = {"$top": str(limit), "$filter": rows, **continuation}
    if select is not None:
        options["$select"] = ",".join(("PartitionKey", "RowKey", "Timestamp", *select))
    text = "&".join(f"{name}={quote(value, safe=IN_QUERY)}" for name, value in options.items())

    def is_named_in(content: bytes) -> bool:
        return _names(content, lambda found: found["value"], partition)

    return Request(Kind.TABLE_READ, "GET", endpoint, f"/{table}()", dict(_COMMON), query=text, is_named_in=is_named_in)


def write(endpoint: Endpoint, table: str, partition: str, operation: Operation) -> Request:
    """Carries out one operation, which must have passed `limits.check_transaction`."""
    headers = dict(_COMMON)
    is_new = isinstance(operation, Create)
    resource = f"/{table}" if is_new else _resource(table, partition, operation.key)
    if is_new:
        headers["Prefer"] = "return-no-content"
    if isinstance(operation, Merge | Replace | Delete):
        headers["If-Match"] = "*" if operation.etag is None else operation.etag
    content = b""
    if not isinstance(operation, Delete):
        headers["Content-Type"] = "application/json"
        content = encode_entity(partition, operation.key, operation.values).encode()
    return Request(Kind.TABLE_WRITE, _METHOD[type(operation)], endpoint, resource, headers, content)


def encode_entity(partition: str, key: str, values: Mapping[str, Value]) -> str:
    """A row as JSON. Truth and small numbers need no type annotation."""
    entity: dict[str, Any] = {"PartitionKey": partition, "RowKey": key}
    for name, value in values.items():
        if isinstance(value, bytes):
            entity[name] = base64.b64encode(value).decode()
            entity[f"{name}{_TYPE}"] = "Edm.Binary"
        elif isinstance(value, int) and not limits.fits_int32(value):
            entity[name] = str(value)
            entity[f"{name}{_TYPE}"] = "Edm.Int64"
        else:
            entity[name] = value
            if isinstance(value, str):
                entity[f"{name}{_TYPE}"] = "Edm.String"
    return json.dumps(entity)


def read_row(answer: Answer) -> Row:
    """The row of an answer to `get`. Raises StorageUnavailable for what is none."""
    try:
        return _row(json.loads(answer.content))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StorageUnavailable("an answer that is not a row") from None


def read_page(answer: Answer) -> tuple[list[Row], Continuation]:
    """Rows of an answer to `query`, and where to go on, if at all. Raises StorageUnavailable for what is none."""
    try:
        rows = [_row(entity) for entity in json.loads(answer.content)["value"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StorageUnavailable("an answer that is not a page of rows") from None
    found = {name: answer.headers.get(f"x-ms-continuation-{name}") for name in _CONTINUATION}
    return rows, {name: value for name, value in found.items() if value}


def read_etag(answer: Answer, operation: Operation) -> str:
    """The new ETag, "" of what was deleted. Raises StorageUnavailable when the answer has none."""
    if isinstance(operation, Delete):
        return ""
    etag = answer.headers.get("ETag")
    if not etag:
        raise StorageUnavailable("an answer without an ETag")
    return etag


def _names(content: bytes, rows: Callable[[Any], Any], partition: str, key: str | None = None) -> bool:
    """Whether an answer holds rows of this partition, or this row; an empty page says nothing."""
    try:
        found = [(row["PartitionKey"], row["RowKey"]) for row in rows(json.loads(content))]
    except (ValueError, KeyError, TypeError):
        return False
    return bool(found) and all(at == partition and key in {None, name} for at, name in found)


def _resource(table: str, partition: str, key: str) -> str:
    return f"/{table}(PartitionKey={_in_path(partition)},RowKey={_in_path(key)})"


def _in_path(key: str) -> str:
    return quote(_quoted(key), safe=IN_PATH)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _row(entity: Mapping[str, Any]) -> Row:
    """Properties of types that this service never writes stay as JSON has them: times and GUIDs are texts."""
    values: dict[str, Value] = {}
    for name, value in entity.items():
        if "." in name or value is None:  # metadata; a selected property that the row has not
            continue
        match entity.get(name + _TYPE):
            case "Edm.Binary":
                values[name] = base64.b64decode(value)
            case "Edm.Int64":
                values[name] = int(value)
            case _:
                values[name] = value
    partition, key, timestamp = values.pop("PartitionKey"), values.pop("RowKey"), values.pop("Timestamp")
    return Row(
        partition=str(partition),
        key=str(key),
        values=values,
        etag=str(entity["odata.etag"]),
        timestamp=datetime.fromisoformat(str(timestamp)),
    )
