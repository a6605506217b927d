"""Writes the index rows of a pool's pending and running runs (design 3, contract 9). pool_index.py reads them.

Projections only: callers act by the task's status row. A run may have more than one row for a moment,
and a row may have outlived its task: readers remove duplicates and look at the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from shared.concurrency import together
from shared.domain.dates import format_date, parse_date
from shared.domain.effects import ChangePoolRows, PoolRow, row_of
from shared.domain.priority import Priority
from shared.domain.task import State, Task
from shared.frozen import dataclass
from shared.runtime import Runtime
from shared.storage import keys
from shared.storage.codec import decode_task
from shared.storage.interface import (
    MAX_OPERATIONS,
    Create,
    Delete,
    Merge,
    Operation,
    Refusal,
    Row,
    Storage,
    TransactionRefused,
    Upsert,
    Value,
)
from shared.storage.known import KnownStatuses
from shared.storage.partitions import END
from shared.storage.pool_queues import PoolQueues


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexRow:
    """The index row of a pending or running run as read."""

    task_id: str
    run_id: int
    scheduled: datetime
    priority: Priority
    deadline: datetime
    key: str
    etag: str
    written: datetime


class PoolStore:
    """Reads and changes the index rows of pools."""

    def __init__(self, storage: Storage, runtime: Runtime, known: KnownStatuses) -> None:
        """`known` learns the ETags of index rows of pending runs that are written."""
        self._tables = storage.tables
        self._known = known
        self.queues = PoolQueues(storage, runtime)

    async def add_pending(self, task_queue_id: str, row: PoolRow) -> str | None:
        """Indexes a pending run. The ETag if the row is new, None if it existed already: rewritten."""
        partition, key, values = keys.pool(task_queue_id), keys.pending(row), _values(row)
        returned = [_RETURNED] if row.run_id else []
        try:
            etag = (await self._tables.transact(keys.POOLS, partition, [Create(key, values), *returned]))[0]
        except TransactionRefused:
            await self._tables.transact(keys.POOLS, partition, [Upsert(key, values), *returned])
            return None
        self._known.saw_pending(row.task_id, row.run_id, etag)
        return etag

    async def add_pending_together(self, task_queue_id: str, rows: Sequence[PoolRow]) -> list[str | None]:
        """As `add_pending`, for first runs of one pool: a transaction for each hundred, or one by one where one of them
        exists."""
        assert not any(row.run_id for row in rows), "none of them may have been claimed before"
        etags: list[str | None] = []
        for start in range(0, len(rows), MAX_OPERATIONS):
            some = rows[start : start + MAX_OPERATIONS]
            creations = [Create(keys.pending(row), _values(row)) for row in some]
            try:
                created = await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), creations)
            except TransactionRefused:
                etags += await together(*(self.add_pending(task_queue_id, row) for row in some))
                continue
            for row, etag in zip(some, created, strict=True):
                self._known.saw_pending(row.task_id, row.run_id, etag)
            etags += created
        return etags

    async def remove(self, task_queue_id: str, row: PoolRow, etag: str) -> None:
        """Removes a row that was written, if no call has rewritten it since."""
        try:
            await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), [Delete(_key(row), etag)])
        except TransactionRefused:
            return

    async def pending(
        self, task_queue_id: str, limit: int, start: str | None = None
    ) -> tuple[list[IndexRow], str | None]:
        """A page of the rows of pending runs, first scheduled first, and where the next page starts."""
        page = await self._tables.query(
            keys.POOLS,
            keys.pool(task_queue_id),
            start=start or keys.PENDING[0],
            end=keys.PENDING[1],
            limit=limit,
            select=_COLUMNS,
        )
        return [_decode(row) for row in page.rows], page.resume

    async def claimed(self, task_queue_id: str, limit: int) -> list[IndexRow]:
        """The rows of the running runs that were claimed first."""
        start, end = keys.CLAIMED
        page = await self._tables.query(
            keys.POOLS, keys.pool(task_queue_id), start=start, end=end, limit=limit, select=_COLUMNS
        )
        return [_decode(row) for row in page.rows]

    async def rewrite(self, task_queue_id: str, row: IndexRow) -> None:
        """Notes that the message of a pending run was put again: the time of its row is that of its message."""
        try:
            await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), [Merge(row.key, {})])
        except TransactionRefused:
            return

    async def remove_read(self, task_queue_id: str, row: IndexRow) -> None:
        """Removes a row that was read, if no call has rewritten it since."""
        try:
            await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), [Delete(row.key, row.etag)])
        except TransactionRefused:
            return

    async def move_back(self, task_queue_id: str, claimed: PoolRow, pending: PoolRow) -> None:
        """Puts the row of a pending run in place of that of its claim, which was returned, if that row is there."""
        operations: list[Operation] = [Delete(_key(claimed)), Upsert(_key(pending), _values(pending)), _RETURNED]
        try:
            await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), operations)
        except TransactionRefused:
            return

    async def replace_read(self, task_queue_id: str, row: IndexRow, claimed: PoolRow) -> None:
        """Puts the row of a claim in place of a row that was read, if nobody has rewritten that since.

        A call that ends the claim meanwhile commits that first, and may find neither row: the pending row is gone, the
        claimed row not there yet. So either that call finds the new row, or this one the new state.
        """
        operations: list[Operation] = [Delete(row.key, row.etag), Upsert(_key(claimed), _values(claimed))]
        try:
            etags = await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), operations)
        except TransactionRefused:
            return
        await self._look_again(task_queue_id, claimed, etags[1])

    async def known(self, start: str | None, limit: int, end: str = "") -> tuple[list[str], str | None]:
        """A page of all pools' taskQueueIds, up to the key `end` if that is given, and where the next one starts."""
        page = await self._tables.query(keys.DIRECTORY, keys.POOL, start=start or "", end=end or END, limit=limit)
        return [str(row.values["taskQueueId"]) for row in page.rows], page.resume

    async def next_to_check(self) -> str:
        """Where in the directory the next check of all pools begins; "" at its beginning."""
        row = await self._tables.get(keys.DIRECTORY, keys.CHECKED, keys.CHECKED)
        return "" if row is None else str(row.values["next"])

    async def checked(self) -> datetime | None:
        """When a check of all pools has noted last how far it is, by the storage's clock."""
        row = await self._tables.get(keys.DIRECTORY, keys.CHECKED, keys.CHECKED)
        return None if row is None else row.timestamp

    async def note_next_to_check(self, following: str) -> None:
        """Keeps where the next check of all pools begins."""
        await self._tables.transact(keys.DIRECTORY, keys.CHECKED, [Upsert(keys.CHECKED, {"next": following})])

    async def set_priority(
        self, task_queue_id: str, row: PoolRow, priority: Priority, etag: str | None = None
    ) -> str | None:
        """Notes another band in the row of a pending run; with `etag`, only while it is unchanged.

        The row's new ETag, None if there is no such row.
        """
        return await self._set_priority(task_queue_id, keys.pending(row), priority, etag)

    async def correct_priority(self, task_queue_id: str, row: IndexRow, priority: Priority) -> None:
        """Writes the band of the run's message into a row that was read, if no call has rewritten it since."""
        await self._set_priority(task_queue_id, row.key, priority, row.etag)

    async def _set_priority(self, task_queue_id: str, key: str, priority: Priority, etag: str | None) -> str | None:
        operation = Merge(key, {"priority": priority}, etag)
        try:
            return (await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), [operation]))[0]
        except TransactionRefused:
            return None

    async def change(
        self, changes: Sequence[ChangePoolRows], task_queue_id: str, worker: Sequence[Operation] = ()
    ) -> str:
        """Replaces rows of one pool in one transaction, with an operation on a worker's row if given: then returns
        that row's ETag.

        A row to remove that is not there fails the whole transaction, so it is sent once more with the row of the
        run's other state, and at last without it. That row may have been removed by a call that has moved the task on,
        so what was to replace it is added, and a pending run's row removed with it, only if its task's status row still
        says so. The row of a claim that does not take the place of the same run's pending row alone may come after the
        claim has ended, too. Both are looked at again then: a call that moves the task on later finds the new row.
        Raises TransactionRefused only for the worker's row.
        """
        partition = keys.pool(task_queue_id)
        additions = [(change, row) for change in changes for row in change.add]
        added = {_key(row) for _, row in additions}
        removals = [
            (change, row, alternatives)
            for change in changes
            for row in change.remove
            if (alternatives := [key for key in _keys_to_remove(row) if key not in added])
        ]
        unsure = {
            _key(row)
            for change, row in additions
            if row.state is State.RUNNING and any(_key(gone) != keys.pending(row) for gone in change.remove)
        }
        while True:
            operations: list[Operation] = [Delete(alternatives[0]) for *_, alternatives in removals]
            operations += [Upsert(_key(row), _values(row)) for _, row in additions]
            if any(row.state is State.PENDING for _, row in additions):
                operations.append(_RETURNED)
            operations += worker
            if not operations:
                return ""
            try:
                etags = await self._tables.transact(keys.POOLS, partition, operations)
            except TransactionRefused as refused:
                if refused.refusal is not Refusal.MISSING or refused.index >= len(removals):
                    raise
                overtaken, _, alternatives = removals[refused.index]
                alternatives.pop(0)
                if not alternatives:
                    del removals[refused.index]
                if not alternatives and not overtaken.is_ahead:
                    additions = [
                        (change, row)
                        for change, row in additions
                        if change is not overtaken or await self._is_current(row)
                    ]
                    removals = [
                        removal
                        for removal in removals
                        if removal[0] is not overtaken
                        or removal[1].state is not State.PENDING
                        or not await self._is_current(removal[1])
                    ]
                    unsure |= {_key(row) for change, row in additions if change is overtaken}
            else:
                for (_, row), etag in zip(additions, etags[len(removals) :], strict=False):
                    if _key(row) in unsure:
                        await self._look_again(task_queue_id, row, etag)
                return etags[-1]

    async def _look_again(self, task_queue_id: str, row: PoolRow, etag: str) -> None:
        """Takes back a row that was written, if its task has moved on meanwhile.

        A claim that was returned has its pending row back: without one nobody would see that its message is lost.
        """
        task = await self._task(row)
        if task is not None and _is_row_of(row, task):
            return
        if task is not None and (task.last_run_id, task.state) == (row.run_id, State.PENDING):
            await self.move_back(task_queue_id, row, row_of(task, row.run_id))
        else:
            await self.remove(task_queue_id, row, etag)

    async def _is_current(self, row: PoolRow) -> bool:
        """Whether the row's run is its task's last one, and has this row."""
        task = await self._task(row)
        return task is not None and _is_row_of(row, task)

    async def _task(self, row: PoolRow) -> Task | None:
        found = await self._tables.get(keys.TASKS, row.task_id, keys.TASK_STATUS)
        return None if found is None else decode_task(found)


_COLUMNS = ("scheduled", "priority", "deadline")
_RETURNED = Upsert(keys.RETURNED, {})
"""Beside each index row of a run that may have been claimed before: see `PoolVouchers`."""


def _values(row: PoolRow) -> dict[str, Value]:
    values: dict[str, Value] = {
        "priority": row.priority,
        "scheduled": format_date(row.scheduled),
        "deadline": format_date(row.deadline),
    }
    if row.started is not None:
        values |= {"workerGroup": row.worker_group, "workerId": row.worker_id}
    return values


def _decode(row: Row) -> IndexRow:
    _, _, task_id, run_id = row.key.split("~")
    return IndexRow(
        task_id=task_id,
        run_id=int(run_id),
        scheduled=parse_date(str(row.values["scheduled"])),
        priority=cast("Priority", row.values["priority"]),
        deadline=parse_date(str(row.values["deadline"])),
        key=row.key,
        etag=row.etag,
        written=row.timestamp,
    )


def _is_row_of(row: PoolRow, task: Task) -> bool:
    is_last = task.last_run_id == row.run_id and task.state is row.state
    return is_last and _key(row_of(task, row.run_id)) == _key(row)


def _key(row: PoolRow) -> str:
    return keys.pending(row) if row.state is State.PENDING else keys.claimed(row)


def _keys_to_remove(row: PoolRow) -> list[str]:
    """The key of the run's row, then the one that stands while the row has not been moved from pending to claimed.

    Where neither is there, a slow claim may have moved the row between the two looks: then it is found at the third.
    """
    if row.started is None:
        return [keys.pending(row)]
    return [keys.claimed(row), keys.pending(row), keys.claimed(row)]
