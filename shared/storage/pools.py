"""The Pools table: which bands a pool uses, and the index of its pending and running runs (design 3).

Projections only: whoever acts on a row judges by the task's status row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from shared.concurrency import together
from shared.domain.dates import format_date, parse_date
from shared.domain.effects import ChangePoolRows, PoolRow
from shared.domain.priority import PRIORITIES, Priority
from shared.domain.task import State
from shared.runtime import Runtime
from shared.storage import keys
from shared.storage.codec import decode_task
from shared.storage.interface import (
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
from shared.storage.messages import pending_queue

BANDS_STALE = timedelta(seconds=10)
"""How old a process's knowledge of the bands in use may be (design 2.8)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingRow:
    """The index row of a pending run as read."""

    task_id: str
    run_id: int
    scheduled: datetime
    priority: Priority
    key: str
    etag: str
    written: datetime


class PoolStore:
    """Reads and changes the index rows of pools."""

    def __init__(self, storage: Storage, runtime: Runtime) -> None:
        self._tables = storage.tables
        self._queues = storage.queues
        self._now = runtime.now
        self._made: set[tuple[str, Priority]] = set()
        self._making: dict[tuple[str, Priority], asyncio.Future[None]] = {}
        self._all_made: set[str] = set()
        self._bands: dict[str, tuple[datetime, tuple[Priority, ...]]] = {}

    async def ensure_band(self, task_queue_id: str, priority: Priority) -> None:
        """Makes sure that the band's queue exists and that pollers know of it; no request once this process knows.

        Bands are never removed: an idle queue costs nothing.
        """
        while (task_queue_id, priority) not in self._made:
            making = self._making.get((task_queue_id, priority))
            if making is not None:
                await asyncio.wait([making])  # another call is at it; if it fails, this one tries
                continue
            making = asyncio.ensure_future(self._make_band(task_queue_id, priority))
            self._making[(task_queue_id, priority)] = making
            try:
                await making
            finally:
                del self._making[(task_queue_id, priority)]

    async def _make_band(self, task_queue_id: str, priority: Priority) -> None:
        known = await self._read_bands(task_queue_id)
        if priority not in known:
            await self._queues.create(pending_queue(task_queue_id, priority))
            values: dict[str, Value] = {"taskQueueId": task_queue_id, _column(priority): True}
            # In this order: a band that is known is never listed again.
            await self._list_pool(task_queue_id)
            await self._note(task_queue_id, values)
            self._bands.pop(task_queue_id, None)
        self._made.add((task_queue_id, priority))

    async def ensure_queues(self, task_queue_id: str) -> None:
        """Makes sure that the queues of all bands exist, for those who poll them by signed URLs.

        One request the first time in a process, none later. What the service itself polls does not change.
        """
        if task_queue_id in self._all_made:
            return
        row = await self._tables.get(keys.POOLS, keys.pool(task_queue_id), keys.POOL)
        if row is None or not row.values.get(_QUEUES_MADE):
            await together(*(self._queues.create(pending_queue(task_queue_id, band)) for band in PRIORITIES))
            await self._note(task_queue_id, {"taskQueueId": task_queue_id, _QUEUES_MADE: True})
        self._all_made.add(task_queue_id)

    async def bands(self, task_queue_id: str) -> tuple[Priority, ...]:
        """The bands in use, highest first; up to 10 s old."""
        remembered = self._bands.get(task_queue_id)
        if remembered is not None and self._now() - remembered[0] < BANDS_STALE:
            return remembered[1]
        return await self._read_bands(task_queue_id)

    async def add_pending(self, task_queue_id: str, row: PoolRow) -> str | None:
        """Indexes a pending run. The ETag if the row is new, None if it stood already: touched."""
        partition, key, values = keys.pool(task_queue_id), keys.pending(row), _values(row)
        try:
            return (await self._tables.transact(keys.POOLS, partition, [Create(key, values)]))[0]
        except TransactionRefused:
            await self._tables.transact(keys.POOLS, partition, [Upsert(key, values)])
            return None

    async def remove_pending(self, task_queue_id: str, row: PoolRow, etag: str) -> None:
        """Removes the row of a pending run if nobody has touched it since."""
        try:
            await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), [Delete(keys.pending(row), etag)])
        except TransactionRefused:
            return

    async def pending(
        self, task_queue_id: str, limit: int, start: str | None = None
    ) -> tuple[list[PendingRow], str | None]:
        """A page of the rows of pending runs, first scheduled first, and where the next page starts."""
        page = await self._tables.query(
            keys.POOLS,
            keys.pool(task_queue_id),
            start=start or keys.PENDING[0],
            end=keys.PENDING[1],
            limit=limit,
            select=("scheduled", "priority"),
        )
        return [_decode_pending(row) for row in page.rows], page.resume

    async def touch(self, task_queue_id: str, row: PendingRow) -> None:
        """Notes that the message of a pending run was put again: the time of its row is that of its message."""
        try:
            await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), [Merge(row.key, {})])
        except TransactionRefused:
            return

    async def checked_to(self, task_queue_id: str) -> str:
        """Where the last check of the pool's index ended; "" at its end."""
        row = await self._tables.get(keys.POOLS, keys.pool(task_queue_id), keys.POOL)
        return "" if row is None else str(row.values.get(_CHECKED_TO, ""))

    async def note_checked(self, task_queue_id: str, to: str) -> None:
        """Keeps where a check of the pool's index has ended."""
        await self._note(task_queue_id, {_CHECKED_TO: to})

    async def remove_read(self, task_queue_id: str, row: PendingRow) -> None:
        """Removes a row that was read, if nobody has touched it since."""
        try:
            await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), [Delete(row.key, row.etag)])
        except TransactionRefused:
            return

    async def known(self, start: str | None, limit: int = 1000) -> tuple[list[str], str | None]:
        """A page of all pools' taskQueueIds, and where the next one starts."""
        page = await self._tables.query(keys.DIRECTORY, keys.POOL, start=start or "", end="\x7f", limit=limit)
        return [str(row.values["taskQueueId"]) for row in page.rows], page.resume

    async def set_priority(self, task_queue_id: str, row: PoolRow, priority: Priority) -> None:
        """Notes another band in the row of a pending run, if there is one."""
        operation = Merge(keys.pending(row), {"priority": priority})
        try:
            await self._tables.transact(keys.POOLS, keys.pool(task_queue_id), [operation])
        except TransactionRefused:
            return

    async def change(
        self, changes: Sequence[ChangePoolRows], task_queue_id: str, worker: Sequence[Operation] = ()
    ) -> str:
        """Replaces rows of one pool in one transaction, with an operation on a worker's row if given: then answers
        that row's ETag.

        A row to remove that is not there fails the whole transaction, so it is sent once more with the row of the
        run's other state, and then without it. That row may have been removed by a call that has moved the task on, so
        what was to replace it is added only if its task's status row still says so.
        Raises TransactionRefused only for the worker's row.
        """
        partition = keys.pool(task_queue_id)
        additions = [(change, row) for change in changes for row in change.add]
        added = {_key(row) for _, row in additions}
        removals = [
            (change, alternatives)
            for change in changes
            for row in change.remove
            if (alternatives := [key for key in _keys_to_remove(row) if key not in added])
        ]
        while True:
            operations: list[Operation] = [Delete(alternatives[0]) for _, alternatives in removals]
            operations += [Upsert(_key(row), _values(row)) for _, row in additions]
            operations += worker
            if not operations:
                return ""
            try:
                etags = await self._tables.transact(keys.POOLS, partition, operations)
            except TransactionRefused as refused:
                if refused.refusal is not Refusal.MISSING or refused.index >= len(removals):
                    raise
                overtaken, alternatives = removals[refused.index]
                alternatives.pop(0)
                if not alternatives:
                    del removals[refused.index]
                    additions = [
                        (change, row)
                        for change, row in additions
                        if change is not overtaken or await self._is_current(row)
                    ]
            else:
                return etags[-1]

    async def _is_current(self, row: PoolRow) -> bool:
        """Whether the row's run is its task's last one, and in the row's state."""
        found = await self._tables.get(keys.TASKS, row.task_id, keys.TASK_STATUS)
        if found is None:
            return False
        task = decode_task(found)
        return task.last_run_id == row.run_id and task.state is row.state

    async def _read_bands(self, task_queue_id: str) -> tuple[Priority, ...]:
        row = await self._tables.get(keys.POOLS, keys.pool(task_queue_id), keys.POOL)
        bands = () if row is None else tuple(band for band in PRIORITIES if row.values.get(_column(band)))
        self._bands[task_queue_id] = (self._now(), bands)
        self._made.update((task_queue_id, band) for band in bands)
        return bands

    async def _note(self, task_queue_id: str, values: Mapping[str, Value]) -> None:
        """Adds to the pool's header."""
        partition = keys.pool(task_queue_id)
        for operation in (Merge(keys.POOL, values), Create(keys.POOL, values), Merge(keys.POOL, values)):
            try:
                await self._tables.transact(keys.POOLS, partition, [operation])
            except TransactionRefused:
                continue
            return

    async def _list_pool(self, task_queue_id: str) -> None:
        """One row a pool in the directory, so that the reconciler finds it without a scan.

        Listings leave it out until the pool has been seen (`directory`).
        """
        values: dict[str, Value] = {"taskQueueId": task_queue_id}
        try:
            await self._tables.transact(keys.DIRECTORY, keys.POOL, [Create(keys.listed(task_queue_id), values)])
        except TransactionRefused:
            return


_QUEUES_MADE = "queuesMade"
_CHECKED_TO = "checkedTo"


def _column(priority: Priority) -> str:
    return "uses_" + priority.replace("-", "_")


def _values(row: PoolRow) -> dict[str, Value]:
    values: dict[str, Value] = {
        "priority": row.priority,
        "scheduled": format_date(row.scheduled),
        "deadline": format_date(row.deadline),
    }
    if row.started is not None:
        values |= {"workerGroup": row.worker_group, "workerId": row.worker_id}
    return values


def _decode_pending(row: Row) -> PendingRow:
    _, _, task_id, run_id = row.key.split("~")
    return PendingRow(
        task_id=task_id,
        run_id=int(run_id),
        scheduled=parse_date(str(row.values["scheduled"])),
        priority=cast("Priority", row.values["priority"]),
        key=row.key,
        etag=row.etag,
        written=row.timestamp,
    )


def _key(row: PoolRow) -> str:
    return keys.pending(row) if row.state is State.PENDING else keys.claimed(row)


def _keys_to_remove(row: PoolRow) -> list[str]:
    """The key of the run's row, and the one that stands when the row never moved from pending to claimed."""
    return [keys.pending(row)] if row.started is None else [keys.claimed(row), keys.pending(row)]
