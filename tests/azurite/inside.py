"""An Azurite whose clock is set by the test, and whose store can be read: what the crash suite judges by."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from shared.store.interface import Row, Value
from shared.store.names import Names
from tools.local.azurite import ACCOUNT, Azurite

PRELOAD = Path(__file__).parent / "inside.cjs"
_SINCE = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class BlobInside:
    """A committed blob."""

    content: bytes
    etag: str


@dataclass(frozen=True, kw_only=True)
class MessageInside:
    """A message, hidden or not."""

    text: str
    visible: datetime
    message_id: str
    pop_receipt: str


class Inside:
    """Looks into an Azurite that was started with `PRELOAD`, past its API."""

    def __init__(self, azurite: Azurite) -> None:
        self._connections = {
            service: http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            for service, port in azurite.ports.items()
        }

    def close(self) -> None:
        """End the connections."""
        for connection in self._connections.values():
            connection.close()

    def look(self, service: str, what: str, query: Mapping[str, str]) -> Any:
        """An answer of inside.cjs."""
        connection = self._connections[service]
        connection.request("GET", f"/inside/{what}?{urlencode(query)}")
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text.decode()
        return json.loads(text)


class View:
    """What Azurite holds under one prefix. What was seen counts until `forget`."""

    def __init__(self, inside: Inside, names: Names) -> None:
        self._inside = inside
        self._names = names
        self._seen: dict[tuple[str, str], Any] = {}

    def forget(self) -> None:
        """A request may have changed everything."""
        self._seen.clear()

    def rows(self, table: str, partition: str | None = None) -> list[Row]:
        """All rows of a table, or of one partition, in order."""
        query = {"account": ACCOUNT, "table": self._names.table(table)}
        found = self._look("table", "rows", query if partition is None else {**query, "partition": partition})
        rows = [_row(entity) for entity in found]
        return sorted(rows, key=lambda row: (row.partition.encode("utf-16-be"), row.key.encode("utf-16-be")))

    def messages(self, queue: str) -> list[MessageInside]:
        """The messages of a queue, hidden ones too."""
        found = self._look("queue", "messages", {"prefix": self._names.prefix})
        return [
            MessageInside(
                text=base64.b64decode(message["text"]).decode(),
                visible=_SINCE + timedelta(milliseconds=message["visible"]),
                message_id=message["messageId"],
                pop_receipt=message["popReceipt"],
            )
            for message in found
            if message["queue"] == self._names.queue(queue)
        ]

    def committed(self, container: str) -> Mapping[str, BlobInside]:
        """The blobs of a container by path."""
        return {
            blob["path"]: BlobInside(base64.b64decode(blob["content"]), blob["etag"])
            for blob in self._blobs(container)["committed"]
        }

    def staged(self, container: str, path: str) -> Collection[str]:
        """The ids of a blob's blocks that wait for their commit."""
        return [block["block"] for block in self._blobs(container)["staged"] if block["path"] == path]

    def _blobs(self, container: str) -> Any:
        return self._look("blob", "blobs", {"container": self._names.container(container)})

    def _look(self, service: str, what: str, query: Mapping[str, str]) -> Any:
        key = (what, urlencode(query))
        if key not in self._seen:
            self._seen[key] = self._inside.look(service, what, query)
        return self._seen[key]


def milliseconds(moment: datetime) -> int:
    """As the header `clock` takes it."""
    return (moment - _SINCE) // timedelta(milliseconds=1)


_SYSTEM = frozenset({"PartitionKey", "RowKey", "Timestamp"})
"""Properties that Azurite stores beside ours in some rows."""
_READ: Mapping[str, Callable[[str], Value]] = {"Edm.Int64": int, "Edm.Binary": base64.b64decode}


def _row(entity: Mapping[str, Any]) -> Row:
    properties = dict(entity["properties"])
    timestamp = datetime.fromisoformat(properties["Timestamp"])
    values: dict[str, Value] = {}
    for name, value in properties.items():
        if "@" not in name and name not in _SYSTEM:
            read = _READ.get(properties.get(f"{name}@odata.type", ""))
            values[name] = read(value) if read else value
    return Row(
        partition=entity["partition"], key=entity["key"], values=values, etag=entity["etag"], timestamp=timestamp
    )
