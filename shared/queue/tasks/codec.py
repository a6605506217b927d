"""Domain values to table properties and back. Columns stay readable for an operator in a storage browser."""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from collections.abc import Sequence
from typing import cast

from shared.base.frozen import dataclass
from shared.base.jsontext import memory_of, write
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.rules import MessageHandle, MessageHandles, PriorityChange, Run, Task
from shared.store import keys
from shared.store.columns import Columns
from shared.store.interface import Row, StorageUnavailable, Value

SCHEMA = 1
"""Version of the columns, kept in each row."""
_CHUNK = 60_000
"""The most bytes of a packed definition in one property; a property holds 64 KiB."""
_BESIDE_ABOVE = 128 * 1024
"""Bytes of JSON beyond which (de)compressing would hold up other calls; zlib lets them go on in another thread."""
_UNPACKED_BESIDE_ABOVE = 512 * 1024
"""Bytes in memory of an unpacked definition beyond which it is decompressed in another thread."""
_QUICK = 2
"""zlib's level for large definitions: a few per cent larger than by default, three times as fast."""
MEMORY = "memory"
"""Property with the approximate number of bytes that a definition takes in memory."""
_AT_ONCE = 2 * _CHUNK
"""The most bytes of a packed definition that is read together with the status, by up to 32 readers for each of several
lists. A larger one is in rows of its own, which are read one task at a time, where there is room for it."""
_IN_A_ROW = 8 * _CHUNK
"""The most bytes of a definition in one of its own rows; an entity holds 1 MiB, of which emulators count base64."""
_WHOLE = "whole"
"""Property of a definition's first row with the fingerprint, if the content is in further rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedDefinition:
    """A definition as stored: compressed JSON."""

    content: bytes
    memory: int
    """About how many bytes the definition takes in memory."""
    whole: str | None = None
    """The definition's fingerprint, if `content` is still to be read from rows of its own; else None."""

    @property
    def fingerprint(self) -> str:
        """A hash of the content, which names it."""
        return self.whole or hashlib.sha256(self.content).hexdigest()[:32]


async def pack_definition(definition: Definition) -> PackedDefinition:
    """Compresses a definition; a large one in another thread."""
    text = write(definition.body)
    if len(text) <= _BESIDE_ABOVE:
        content = zlib.compress(text, 6)
    else:
        content = await asyncio.to_thread(zlib.compress, text, _QUICK)
    return PackedDefinition(content=content, memory=memory_of(text))


async def unpacked_text(packed: PackedDefinition) -> bytes:
    """Returns the JSON text of a definition. A large one is decompressed in another thread."""
    if packed.memory <= _UNPACKED_BESIDE_ABOVE:
        return zlib.decompress(packed.content)
    return await asyncio.to_thread(zlib.decompress, packed.content)


def split_definition(packed: PackedDefinition) -> dict[str, dict[str, Value]]:
    """Returns the rows of a definition by their keys. A large definition has up to three rows besides the first."""
    first: dict[str, Value] = {"schema": SCHEMA, MEMORY: packed.memory}
    rows = {keys.TASK_DEFINITION: first}
    is_large = len(packed.content) > _AT_ONCE
    if is_large:
        first[_WHOLE] = packed.fingerprint
    for index, at in enumerate(range(0, len(packed.content), _CHUNK)):
        row = rows.setdefault(keys.rest_of_definition(at // _IN_A_ROW), {}) if is_large else first
        row[f"part{index:02d}"] = packed.content[at : at + _CHUNK]
    return rows


def check_schema(row: Row) -> None:
    """Raises StorageUnavailable for a row of another version, which is not misread, but left to code that knows it."""
    schema = row.values["schema"]
    if schema != SCHEMA:
        raise StorageUnavailable(f"a row has schema {schema!r}, which this version cannot read")


def decode_definition(row: Row) -> PackedDefinition:
    """Reads a definition from its row. Of a large one, that row has only the fingerprint. Raises StorageUnavailable."""
    check_schema(row)
    return packed_in(row, _parts(row))


class DefinitionIncomplete(StorageUnavailable):
    """The rows of a large definition are not of one definition: the task was deleted meanwhile, its id maybe reused."""


def complete(packed: PackedDefinition, rest: Sequence[Row]) -> PackedDefinition:
    """Completes a large definition with the content of its further rows. Raises DefinitionIncomplete."""
    made = PackedDefinition(content=b"".join(map(_parts, rest)), memory=packed.memory)
    if made.fingerprint != packed.whole:
        raise DefinitionIncomplete("a definition has changed while its rows were read")
    return made


def packed_in(row: Row, content: bytes) -> PackedDefinition:
    """Returns a definition with the content that was read and the properties of its row."""
    whole = cast("str | None", row.values.get(_WHOLE))
    return PackedDefinition(content=content, memory=cast("int", row.values[MEMORY]), whole=whole)


def _parts(row: Row) -> bytes:
    return b"".join(cast("bytes", row.values[name]) for name in sorted(row.values) if name.startswith("part"))


_COLUMNS = Columns(Task, without={"task_id", "priority_change", "runs", "satisfied", "handles", "operations"})
_RUN, _HANDLE, _CHANGE = Columns(Run), Columns(MessageHandle), Columns(PriorityChange)
_OWN_COLUMNS = ("schema", "state", "priorityChange", "runs", "satisfied", "tickets", "operations")
TASK_COLUMNS = (*_COLUMNS.names, *_OWN_COLUMNS)
"""Properties of the status row, for queries that read it beside other rows."""


def encode_task(task: Task) -> dict[str, Value]:
    """Returns the properties of the status row."""
    change, held = task.priority_change, task.handles
    handles = {"pending": held.pending, "claim": held.claim, "deadline": held.deadline}
    return {
        **_COLUMNS.encode(task),
        "schema": SCHEMA,
        "state": task.state.value,
        "priorityChange": "" if change is None else write(_CHANGE.encode(change)).decode(),
        "runs": write([_RUN.encode(run) for run in task.runs]).decode(),
        "satisfied": task.satisfied.to_bytes((task.dependencies + 7) // 8, "little"),
        "tickets": write({name: _HANDLE.encode(each) for name, each in handles.items() if each}).decode(),
        "operations": " ".join(task.operations),
    }


def decode_task(row: Row) -> Task:
    """Reads a task from its status row. Raises StorageUnavailable."""
    check_schema(row)
    values = row.values
    change, handles = str(values["priorityChange"]), json.loads(str(values["tickets"]))
    return _COLUMNS.decode(
        values,
        task_id=row.partition,
        priority_change=_CHANGE.decode(json.loads(change)) if change else None,
        runs=tuple(_RUN.decode(run) for run in json.loads(str(values["runs"]))),
        satisfied=int.from_bytes(cast("bytes", values["satisfied"]), "little"),
        handles=MessageHandles(**{name: _HANDLE.decode(each) for name, each in handles.items()}),
        operations=tuple(str(values["operations"]).split()),
    )
