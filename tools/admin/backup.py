"""Tables to files and back. A file a table, a line an entity; compressed.

Blobs have soft delete and `azcopy`. Queues are not saved: the messages of tasks follow from the rows (`revive`), while
pointers to events that are not out yet and jobs on groups that are not done are lost with them. An export of a
deployment at work is no snapshot: `admin task check --all --repair` settles what moved meanwhile. Only the roles are
always copied as they were together at one time, since a mixture could grant more than any of them.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import EdmType, EntityProperty, TableEntity
from azure.data.tables.aio import TableClient, TableServiceClient

from shared.auth.roles import rows as role_store
from shared.queue.tasks.effects import PutClaim
from shared.queue.tasks.rules import State
from shared.queue.tasks.transitions import put_deadline
from shared.store import keys
from shared.store.connection import AzureStorage
from shared.store.interface import MAX_OPERATIONS, Storage, Upsert, Value
from shared.store.limits import MAX_TRANSACTION, transaction_size
from tools.admin.account import Records
from tools.admin.index_inspection import IndexRow
from tools.admin.output import Report, unwatched

_RESTORE = "restore.json"
"""File beside the exported files that notes how far a restore is."""
_NOTED_EVERY = 1000
"""Number of entities after which progress is noted."""
_BYTES = "$bytes"
_PAGE = 1000
_ATTEMPTS = 10


class BackupError(ValueError):
    """The files cannot be written or restored; the message says why."""


async def export_tables(
    account: AzureStorage, tables: Sequence[str], folder: Path, report: Report = unwatched
) -> dict[str, int]:
    """Writes each table to `<table>.jsonl.gz`, in order; returns how many entities each has.

    Only the owner of the files can read them: they hold scopes, encrypted tokens and all definitions.
    Raises BackupError when the folder has such files already.
    """
    _prepare(folder, tables)
    counts = {}
    async with _service(account) as service:
        present = {table.name async for table in service.list_tables()}
        for table in tables:
            counts[table] = 0
            client = service.get_table_client(table)
            with _new_file(_file(folder, table)) as raw:
                if table in present:
                    counts[table] = await _export_settled(client, table, raw, report)
                else:
                    raw.write(gzip.compress(b""))
    return counts


def _new_file(path: Path) -> IO[bytes]:
    """Returns a file that only its owner can read, from the very beginning."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


async def _export_settled(client: TableClient, table: str, raw: IO[bytes], report: Report) -> int:
    """Exports a table; that of roles again for as long as a role changes. Raises BackupError if that never ends."""
    for _attempt in range(_ATTEMPTS):
        raw.seek(0)
        raw.truncate()
        before = await _version(client, table)
        with gzip.open(raw, "wt", encoding="utf-8") as file:
            count = await _export(client, file, lambda number: report(f"{table}: {number:,} entities"))
        if before == await _version(client, table):
            return count
    raise BackupError("roles are being changed all the time")


async def _version(client: TableClient, table: str) -> str | None:
    """Returns the ETag that every change of the roles changes; None for other tables, and before the first role."""
    if table != role_store.TABLE:
        return None
    try:
        header = await client.get_entity(*role_store.HEADER)
    except ResourceNotFoundError:
        return None
    return str(header.metadata["etag"])


def _prepare(folder: Path, tables: Sequence[str]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if there := [table for table in tables if _file(folder, table).exists()]:
        raise BackupError(f"{folder} has an export of {', '.join(there)} already")


async def occupied(account: AzureStorage, tables: Sequence[str]) -> list[str]:
    """Returns the tables that have any entity."""
    found = []
    async with _service(account) as service:
        present = {table.name async for table in service.list_tables()}
        for table in tables:
            if table in present:
                client = service.get_table_client(table)
                async for _ in client.list_entities(results_per_page=1, select=["PartitionKey"]):
                    found.append(table)
                    break
    return found


def is_begun(folder: Path, account: str) -> bool:
    """Returns whether a restore into the account has ended early, and the next one goes on. Raises BackupError for one
    into another account."""
    return _noted(folder, account) is not None


def forget_restore(folder: Path) -> None:
    """Removes the note of how far a restore is: it is done."""
    (folder / _RESTORE).unlink(missing_ok=True)


async def import_tables(
    storage: Storage, tables: Sequence[str], folder: Path, report: Report = unwatched, *, account: str = ""
) -> dict[str, int]:
    """Inserts or replaces every entity of the files; returns how many they have.

    Entities that are there and not in the files stay. How far it is in `account` is noted in the folder: after an early
    end the next call goes on from there. Raises BackupError if a file is missing or bad, or if a restore into another
    account has not come to its end.
    """
    missing = [table for table in tables if not _file(folder, table).exists()]
    if missing:
        raise BackupError(f"{folder} has no file of {', '.join(missing)}")
    counts = _noted(folder, account) or {}
    _note(folder, account, counts)
    for table in tables:
        noted = counts.setdefault(table, 0)
        for partition, rows in _batches(_file(folder, table), counts[table]):
            await storage.tables.transact(table, partition, rows)
            counts[table] += len(rows)
            report(f"{table}: {counts[table]:,} entities")
            if counts[table] - noted >= _NOTED_EVERY:
                noted = counts[table]
                _note(folder, account, counts)
        _note(folder, account, counts)
    return counts


def _noted(folder: Path, account: str) -> dict[str, int] | None:
    """Returns how many entities of each table an unfinished restore has restored; None if there is no such restore."""
    try:
        note = json.loads((folder / _RESTORE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if note["account"] != account:
        other = f"a restore into {note['account']} has not come to its end"
        raise BackupError(f"{other}; to begin another one, remove {folder / _RESTORE}")
    return dict(note["entities"])


def _note(folder: Path, account: str, counts: Mapping[str, int]) -> None:
    """Replaces the note of a restore's progress in one step: a process that dies leaves the earlier note."""
    new = folder / f"{_RESTORE}.new"
    try:
        new.write_text(json.dumps({"account": account, "entities": counts}), encoding="utf-8")
        new.replace(folder / _RESTORE)
    except OSError as error:
        raise BackupError(f"it cannot be noted in {folder} how far the restore is: {error}") from error


async def revive(records: Records, task_id: str) -> bool:
    """Puts timers for a task that has lost its messages; lost pending messages are left to the reconciler. Returns
    False if the task needs none. A further timer of the same kind does no harm."""
    task = await records.tasks.status(task_id)
    if task is None or task.is_resolved:
        return False
    await records.messages.put_deadline(put_deadline(task))
    run = task.last_run if task.state is State.RUNNING else None
    if run is not None and run.taken_until is not None and run.started is not None:
        claim = PutClaim(
            task_id=task.task_id, run_id=task.last_run_id, taken_until=run.taken_until, started=run.started
        )
        await records.messages.put_claim(claim)
    return True


async def all_tasks(account: AzureStorage) -> AsyncIterator[str]:
    """Yields the ids of all tasks: a scan of the whole table."""
    async with _service(account) as service:
        client = service.get_table_client(keys.TASKS)
        async for row in _all_of(client.query_entities(f"RowKey eq '{keys.TASK_STATUS}'", select=["PartitionKey"])):
            yield row["PartitionKey"]


async def index_rows(account: AzureStorage, report: Report = unwatched) -> list[IndexRow]:
    """Returns all rows of the index: a scan of the whole table."""
    found: list[IndexRow] = []
    async with _service(account) as service:
        client = service.get_table_client(keys.INDEX)
        rows = client.list_entities(select=["PartitionKey", "RowKey", "path", "expires"])
        async for row in _all_of(rows):
            found.append(IndexRow.of(row["PartitionKey"], row["RowKey"], row["path"], row["expires"]))
            if len(found) % _PAGE == 0:
                report(f"{len(found):,} rows of the index read")
    return found


async def scheduled_sweeps(account: AzureStorage) -> AsyncIterator[str]:
    """Yields the partitions of the index that are to be swept: a scan of the table of what expires."""
    first = keys.expiring(keys.INDEX_SWEEP, "")
    async with _service(account) as service:
        client = service.get_table_client(keys.EXPIRY)
        rows = client.query_entities(f"RowKey ge '{first}' and RowKey lt '{first}\x7f'", select=["RowKey"])
        async for row in _all_of(rows):
            yield row["RowKey"].removeprefix(first)


async def _all_of(rows: AsyncIterable[TableEntity]) -> AsyncIterator[TableEntity]:
    """Yields rows as they come; none of a missing table, since the app makes tables when it first needs them."""
    try:
        async for row in rows:
            yield row
    except ResourceNotFoundError:  # of a list, nothing else can be missing
        return


def _file(folder: Path, table: str) -> Path:
    return folder / f"{table}.jsonl.gz"


def _service(account: AzureStorage) -> TableServiceClient:
    return TableServiceClient(account.endpoints.table, credential=account.credential)


async def _export(client: TableClient, file: IO[str], counted: Callable[[int], None]) -> int:
    count = 0
    async for entity in _all_of(client.list_entities(results_per_page=_PAGE)):
        file.write(json.dumps({name: _written(value) for name, value in entity.items()}, ensure_ascii=False) + "\n")
        count += 1
        if count % _PAGE == 0:
            counted(count)
    return count


def _written(value: Any) -> Any:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, EntityProperty) and value.edm_type is EdmType.INT64:
        return value.value
    if not isinstance(value, (str, bool, int)):
        raise BackupError(f"properties of type {type(value).__name__} are not ours")
    return value


def _read(value: Any) -> Value:
    match value:
        case {"$bytes": str(text)}:
            return base64.b64decode(text)
        case str() | int() | bool():
            return value
        case _:
            raise ValueError("not a property")


def _batches(path: Path, after: int) -> Iterator[tuple[str, list[Upsert]]]:
    """Yields rows of one partition each, as many as a transaction holds: a table is listed partition by partition.
    Skips the first `after` rows."""
    batch: list[Upsert] = []
    of, size = "", 0
    for partition, row in _rows(path, after):
        length = transaction_size(partition, [row])
        if batch and (partition != of or len(batch) == MAX_OPERATIONS or size + length > MAX_TRANSACTION):
            yield of, batch
            batch, size = [], 0
        of = partition
        batch.append(row)
        size += length
    if batch:
        yield of, batch


def _rows(path: Path, after: int) -> Iterator[tuple[str, Upsert]]:
    """Yields rows with their partitions, after the first `after` rows."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for number, line in islice(enumerate(file, 1), after, None):
            try:
                values = {name: _read(value) for name, value in json.loads(line).items()}
                partition, key = str(values.pop("PartitionKey")), str(values.pop("RowKey"))
            except (ValueError, KeyError, AttributeError) as error:
                raise BackupError(f"line {number} of {path.name} is no entity") from error
            yield partition, Upsert(key, values)
