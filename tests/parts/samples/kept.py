"""Writes an account that lies in memory into a file, and makes one of it again."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import itertools
import json
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from shared.store.interface import Row, Value
from tests.parts.twin import MemoryStorage, VirtualClock
from tests.parts.twin.blobs import StoredBlob
from tests.parts.twin.queues import StoredMessage

FOLDER = Path(__file__).parent
_BYTES = "base64:"
"""Prefix of texts that stand for bytes; no stored text begins so."""
_ABOVE = 1_000_000
"""Number from which on ids and receipts are made afterwards, so that none equals a kept one."""


def written(memory: MemoryStorage) -> dict[str, Any]:
    """Returns all that the account holds, as JSON."""
    return {
        "at": memory.clock.elapsed,
        "tables": {
            table: [
                {
                    "partition": row.partition,
                    "key": row.key,
                    "values": {name: _out(value) for name, value in row.values.items()},
                    "etag": row.etag,
                    "timestamp": row.timestamp.isoformat(),
                }
                for row in memory.rows(table)
            ]
            for table in sorted(memory.tables._tables)
        },
        "queues": {
            queue: [
                {name: _out(value) for name, value in dataclasses.asdict(message).items()}
                for message in memory.messages(queue)
            ]
            for queue in memory.queues.names()
        },
        "blobs": {
            container: {
                path: {
                    name: _out(value) if name != "blocks" else {key: _out(block) for key, block in value.items()}
                    for name, value in vars(blob).items()
                }
                for path, blob in memory.committed(container).items()
            }
            for container in sorted(memory.blobs._blobs)
        },
    }


def account_of(kept: dict[str, Any], clock: VirtualClock) -> MemoryStorage:
    """Restores an account as it was, at its time; the clock must not be past it."""
    clock.advance(kept["at"] - clock.elapsed)
    memory = MemoryStorage(clock)
    for table, rows in kept["tables"].items():
        partitions = memory.tables._tables.setdefault(table, {})
        for row in rows:
            partitions.setdefault(row["partition"], {})[row["key"]] = Row(
                partition=row["partition"],
                key=row["key"],
                values=MappingProxyType({name: _in(value) for name, value in row["values"].items()}),
                etag=row["etag"],
                timestamp=datetime.fromisoformat(row["timestamp"]),
            )
    for queue, messages in kept["queues"].items():
        memory.queues._queues[queue] = {
            message["message_id"]: StoredMessage(
                **{
                    **message,
                    "inserted": datetime.fromisoformat(message["inserted"]),
                    "visible": datetime.fromisoformat(message["visible"]),
                }
            )
            for message in messages
        }
    for container, blobs in kept["blobs"].items():
        memory.blobs._blobs[container] = {
            path: StoredBlob(
                **{
                    **blob,
                    "content": _in(blob["content"]),
                    "blocks": {key: _in(block) for key, block in blob["blocks"].items()},
                }
            )
            for path, blob in blobs.items()
        }
    memory.queues._numbers = itertools.count(_ABOVE)
    memory.tables._writes = itertools.count(_ABOVE)
    memory.blobs._writes = itertools.count(_ABOVE)
    return memory


def save(kept: dict[str, Any], path: Path) -> None:
    """Writes a sample so that the same content gives the same bytes."""
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
        packed.write(json.dumps(kept, ensure_ascii=False, sort_keys=True).encode())


def load(path: Path) -> dict[str, Any]:
    """Reads a file that `save` has written."""
    kept: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return kept


def _out(value: Value | datetime) -> str | int | bool:
    if isinstance(value, bytes):
        return _BYTES + base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime) else value


def _in(value: str | int | bool) -> Value:
    if isinstance(value, str) and value.startswith(_BYTES):
        return base64.b64decode(value.removeprefix(_BYTES))
    return value
