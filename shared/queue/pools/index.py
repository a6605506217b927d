"""Reading the index rows of pools: which runs of a task queue are pending and running (design 3, contract 9)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from datetime import datetime

from shared.base import bounds, remembered
from shared.base.dates import format_date, parse_date
from shared.base.frozen import dataclass
from shared.base.memo import Memo
from shared.queue.tasks.rules import Worker
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import Row, Storage
from shared.store.partitions import rows_of

Run = tuple[str, int]
"""The task and the run of an index row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """Numbers of runs in a pool."""

    pending: int
    claimed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolSnapshot:
    """Runs that have index rows: pending before their deadline, and claimed."""

    pending: int
    """The number of pending runs. They are not kept one by one, as there may be very many."""
    claimed: frozenset[Run]
    oldest: datetime | None = None
    """Since when the run that waits longest has been pending."""

    @property
    def rows(self) -> int:
        """The approximate number of rows that were read."""
        return self.pending + len(self.claimed)

    @property
    def counts(self) -> Counts:
        return Counts(pending=self.pending, claimed=len(self.claimed))


class _Different:
    """Counts distinct runs by their hashes, of eight bytes each: a run with two rows counts once."""

    def __init__(self) -> None:
        self._hashes = [array("q") for _ in range(64)]

    def add(self, thing: Run) -> None:
        number = hash(thing)
        self._hashes[number % len(self._hashes)].append(number)

    def __len__(self) -> int:
        return sum(len(set(some)) for some in self._hashes)


class PoolIndex:
    """Reads index rows, 1000 a request. All methods raise StorageUnavailable."""

    def __init__(self, storage: Storage, runtime: Runtime) -> None:
        self._tables = storage.tables
        self._now = runtime.now
        self._readings: Memo[str, PoolSnapshot] = Memo(remembered.POOL_READINGS)
        self._copies: Memo[str, PoolSnapshot] = Memo(remembered.POOL_COPIES, runtime.now)

    async def of_pool(self, task_queue_id: str) -> PoolSnapshot:
        """Returns a snapshot of a pool's index. Callers that come during a reading wait for the next one and share it,
        so every answer was read after the question came. That for a large pool may be a second older."""
        return await self._readings.read_anew(task_queue_id, lambda: self._copy_or_snapshot(task_queue_id))

    async def _copy_or_snapshot(self, task_queue_id: str) -> PoolSnapshot:
        if (copy := self._copies.get(task_queue_id)) is not None:
            return copy
        began = self._now()
        found = await self.snapshot(task_queue_id, began)
        if found.rows >= bounds.LARGE_POOL:
            self._copies.put(task_queue_id, found, read=began)
        return found

    async def snapshot(self, task_queue_id: str, now: datetime) -> PoolSnapshot:
        """Returns the pending runs before their deadline, and the claimed runs."""
        pending = _Different()
        claimed: set[Run] = set()
        oldest: datetime | None = None
        present = format_date(now)
        start, end = keys.CLAIMED_AND_PENDING  # claimed runs first, then pending ones by their age
        pool = keys.pool(task_queue_id)
        async for page in rows_of(self._tables, keys.POOLS, pool, start=start, end=end, select=("deadline",)):
            for row in page:
                run = _run_of(row)
                if row.key < keys.CLAIMED[1]:
                    claimed.add(run)
                elif str(row.values["deadline"]) > present and run not in claimed:
                    # A call that died after it committed a claim has left the run's pending row, beside the row of the
                    # claim.
                    pending.add(run)
                    oldest = oldest or parse_date(row.key.split("~")[1])
        return PoolSnapshot(pending=len(pending), claimed=frozenset(claimed), oldest=oldest)

    async def held(self, task_queue_id: str, worker: Worker, start: str) -> tuple[list[Run], str | None]:
        """Returns a worker's runs in a page of the pool's claimed rows, and where the next starts."""
        pool, columns = keys.pool(task_queue_id), ("workerGroup", "workerId")
        page = await self._tables.query(keys.POOLS, pool, start=start, end=keys.CLAIMED[1], select=columns)
        named = worker.worker_group, worker.worker_id
        return [
            _run_of(row) for row in page.rows if (row.values["workerGroup"], row.values["workerId"]) == named
        ], page.resume

    async def etags(
        self, task_queue_id: str, since: datetime, most: int, *, with_claimed: bool
    ) -> tuple[Mapping[Run, str], frozenset[str] | None]:
        """Returns the ETags of the rows of runs that are pending since that time or later, by run; if they take no more
        than `most` pages, `with_claimed` also the tasks that have any row of a run that was scheduled or claimed since.
        Rows that have not changed prove that statuses seen before are still current (design 11).

        Pending rows are read before claimed ones, so a run that is claimed in between is seen twice. A run that becomes
        pending in between would be missed: that changes the ETag of `keys.RETURNED`."""
        first_pending, first_claimed = keys.indexed_since(since)
        returns = await self._returns(task_queue_id) if with_claimed else ""
        pending, left = await self._range(task_queue_id, first_pending, keys.PENDING[1], most)
        if with_claimed and left > 0:
            claimed, left = await self._range(task_queue_id, first_claimed, keys.CLAIMED[1], left)
            if left > 0 and returns == await self._returns(task_queue_id):
                return pending, frozenset(task_id for task_id, _ in (*pending, *claimed))
        return pending, None

    async def _range(self, task_queue_id: str, start: str, end: str, most: int) -> tuple[dict[Run, str], int]:
        """Returns ETags by run, and how many more pages could have been read; 0 if there are more rows."""
        found: dict[Run, str] = {}
        pages = rows_of(self._tables, keys.POOLS, keys.pool(task_queue_id), start=start, end=end, select=())
        async for page in pages:
            most -= 1
            for row in page:
                found[_run_of(row)] = row.etag
            if most == 0:
                break
        return found, most + 1 if pages.resume is None else 0

    async def _returns(self, task_queue_id: str) -> str:
        row = await self._tables.get_row(keys.POOLS, keys.pool(task_queue_id), keys.RETURNED)
        return "" if row is None else row.etag


def _run_of(row: Row) -> Run:
    """Returns the task and the run of an index row."""
    _, _, task_id, run_id = row.key.split("~")
    return task_id, int(run_id)
