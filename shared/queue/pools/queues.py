"""The queues of a pool, and its header: which bands are in use, and when anybody last used them (design 3).

Queues of a pool that was not used for a while are deleted, and made again with the next use. No message is lost:

* A call that uses a pool's queues has read its header within the last hour. If the header says "last used more than a
  day ago", the call first updates it, by its ETag.
* Queues are deleted only after the header was replaced, by its ETag, while it said "not used for days". So no call has
  put a message since, or will put one that relies on what was read before.
* From then on the header says since when they are being deleted. For two minutes no call makes them again: Azure
  refuses to for about 40 s, and a delete that is under way could meet the new queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from shared.base import remembered
from shared.base.concurrency import together
from shared.base.dates import format_date, parse_date
from shared.base.memo import Memo
from shared.base.priority import PRIORITIES, Priority
from shared.queue.tasks.messages import pending_queue
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import Create, Delete, Merge, Operation, Replace, Row, Storage, StorageUnavailable, Value
from shared.store.partitions import delete_together, try_transact

NOTED_EVERY = timedelta(days=1)
"""How often a process notes in the pool's header that the pool is in use."""
DELETED_WITHIN = timedelta(minutes=2)
"""Time since the header was marked as being deleted. Deleting stops after half of it; creating is refused in it."""
WAIT_FOR_DELETION = 20
"""Seconds that a call waits for queues that are being deleted before it reports that storage is not available."""
LOOK_AGAIN = timedelta(days=1)


class PoolQueues:
    """Makes and deletes queues, and knows which bands a pool uses. All methods raise StorageUnavailable."""

    def __init__(self, storage: Storage, runtime: Runtime) -> None:
        self._tables = storage.tables
        self._queues = storage.queues
        self._now = runtime.now
        self._sleep = runtime.sleep
        self._made: Memo[tuple[str, Priority], bool] = Memo(remembered.BAND_QUEUES, self._now)
        """Bands whose queues exist, and when the header last said so."""
        self._all_made: Memo[str, bool] = Memo(remembered.ALL_QUEUES, self._now)
        self._bands: Memo[str, tuple[Priority, ...]] = Memo(remembered.BANDS, self._now)

    async def ensure_band(self, task_queue_id: str, priority: Priority) -> None:
        """Makes sure that the band's queue exists and that pollers know of it. Makes no request while this process
        knows that, which it does for an hour."""
        make = partial(self._make, task_queue_id, _column(priority), [priority])
        await self._made.read((task_queue_id, priority), make)

    async def ensure_queues(self, task_queue_id: str) -> None:
        """Makes sure that the queues of all bands exist, for those who poll them by signed URLs. Makes one request an
        hour in a process. The bands that the service itself polls stay the same."""
        await self._all_made.read(task_queue_id, partial(self._make, task_queue_id, _QUEUES_MADE, PRIORITIES))

    async def _make(self, task_queue_id: str, column: str, bands: Sequence[Priority]) -> bool:
        """Makes the queues of bands, unless this column of the header says that they exist."""
        read = self._now()
        header = await self._used(task_queue_id)
        if header is None or not header.values.get(column):
            await together(*(self._queues.create_queue(pending_queue(task_queue_id, band)) for band in bands))
            # List the pool before its band is noted: a pool with a known band is not listed again.
            await self._list_pool(task_queue_id, header, read)
            await self.write_properties(task_queue_id, {column: True, _USED: format_date(read)})
            self._bands.pop(task_queue_id)
        return True

    async def bands(self, task_queue_id: str) -> tuple[Priority, ...]:
        """Returns the bands in use, highest first, as they were at most 10 s ago."""
        return await self._bands.read(task_queue_id, lambda: self._read_bands(task_queue_id))

    async def _read_bands(self, task_queue_id: str) -> tuple[Priority, ...]:
        read = self._now()
        header = await self._header(task_queue_id)
        if header is not None and not header.values.get(_DELETING):
            header = await self._used(task_queue_id, header)
        found = () if header is None else _bands(header)
        for band in found:
            self._made.put((task_queue_id, band), True, read=read)
        return found

    async def checked_to(self, task_queue_id: str) -> str:
        """Returns the key at which the last check of the pool stopped; "" if at the end."""
        header = await self._header(task_queue_id)
        return "" if header is None else str(header.values.get(CHECKED_TO, ""))

    async def write_properties(self, task_queue_id: str, values: Mapping[str, Value]) -> None:
        """Writes properties of the pool's header."""
        partition, values = keys.pool(task_queue_id), {"taskQueueId": task_queue_id, **values}
        for operation in (Merge(keys.POOL, values), Create(keys.POOL, values), Merge(keys.POOL, values)):
            if await try_transact(self._tables, keys.POOLS, partition, [operation]) is not None:
                return

    async def retire(self, task_queue_id: str, unused_for: timedelta) -> datetime:
        """Deletes the queues of a pool that was unused for that time and has no pending or running run. Returns when to
        call again: a day later, the pool's own rows go as well. An interrupted deletion goes on."""
        began = self._now()
        header = await self._header(task_queue_id)
        if header is None:
            await self._unlist(task_queue_id)
            return began + LOOK_AGAIN
        marked, used = _moment(header, _DELETING), _moment(header, _USED) or header.timestamp
        if header.values.get(_DELETED):
            if marked is not None and began - marked < LOOK_AGAIN:
                return marked + LOOK_AGAIN
            # The pool's own rows: no call relies on them any more, as the header has said for a day that the queues
            # are deleted. Not if somebody has used the pool since its header was read.
            returned = await self._tables.get_row(keys.POOLS, header.partition, keys.RETURNED)
            if await delete_together(self._tables, keys.POOLS, [header] if returned is None else [header, returned]):
                await self._unlist(task_queue_id)
            return began + LOOK_AGAIN
        if marked is not None and began - marked < DELETED_WITHIN:
            return marked + DELETED_WITHIN
        if marked is None and began - used < unused_for:
            return used + unused_for
        if await self._has_runs(task_queue_id):
            return began + LOOK_AGAIN
        mark: dict[str, Value] = {"taskQueueId": task_queue_id, _DELETING: format_date(began), _DELETED: False}
        etag = await self._change_header(task_queue_id, Replace(keys.POOL, mark, header.etag))
        if etag is None:
            return began  # somebody uses it
        for band in PRIORITIES:
            if self._now() - began > DELETED_WITHIN / 2:
                return began + DELETED_WITHIN
            await self._queues.drop(pending_queue(task_queue_id, band))
        await self._change_header(task_queue_id, Merge(keys.POOL, {_DELETED: True}, etag))
        return began + LOOK_AGAIN

    async def _unlist(self, task_queue_id: str) -> None:
        """Removes the pool's row from the directory, unless the pool is listed there: nothing is left to check. Every
        user of the pool writes the header first, then the row. So the header is read after the row. If it says that the
        pool is not in use, whoever uses it now will change the row before its deletion, or create it again."""
        key = keys.listed(task_queue_id)
        row = await self._tables.get_row(keys.DIRECTORY, keys.POOL, key)
        header = await self._header(task_queue_id)
        if row is None or "expires" in row.values or (header is not None and not header.values.get(_DELETED)):
            return
        if await self._has_runs(task_queue_id):
            return
        await try_transact(self._tables, keys.DIRECTORY, keys.POOL, [Delete(key, row.etag)])

    async def _has_runs(self, task_queue_id: str) -> bool:
        start, end = keys.CLAIMED_AND_PENDING
        rows = await self._tables.query(keys.POOLS, keys.pool(task_queue_id), start=start, end=end, limit=1, select=())
        return bool(rows.rows)

    async def _used(self, task_queue_id: str, header: Row | None = None) -> Row | None:
        """Returns the header, after it was noted there that the pool is in use; None for a new pool. Raises
        StorageUnavailable while its queues are being deleted."""
        waited = 0
        while True:
            header = header or await self._header(task_queue_id)
            if header is None:
                return None
            now = self._now()
            marked = _moment(header, _DELETING)
            if marked is not None and now - marked < DELETED_WITHIN:
                if waited >= WAIT_FOR_DELETION:
                    raise StorageUnavailable(f"the queues of {task_queue_id} are being deleted")
                await self._sleep(1)
                waited += 1
            elif marked is None and now - (_moment(header, _USED) or header.timestamp) < NOTED_EVERY:
                return header
            else:
                noted = Merge(keys.POOL, {_USED: format_date(now), _DELETING: "", _DELETED: False}, header.etag)
                await self._change_header(task_queue_id, noted)  # now, or after a refusal, read again
            header = None

    async def _header(self, task_queue_id: str) -> Row | None:
        return await self._tables.get_row(keys.POOLS, keys.pool(task_queue_id), keys.POOL)

    async def _change_header(self, task_queue_id: str, operation: Operation) -> str | None:
        """Changes the header and returns its new ETag; None when somebody else has changed it."""
        etags = await try_transact(self._tables, keys.POOLS, keys.pool(task_queue_id), [operation])
        return None if etags is None else etags[0]

    async def _list_pool(self, task_queue_id: str, header: Row | None, used: datetime) -> None:
        """Lists the pool by a row in the directory, so that the reconciler finds it without a scan. The header comes
        first, and a row that is there is rewritten: it may be about to be removed (`_unlist`). Listings leave the row
        out until the pool has been seen (`directory`)."""
        if header is None:
            await self.write_properties(task_queue_id, {_USED: format_date(used)})
        key, values = keys.listed(task_queue_id), {"taskQueueId": task_queue_id}
        for operation in (Create(key, values), Merge(key, {}), Create(key, values)):
            if await try_transact(self._tables, keys.DIRECTORY, keys.POOL, [operation]) is not None:
                return


_QUEUES_MADE = "queuesMade"
CHECKED_TO = "checkedTo"
_USED = "used"
_DELETING = "deleting"
_DELETED = "deleted"


def _bands(header: Row) -> tuple[Priority, ...]:
    return tuple(band for band in PRIORITIES if header.values.get(_column(band)))


def _moment(header: Row, name: str) -> datetime | None:
    text = header.values.get(name)
    return parse_date(str(text)) if text else None


def _column(priority: Priority) -> str:
    return "uses_" + priority.replace("-", "_")
