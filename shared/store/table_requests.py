"""Requests to tables, and what their answers say: single rows, ranges of rows, entity-group transactions.

The form is that of the Table service's REST reference, with JSON and minimal metadata. A key stands in the address as
the SDK and yarl would write it, since the signature is over the address as sent. Transactions are multipart: the SDK's
way goes through `email.message` and takes 3 ms of CPU, at one commit or more a call; this takes 0.3."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from itertools import pairwise
from json.encoder import encode_basestring_ascii as in_quotes  # json.dumps uses it for strings
from typing import Any
from urllib.parse import unquote

from shared.store import limits
from shared.store.counting import Kind
from shared.store.interface import Create, Delete, Merge, Operation, Replace, Row, StorageUnavailable, Upsert, Value
from shared.store.wire import USER_AGENT, Refused, Request, StorageAnswer, StorageEndpoint, in_path, in_query

VERSION = "2019-02-02"
"""Version of the Table service's protocol."""
Continuation = Mapping[str, str]
"""The continuation of a query: options of its next request."""

_METHOD = {Create: "POST", Upsert: "PUT", Replace: "PUT", Merge: "PATCH", Delete: "DELETE"}
_COMMON = {
    "Accept": "application/json;odata=minimalmetadata",
    "DataServiceVersion": "3.0",
    "User-Agent": USER_AGENT,
    "x-ms-version": VERSION,
}
_CONTINUATION = ("NextPartitionKey", "NextRowKey")
_TYPE = "@odata.type"


def row_request(endpoint: StorageEndpoint, table: str, partition: str, key: str) -> Request:
    """Returns the request for one row."""

    def is_named_in(content: bytes) -> bool:
        return _names(content, lambda found: [found], partition, key)

    return Request(
        Kind.TABLE_READ, "GET", endpoint, _resource(table, partition, key), dict(_COMMON), is_named_in=is_named_in
    )


def query(
    endpoint: StorageEndpoint,
    table: str,
    partition: str,
    *,
    start: str,
    end: str,
    limit: int,
    select: Sequence[str] | None,
    continuation: Continuation,
) -> Request:
    """Returns the request for a page of the rows with start ≤ key < end. The first request has no continuation."""
    rows = f"PartitionKey eq {_quoted(partition)} and RowKey ge {_quoted(start)} and RowKey lt {_quoted(end)}"
    options = {"$top": str(limit), "$filter": rows, **continuation}
    if select is not None:
        options["$select"] = ",".join(("PartitionKey", "RowKey", "Timestamp", *select))
    text = "&".join(f"{name}={in_query(value)}" for name, value in options.items())

    def is_named_in(content: bytes) -> bool:
        return _names(content, lambda found: found["value"], partition)

    return Request(Kind.TABLE_READ, "GET", endpoint, f"/{table}()", dict(_COMMON), query=text, is_named_in=is_named_in)


def request_of(endpoint: StorageEndpoint, table: str, partition: str, operation: Operation) -> Request:
    """Returns the request for one operation, which must have passed `limits.check_transaction`."""
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
    """Writes a row as JSON. Names need no escapes; texts, truth values and small numbers no type annotation."""
    text = f'{{"PartitionKey": {in_quotes(partition)}, "RowKey": {in_quotes(key)}'
    for name, value in values.items():
        if isinstance(value, str):
            text += f', "{name}": {in_quotes(value)}'
        elif isinstance(value, bytes):
            text += f', "{name}": "{base64.b64encode(value).decode()}", "{name}{_TYPE}": "Edm.Binary"'
        elif isinstance(value, bool):
            text += f', "{name}": {"true" if value else "false"}'
        elif limits.fits_int32(value):
            text += f', "{name}": {value}'
        else:
            text += f', "{name}": "{value}", "{name}{_TYPE}": "Edm.Int64"'
    return text + "}"


def read_row(answer: StorageAnswer) -> Row:
    """Returns the row in an answer to `row_request`. Raises StorageUnavailable if it holds no row."""
    try:
        return _row(json.loads(answer.content))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StorageUnavailable("an answer that is not a row") from None


def read_page(answer: StorageAnswer) -> tuple[list[Row], Continuation]:
    """Returns the rows in an answer to `query`, and the continuation, if there is one. Raises StorageUnavailable if it
    is not such an answer."""
    try:
        rows = [_row(entity) for entity in json.loads(answer.content)["value"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StorageUnavailable("an answer that is not a page of rows") from None
    found = {name: answer.header(f"x-ms-continuation-{name.lower()}") for name in _CONTINUATION}
    return rows, {name: value for name, value in found.items() if value}


def read_etag(answer: StorageAnswer, operation: Operation) -> str:
    """Returns the new ETag; "" after a delete. Raises StorageUnavailable if another operation's answer has none."""
    if isinstance(operation, Delete):
        return ""
    etag = answer.header("etag")
    if not etag:
        raise StorageUnavailable("an answer without an ETag")
    return etag


def _names(content: bytes, rows: Callable[[Any], Any], partition: str, key: str | None = None) -> bool:
    """Returns whether an answer holds rows of this partition, or this row. False for an empty page: it names none."""
    try:
        found = [(row["PartitionKey"], row["RowKey"]) for row in rows(json.loads(content))]
    except (ValueError, KeyError, TypeError):
        return False
    return bool(found) and all(at == partition and key in {None, name} for at, name in found)


def _resource(table: str, partition: str, key: str) -> str:
    return f"/{table}(PartitionKey={in_path(_quoted(partition))},RowKey={in_path(_quoted(key))})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _row(entity: Mapping[str, Any]) -> Row:
    """Reads a row. Properties of types that this service never writes stay as in JSON: times and GUIDs are texts."""
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


_PART = re.compile(rb"\nHTTP/1\.1 (\d{3})")
_ETAG = re.compile(rb"\nETag: *(\S+)[ \t]*\r?\n", re.IGNORECASE)
_LOCATION = re.compile(rb"\nLocation: *([^\r\n]*)", re.IGNORECASE)
_ERROR = re.compile(rb"^\{.*\}", re.MULTILINE)
_INDEX = re.compile(r"(\d+):")


def encode(endpoint: StorageEndpoint, table: str, partition: str, operations: Sequence[Operation]) -> Request:
    """Returns the request for `operations`, which must have passed `limits.check_transaction`."""
    # Random, so that no value can hold it.
    mark = os.urandom(16).hex()
    lines = [f"--batch_{mark}", f"Content-Type: multipart/mixed; boundary=changeset_{mark}", ""]
    url = f"{endpoint.origin}{endpoint.base}/{table}"
    for number, operation in enumerate(operations):
        condition, address = "", url
        if isinstance(operation, Create):
            condition = "Prefer: return-no-content\r\n"
        else:
            address += _keys(partition, operation.key)
            if isinstance(operation, Merge | Replace | Delete):
                condition = f"If-Match: {'*' if operation.etag is None else operation.etag}\r\n"
        content = ""
        if not isinstance(operation, Delete):
            content = encode_entity(partition, operation.key, operation.values)
            condition += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        lines += [
            f"--changeset_{mark}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary",
            f"Content-ID: {number}\r\n\r\n{_METHOD[type(operation)]} {address} HTTP/1.1",
            f"Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n{condition}\r\n{content}",
        ]
    lines += [f"--changeset_{mark}--", "", f"--batch_{mark}--", ""]
    return Request(
        Kind.TABLE_WRITE,
        "POST",
        endpoint,
        "/$batch",
        headers={
            **_COMMON,
            "Content-Type": f"multipart/mixed; boundary=batch_{mark}",
            "Accept": "application/json",
            "MaxDataServiceVersion": "3.0;NetFx",
        },
        content="\r\n".join(lines).encode(),
        statuses=statuses,
        is_named_in=lambda content: _is_about(content, partition, operations),
    )


def statuses(body: bytes) -> list[int]:
    """Returns the HTTP statuses in an answer: one an operation, or the one of the operation that failed."""
    return [int(part[9:12]) for part in _parts(body)]


def _is_about(body: bytes, partition: str, operations: Sequence[Operation]) -> bool:
    """Returns whether an answer can be that of these operations: it names the rows that were created, and has a part
    for each; or a single part, that of the operation that was refused."""
    parts = _parts(body)
    if len(parts) == 1 and int(parts[0][9:12]) >= 300:
        return True
    return len(parts) == len(operations) and all(map(partial(_is_of, partition), parts, operations))


def _is_of(partition: str, part: bytes, operation: Operation) -> bool:
    """Returns whether an address names these keys. If they do not occur there exactly as sent, only letters and digits
    are compared, since services encode other characters differently."""
    place = _LOCATION.search(part)
    if place is None:
        return True
    text = place[1].decode(errors="replace")
    if text.endswith(_keys(partition, operation.key)):
        return True
    keys = f"{_plain(partition)}RowKey{_plain(operation.key)}"
    return any(_plain(written).endswith(keys) for written in (text, unquote(text)))


def _keys(partition: str, key: str) -> str:
    """Returns the end of a row's address."""
    return f"(PartitionKey='{limits.in_url(partition)}',RowKey='{limits.in_url(key)}')"


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text))


@lru_cache(maxsize=4)  # one answer is looked at three times
def _parts(body: bytes) -> Sequence[bytes]:
    starts = [found.start() + 1 for found in _PART.finditer(body)]
    return [body[start:end] for start, end in pairwise((*starts, len(body)))]


def decode(body: bytes, operations: Sequence[Operation]) -> list[str]:
    """Returns the new ETag of each row ("" where it was deleted). Raises Refused. Raises StorageUnavailable if the
    answer is incomplete, as the outcome is then unknown."""
    parts = _parts(body)
    for part in parts:
        status = int(part[9:12])
        if status >= 300:
            raise _refused(status, part)
    if len(parts) != len(operations):
        raise StorageUnavailable(f"{len(parts)} answers to {len(operations)} operations")
    etags = [_ETAG.search(part) for part in parts]
    if not all(isinstance(operation, Delete) for found, operation in zip(etags, operations, strict=True) if not found):
        raise StorageUnavailable("an answer without an ETag")
    return [
        "" if found is None or isinstance(operation, Delete) else found[1].decode()
        for found, operation in zip(etags, operations, strict=True)
    ]


def _refused(status: int, part: bytes) -> Refused:
    if status == 413:
        return Refused(status, "")
    found = _ERROR.search(part)
    try:
        error = json.loads(found[0] if found else b"")["odata.error"]
        code, message = error["code"], error["message"]["value"]
    except (ValueError, KeyError, TypeError):
        raise StorageUnavailable(f"a refusal ({status}) that does not say what was refused") from None
    index = _INDEX.match(message)
    return Refused(status, code, int(index[1]) if index else 0)
