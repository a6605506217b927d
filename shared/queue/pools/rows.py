"""Writes the index rows of a pool's pending and running runs (design 3, contract 9). index.py reads them. Projections
only: callers act by the task's status row. A run may have more than one row for a moment, and a row may have outlived
its task: readers remove duplicates and look at the task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from shared.base.concurrency import together
from shared.base.dates import format_date, parse_date
from shared.base.errors import ServiceError
from shared.base.frozen import dataclass
from shared.base.priority import Priority
from shared.queue.pools.queues import PoolQueues
from shared.queue.tasks.effects import ChangePoolRows, PoolRow, ReturnRow
from shared.queue.tasks.known import KnownStatuses
from shared.queue.tasks.rules import State
from shared.runtime import Runtime
from shared.store import interface as tables
from shared.store import keys
from shared.store.interface import MAX_OPERATIONS, Row, Storage, TransactionRefused
from shared.store.partitions import END, try_transact


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexRow:
    """The index row of a run as read."""

    task_id: str
    run_id: int
    since: datetime
    """Since when the run has been pending, or claimed."""
    priority: Priority
    deadline: datetime
    key: str
    etag: str
    written: datetime


class ClaimRowTaken(ServiceError):
    """Another call claims the run in the same millisecond, and the index row with this key is that claim's."""

    def __init__(self, row: PoolRow) -> None:
        super().__init__(row.task_id)
        self.run = row.task_id, row.run_id


class PoolStore:
    """Reads and changes the index rows of pools."""

    def __init__(self, storage: Storage, runtime: Runtime, known: KnownStatuses) -> None:
        """Makes the store. `known` learns the ETags of index rows of pending runs that are written."""
        self._tables = storage.tables
        self._known = known
        self.queues = PoolQueues(storage, runtime)

    async def add_pending(self, row: PoolRow) -> str | None:
        """Adds the index row of a pending run, or rewrites it. Returns its ETag if it is new, else None."""
        partition, key, values = keys.pool(row.task_queue_id), keys.pending(row), _values(row)
        returned = [_RETURNED] if row.run_id else []
        try:
            etag = (await self._tables.transact(keys.POOLS, partition, [tables.Create(key, values), *returned]))[0]
        except TransactionRefused:
            await self._tables.transact(keys.POOLS, partition, [tables.Upsert(key, values), *returned])
            return None
        self._known.saw_pending(row.task_id, row.run_id, etag)
        return etag

    async def add_pending_together(self, task_queue_id: str, rows: Sequence[PoolRow]) -> list[str | None]:
        """Adds rows as `add_pending` does, for first runs of a pool: a hundred at once, or each alone if one exists."""
        assert not any(row.run_id for row in rows), "none of them may have been claimed before"
        etags: list[str | None] = []
        for start in range(0, len(rows), MAX_OPERATIONS):
            some = rows[start : start + MAX_OPERATIONS]
            creations = [tables.Create(keys.pending(row), _values(row)) for row in some]
            try:
                created = await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), creations)
            except TransactionRefused:
                etags += await together(*(self.add_pending(row) for row in some))
                continue
            for row, etag in zip(some, created, strict=True):
                self._known.saw_pending(row.task_id, row.run_id, etag)
            etags += created
        return etags

    async def remove_pool_row(self, task_queue_id: str, key: str, etag: str) -> None:
        """Removes a row that this process wrote or read, if no call has rewritten it since."""
        await try_transact(self._tables, keys.POOLS, keys.pool(task_queue_id), [tables.Delete(key, etag)])

    async def runs(
        self, task_queue_id: str, limit: int, start: str = "", *, within: tuple[str, str] = keys.PENDING
    ) -> tuple[list[IndexRow], str | None]:
        """Returns a page of the rows of pending runs, first scheduled first, or of running runs (`keys.CLAIMED`), first
        claimed first, and where the next page starts."""
        first, end, pool = start or within[0], within[1], keys.pool(task_queue_id)
        page = await self._tables.query(keys.POOLS, pool, start=first, end=end, limit=limit, select=_COLUMNS)
        return [_decode(row) for row in page.rows], page.resume

    async def rewrite(self, task_queue_id: str, row: IndexRow) -> None:
        """Notes that the message of a pending run was put again: the time of its row is that of its message."""
        await try_transact(self._tables, keys.POOLS, keys.pool(task_queue_id), [tables.Merge(row.key, {})])

    async def give_back(self, row: ReturnRow) -> None:
        """Replaces the row of a claim that failed by the row of the pending run. If the claim's row is missing, nothing
        changes: the pending row was never removed, or another call has restored it."""
        key = keys.claimed(row.claimed)
        found = await self._tables.get_row(keys.POOLS, keys.pool(row.claimed.task_queue_id), key)
        if found is None or not _is_of_claim(found, row.claimed):
            return
        operations: list[tables.Operation] = [tables.Delete(key, found.etag)]
        if row.pending is not None:
            operations += [tables.Upsert(keys.pending(row.pending), _values(row.pending)), _RETURNED]
        await try_transact(self._tables, keys.POOLS, keys.pool(row.claimed.task_queue_id), operations)

    async def page_of_all(self, start: str | None, limit: int, end: str = "") -> tuple[list[str], str | None]:
        """Returns a page of all pools' taskQueueIds, up to the key `end` if given, and where the next one starts."""
        page = await self._tables.query(keys.DIRECTORY, keys.POOL, start=start or "", end=end or END, limit=limit)
        return [str(row.values["taskQueueId"]) for row in page.rows], page.resume

    async def next_to_check(self) -> str:
        """Returns where in the directory the next check of all pools begins; "" at its beginning."""
        row = await self._tables.get_row(keys.DIRECTORY, keys.CHECKED, keys.CHECKED)
        return "" if row is None else str(row.values["next"])

    async def checked(self) -> datetime | None:
        """Returns when a check of all pools last noted its position, by the storage's clock."""
        row = await self._tables.get_row(keys.DIRECTORY, keys.CHECKED, keys.CHECKED)
        return None if row is None else row.timestamp

    async def note_next_to_check(self, following: str) -> None:
        """Keeps where the next check of all pools begins."""
        await self._tables.transact(keys.DIRECTORY, keys.CHECKED, [tables.Upsert(keys.CHECKED, {"next": following})])

    async def set_priority(
        self, task_queue_id: str, key: str, priority: Priority, etag: str | None = None
    ) -> str | None:
        """Notes another band in the row of a pending run; with `etag`, only while it is unchanged. Returns the row's
        new ETag, or None if there is no such row."""
        noted = tables.Merge(key, {"priority": priority}, etag)
        etags = await try_transact(self._tables, keys.POOLS, keys.pool(task_queue_id), [noted])
        return None if etags is None else etags[0]

    async def change_pool_rows(
        self, changes: Sequence[ChangePoolRows], task_queue_id: str = "", worker: Sequence[tables.Operation] = ()
    ) -> str:
        """Replaces rows of one pool in one transaction, with an operation on a worker's row if given: then returns that
        row's ETag. A claim's row may exist only if it is this claim's own, from a try whose answer was lost. The pool
        is that of the rows, or `task_queue_id` where there may be none.

        Rows to remove that do not exist are skipped. If a late request leaves such a row, readers ignore it and the
        reconciler removes it. Raises ClaimRowTaken; TransactionRefused only for the worker's row."""
        rows = [row for change in changes for row in (*change.remove, *change.add)]
        partition = keys.pool(rows[0].task_queue_id if rows else task_queue_id)
        removals = [_key(row) for change in changes for row in change.remove]
        additions = [row for change in changes for row in change.add]
        own: set[PoolRow] = set()
        while True:
            operations: list[tables.Operation] = [tables.Delete(key) for key in removals]
            for row in additions:
                replaces, key, values = row.state is State.PENDING or row in own, _key(row), _values(row)
                operations.append(tables.Upsert(key, values) if replaces else tables.Create(key, values))
            if any(row.state is State.PENDING for row in additions):
                operations.append(_RETURNED)
            operations += worker
            if not operations:
                return ""
            try:
                return (await self._tables.transact(keys.POOLS, partition, operations))[-1]
            except TransactionRefused as refused:
                if refused.index >= len(removals) + len(additions):
                    raise
                if refused.index < len(removals):
                    del removals[refused.index]
                    continue
                row = additions[refused.index - len(removals)]
                found = await self._tables.get_row(keys.POOLS, partition, _key(row))
                if found is not None and not _is_of_claim(found, row):
                    raise ClaimRowTaken(row) from refused
                own.add(row)


_COLUMNS = ("priority", "deadline")
_RETURNED = tables.Upsert(keys.RETURNED, {})
"""Written with each index row of a pending run that may have been claimed before: see `PoolIndex.etags`."""


def _values(row: PoolRow) -> dict[str, tables.Value]:
    values: dict[str, tables.Value] = {
        "priority": row.priority,
        "scheduled": format_date(row.scheduled),
        "deadline": format_date(row.deadline),
    }
    if row.started is not None:
        values |= {"workerGroup": row.worker_group, "workerId": row.worker_id, "claimId": row.claim_id}
    return values


def _is_of_claim(found: Row, claimed: PoolRow) -> bool:
    """Returns whether the index row that was found under a claim's key belongs to that claim."""
    return not claimed.claim_id or found.values.get("claimId") == claimed.claim_id


def _decode(row: Row) -> IndexRow:
    _, since, task_id, run_id = row.key.split("~")
    return IndexRow(
        task_id=task_id,
        run_id=int(run_id),
        since=parse_date(since),
        priority=cast("Priority", row.values["priority"]),
        deadline=parse_date(str(row.values["deadline"])),
        key=row.key,
        etag=row.etag,
        written=row.timestamp,
    )


def _key(row: PoolRow) -> str:
    return keys.pending(row) if row.state is State.PENDING else keys.claimed(row)
