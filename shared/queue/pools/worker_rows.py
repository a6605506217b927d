"""Worker rows in their pool's partition, with the history of their quarantines (contract 8, design 3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from shared.base import bounds, remembered
from shared.base.dates import parse_date
from shared.base.frozen import dataclass, replace
from shared.base.memo import Memo
from shared.runtime import Runtime
from shared.store import interface as tables
from shared.store import keys
from shared.store.columns import Columns
from shared.store.expiring import Expiring, is_over
from shared.store.interface import MAX_OPERATIONS, MAX_PAGE, Row, Storage, TransactionRefused
from shared.store.partitions import PageReader, rows_of, try_transact

SEEN_EVERY = timedelta(minutes=30)
"""A worker that claims nothing is written this often at most (contract 8)."""
LIFE = timedelta(days=1)
"""The time for which a worker is remembered after it was seen."""
RECENT_TASKS = 20
RECENT_WAITS = 6
"""Number of latest waits that a worker's row keeps. A process finds its own last wait among them if the worker's calls
change between four processes."""
NEVER_QUARANTINED = timedelta(days=3650)
"""A new worker's quarantine ended this long ago (contract 8)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerRecord:
    """What is known of a worker. `etag` is empty for one that has no row yet."""

    task_queue_id: str
    worker_group: str
    worker_id: str
    first_claim: datetime
    last_active: datetime
    expires: datetime
    quarantine_until: datetime
    recent_tasks: tuple[tuple[str, int], ...] = ()
    """taskId and runId of the last claims, oldest first."""
    removals: int = 0
    """How often the worker was removed: calls that have read a lower number get no run any more."""
    waits: int = 0
    """The number of the worker's newest wait: waits that have read a lower one since they began get no run any more."""
    waits_in: str = ""
    """The process in which the worker's newest wait is. It ends older ones in that process without reading this row."""
    may_repeat: bool = False
    """Whether the newest wait may have ended with an answer after which the client repeats the call (contract 5.1)."""
    recent_waits: tuple[float, ...] = ()
    """When the last calls that were noted began, oldest first, in seconds since the epoch. By these a process guesses
    which answer tells the worker soonest of work; which call gets a run they do not decide."""
    etag: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Names the worker: its task queue, its group and its id."""
        return self.task_queue_id, self.worker_group, self.worker_id

    def is_quarantined(self, now: datetime) -> bool:
        return self.quarantine_until > now

    def admits(self, removals: int, wait: int | None, process: str, now: datetime) -> bool:
        """Returns whether the worker may be given a run in a call of that process, which has read `removals` when it
        came, and the number `wait` since, if any. A row read before is older than the call's wait, and never
        written."""
        is_latest = wait is None or self.waits <= wait or process == self.waits_in
        return is_latest and removals == self.removals and not self.is_quarantined(now)

    def claimed(self, tasks: Sequence[tuple[str, int]], now: datetime) -> WorkerRecord:
        """Returns the record of a worker that has just claimed these runs; a run is noted once."""
        new = [task for task in tasks if task not in self.recent_tasks]
        return replace(
            self,
            last_active=now,
            expires=max(self.expires, now + LIFE),
            recent_tasks=(*self.recent_tasks, *new)[-RECENT_TASKS:],
            may_repeat=self.may_repeat and not tasks,
        )

    def waiting(self, began: datetime, process: str, *, may_repeat: bool = False) -> WorkerRecord:
        """Returns the record of a worker whose newest wait, which began at `began`, is in that process."""
        recent = (*self.recent_waits, began.timestamp())[-RECENT_WAITS:]
        if process == self.waits_in:
            return self if began.timestamp() in self.recent_waits else replace(self, recent_waits=recent)
        return replace(self, waits=self.waits + 1, waits_in=process, may_repeat=may_repeat, recent_waits=recent)

    def repeated_by(self, began: datetime, process: str, wait: timedelta) -> datetime | None:
        """Returns when the call began that a call of `process`, which began at `began`, may repeat: one to another
        process that ended before its `wait` was over. None if it repeats no call."""
        if not self.may_repeat or self.waits_in == process:
            return None
        last = datetime.fromtimestamp(self.recent_waits[-1], UTC)
        return last if timedelta(0) < began - last < wait else None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerCounts:
    """How many workers of a pool are known, as they have not expired or are in quarantine, and how many are in it."""

    known: int
    quarantined: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Quarantine:
    """An entry of the history of quarantines: who set which end, when and why."""

    client_id: str
    updated: datetime
    until: datetime
    info: str
    entry_id: str
    """Id of the entry, chosen by the call that made it, which recognises its own entry by it."""

    def repeats(self, last: Quarantine) -> bool:
        """Returns whether this quarantine has the same author, end and reason as the one before it."""
        return (self.client_id, self.until, self.info) == (last.client_id, last.until, last.info)


class WorkerStore:
    """Reads worker rows, remembered for a short while, and writes them."""

    def __init__(self, storage: Storage, runtime: Runtime) -> None:
        self._tables = storage.tables
        self._now = runtime.now
        self._known: Memo[tuple[str, str, str], WorkerRecord] = Memo(remembered.WORKERS, self._now)

    async def known(self, task_queue_id: str, worker_group: str, worker_id: str) -> WorkerRecord:
        """Returns the worker, as it is or as it would be written first; up to 30 s old."""
        key = task_queue_id, worker_group, worker_id
        return self._known.get(key) or await self.read_worker(*key)

    async def read_worker(self, task_queue_id: str, worker_group: str, worker_id: str) -> WorkerRecord:
        """Returns a worker as it is now: one request."""
        record = await self.existing(task_queue_id, worker_group, worker_id)
        if record is None:
            now = self._now()
            record = WorkerRecord(
                task_queue_id=task_queue_id,
                worker_group=worker_group,
                worker_id=worker_id,
                first_claim=now,
                last_active=now,
                expires=now + LIFE,
                quarantine_until=now - NEVER_QUARANTINED,
            )
            self._known[record.key] = record
        return record

    async def existing(self, task_queue_id: str, worker_group: str, worker_id: str) -> WorkerRecord | None:
        """Returns the worker as it is now, None if it has no row: one request."""
        row = await self._tables.get_row(keys.POOLS, keys.pool(task_queue_id), keys.worker(worker_group, worker_id))
        if row is None:
            return None
        record = _decode(row)
        self._known[record.key] = record
        return record

    async def pool_page(self, task_queue_id: str, start: str, limit: int) -> tuple[list[WorkerRecord], str | None]:
        """Returns a page of a pool's workers, expired ones included, and where the next one starts."""
        page = await self._tables.query(
            keys.POOLS, keys.pool(task_queue_id), start=start, end=keys.WORKERS[1], limit=limit
        )
        return [_decode(row) for row in page.rows], page.resume

    def pages(self, task_queue_id: str) -> PageReader[WorkerRecord]:
        """Returns a reader of all workers of a pool, expired ones included, page after page."""
        return PageReader(lambda at: self.pool_page(task_queue_id, at or keys.WORKERS[0], MAX_PAGE))

    async def counted(self, task_queue_id: str) -> WorkerCounts:
        """Returns the number of the pool's workers that are known, counting only the first thousand rows."""
        page = await self._tables.query(
            keys.POOLS, keys.pool(task_queue_id), start=keys.WORKERS[0], end=keys.WORKERS[1], select=_COUNTED
        )
        now = self._now()
        alive = quarantined = 0
        for row in page.rows:
            expires, until = (parse_date(str(row.values[name])) for name in _COUNTED)
            alive += expires > now or until > now
            quarantined += until > now
        return WorkerCounts(known=alive, quarantined=quarantined)

    def latest(self, record: WorkerRecord) -> WorkerRecord:
        """Returns the latest version of the worker's record that this process has seen, without a request."""
        return self._known.peek(record.key) or record

    async def read_again(self, record: WorkerRecord) -> WorkerRecord:
        """Returns the worker as it is now. Raises StorageUnavailable."""
        return await self.read_worker(*record.key)

    def was_seen(self, task_queue_id: str, worker_group: str, worker_id: str) -> bool:
        """Returns whether this process knows, without a request, that the worker was recently noted as seen."""
        known = self._known.peek((task_queue_id, worker_group, worker_id))
        return known is not None and not self.is_due(known)

    def is_due(self, record: WorkerRecord) -> bool:
        """Returns whether a worker that has claimed nothing should be written as seen."""
        seen, left = self._now() - record.last_active, record.expires - self._now()
        return not record.etag or seen >= SEEN_EVERY or left <= LIFE - SEEN_EVERY

    def writing(self, record: WorkerRecord) -> tables.Operation:
        """Returns the operation that writes the worker, on condition that no one has written it since it was read."""
        key = keys.worker(record.worker_group, record.worker_id)
        values = _COLUMNS.encode(record)
        return tables.Replace(key, values, record.etag) if record.etag else tables.Create(key, values)

    def written(self, record: WorkerRecord, etag: str) -> WorkerRecord:
        """Remembers the record that was written."""
        written = replace(record, etag=etag)
        self._known[written.key] = written
        return written

    async def write_worker(self, record: WorkerRecord, *beside: tables.Operation) -> WorkerRecord | None:
        """Writes a worker's row, in one transaction with `beside`; None if the row has changed since it was read."""
        operations = [self.writing(record), *beside]
        etags = await try_transact(self._tables, keys.POOLS, keys.pool(record.task_queue_id), operations)
        return None if etags is None else self.written(record, etags[0])

    async def quarantine(self, record: WorkerRecord, entry: Quarantine) -> WorkerRecord | None:
        """Writes a worker's row as `write_worker` does, with an entry of its history."""
        key = keys.quarantine(record.worker_group, record.worker_id, entry.updated, entry.entry_id)
        return await self.write_worker(record, tables.Create(key, QUARANTINE_COLUMNS.encode(entry)))

    async def history(self, task_queue_id: str, worker_group: str, worker_id: str) -> list[Quarantine]:
        """Returns the latest entries of a worker's history, oldest first: one request."""
        start, end = keys.quarantines(worker_group, worker_id)
        page = await self._tables.query(
            keys.POOLS, keys.pool(task_queue_id), start=start, end=end, limit=bounds.QUARANTINES_SHOWN
        )
        rows = reversed(page.rows)
        return [QUARANTINE_COLUMNS.decode(row.values, entry_id=row.key.rsplit("~", 1)[1]) for row in rows]

    async def expire(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes a worker once its row and its quarantine have expired. Returns when it is due again, if ever."""
        *_, worker_group, worker_id = expiring.words
        record = await self.existing(str(expiring.values["taskQueueId"]), worker_group, worker_id)
        if record is None:
            return None
        expires = max(record.expires, record.quarantine_until)
        if not is_over(expires, self._now()):
            return expires
        return None if await self.remove_worker(record) else self._now()

    async def remove_worker(self, record: WorkerRecord) -> bool:
        """Removes a worker with its history, unless it has been written since: False."""
        partition, key = keys.pool(record.task_queue_id), keys.worker(record.worker_group, record.worker_id)
        start, end = keys.quarantines(record.worker_group, record.worker_id)
        pages = rows_of(self._tables, keys.POOLS, partition, start=start, end=end, select=())
        history, etag = [row.key async for page in pages for row in page], record.etag
        room = MAX_OPERATIONS - 1
        try:
            while len(history) > room:
                operations: list[tables.Operation] = [
                    tables.Merge(key, {}, etag),
                    *(tables.Delete(entry) for entry in history[-room:]),
                ]
                etag = (await self._tables.transact(keys.POOLS, partition, operations))[0]
                del history[-room:]
            operations = [tables.Delete(key, etag), *(tables.Delete(entry) for entry in history)]
            await self._tables.transact(keys.POOLS, partition, operations)
        except TransactionRefused:
            return False
        return True


_COUNTED = ("expires", "quarantineUntil")
_COLUMNS = Columns(WorkerRecord, without={"etag"}, renamed={"last_active": "lastDateActive"})
QUARANTINE_COLUMNS = Columns(
    Quarantine,
    without={"entry_id"},
    renamed={"updated": "updatedAt", "until": "quarantineUntil", "info": "quarantineInfo"},
)
"""The columns of an entry of the history. They have the names of the answer's properties."""


def _decode(row: Row) -> WorkerRecord:
    return _COLUMNS.decode(row.values, etag=row.etag)
