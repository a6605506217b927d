"""Reading the index rows of pools: which runs of a task queue are pending and running (design 3, contract 9).

A snapshot is read once for all who ask at the same time. Rows that have not changed prove that statuses seen before
are still current (design 11).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from shared.base import bounds, remembered
from shared.base.dates import format_date, parse_date
from shared.base.frozen import dataclass
from shared.base.memo import Memo
from shared.queue.tasks.known import KnownStatuses, Moment
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import MAX_PAGE, Row, Storage
from shared.store.partitions import rows_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """Runs of a pool."""

    pending: int
    claimed: int

    @property
    def unresolved(self) -> int:
        """Pending and claimed runs."""
        return self.pending + self.claimed


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolSnapshot:
    """Runs that have index rows: pending before their deadline, and claimed."""

    pending: int
    """The number of pending runs. They are not kept one by one, as there may be very many."""
    claimed: frozenset[tuple[str, int]]
    oldest: datetime | None = None
    """Since when the run that waits longest has been pending."""

    @property
    def rows(self) -> int:
        """How many rows were read, about."""
        return self.pending + len(self.claimed)

    @property
    def counts(self) -> Counts:
        return Counts(pending=self.pending, claimed=len(self.claimed))


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexed:
    """The index row of a run: since when it is pending, or claimed."""

    task_id: str
    run_id: int
    since: datetime
    key: str


class _Different:
    """Counts distinct runs by their hashes, of eight bytes each: a run with two rows counts once."""

    def __init__(self) -> None:
        self._hashes = [array("q") for _ in range(64)]

    def add(self, thing: tuple[str, int]) -> None:
        number = hash(thing)
        self._hashes[number % len(self._hashes)].append(number)

    def __len__(self) -> int:
        return sum(len(set(some)) for some in self._hashes)


class PoolIndex:
    """Reads index rows, 1000 a request."""

    def __init__(self, storage: Storage) -> None:
        self._tables = storage.tables

    async def snapshot(self, task_queue_id: str, now: datetime) -> PoolSnapshot:
        """Pending runs before their deadline, and claimed runs. Raises StorageUnavailable."""
        pending = _Different()
        claimed: set[tuple[str, int]] = set()
        oldest: datetime | None = None
        present = format_date(now)
        start, end = keys.CLAIMED_AND_PENDING  # claimed runs first, then pending ones by their age
        pool = keys.pool(task_queue_id)
        async for page in rows_of(self._tables, keys.POOLS, pool, start=start, end=end, select=("deadline",)):
            for row in page:
                run = _indexed(row)
                if row.key < keys.CLAIMED[1]:
                    claimed.add((run.task_id, run.run_id))
                elif str(row.values["deadline"]) > present and (run.task_id, run.run_id) not in claimed:
                    # A call that died after it committed a claim has left the run's pending row, beside the row of the
                    # claim.
                    pending.add((run.task_id, run.run_id))
                    oldest = oldest or run.since
        return PoolSnapshot(pending=len(pending), claimed=frozenset(claimed), oldest=oldest)

    async def page(
        self, kind: Literal["pending", "claimed"], task_queue_id: str, start: str, limit: int
    ) -> tuple[list[Indexed], str | None]:
        """A page of rows, oldest first, and where the next one starts. Raises StorageUnavailable."""
        end = (keys.PENDING if kind == "pending" else keys.CLAIMED)[1]
        page = await self._tables.query(
            keys.POOLS, keys.pool(task_queue_id), start=start, end=end, limit=limit, select=()
        )
        return [_indexed(row) for row in page.rows], page.resume

    async def held(
        self, task_queue_id: str, worker_group: str, worker_id: str, start: str
    ) -> tuple[list[Indexed], str | None]:
        """The runs of a worker among a page of the pool's claimed rows, and where the next page starts.

        Raises StorageUnavailable.
        """
        page = await self._tables.query(
            keys.POOLS,
            keys.pool(task_queue_id),
            start=start,
            end=keys.CLAIMED[1],
            limit=MAX_PAGE,
            select=("workerGroup", "workerId"),
        )
        held = [
            _indexed(row)
            for row in page.rows
            if (row.values["workerGroup"], row.values["workerId"]) == (worker_group, worker_id)
        ]
        return held, page.resume


def _indexed(row: Row) -> Indexed:
    _, since, task_id, run_id = row.key.split("~")
    return Indexed(task_id=task_id, run_id=int(run_id), since=parse_date(since), key=row.key)


COPY_LASTS = timedelta(seconds=1)
"""How old a kept copy of a large pool's index may be."""


class PoolSnapshots:
    """Reads a pool's index, one reading at a time.

    Callers that come during a reading wait for the next one and share it. So every answer was read after the question
    came. The answer for a large pool may be a copy that is a second older.
    """

    def __init__(self, index: PoolIndex, runtime: Runtime) -> None:
        self._index = index
        self._now = runtime.now
        self._readings: Memo[str, PoolSnapshot] = Memo(remembered.POOL_READINGS)
        self._copies: dict[str, tuple[datetime, PoolSnapshot]] = {}
        """For large pools: when the reading began, and what it found; in the order in which the readings ended."""

    async def of_pool(self, task_queue_id: str) -> PoolSnapshot:
        """What has rows. Raises StorageUnavailable."""
        return await self._readings.read_anew(task_queue_id, lambda: self._read(task_queue_id))

    async def _read(self, task_queue_id: str) -> PoolSnapshot:
        began = self._now()
        while self._copies and began - self._copies[first := next(iter(self._copies))][0] > COPY_LASTS:
            del self._copies[first]
        copy = self._copies.get(task_queue_id)
        if copy is not None and began - copy[0] <= COPY_LASTS:
            return copy[1]
        found = await self._index.snapshot(task_queue_id, began)
        self._copies.pop(task_queue_id, None)
        if found.rows >= bounds.LARGE_POOL:
            self._copies[task_queue_id] = began, found
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Vouchers:
    """Index rows of a pool's runs that were scheduled or claimed at `since` or later."""

    since: datetime
    begun: Moment
    seen: Moment
    """A moment after the last of the reads."""
    pending: Mapping[tuple[str, int], str]
    """ETags of the rows of pending runs."""
    indexed: frozenset[str] | None
    """The tasks that have a row, of whatever state; None if that is not known."""
    is_complete: bool
    """False where there were more pages than could be read."""


class PoolVouchers:
    """Reads vouchers, 1000 index rows a request."""

    def __init__(self, storage: Storage, known: KnownStatuses) -> None:
        self._tables = storage.tables
        self._known = known

    async def read(self, task_queue_id: str, since: datetime, most: int, *, with_claimed: bool) -> Vouchers:
        """Reads at most `most` pages. `with_claimed` also reads the rows of claimed runs, so that tasks without any
        index row are known.

        Pending rows are read before claimed ones, so a run that is claimed in between is seen twice. A run that becomes
        pending in between would be missed, but that changes the ETag of the row `keys.RETURNED`. Raises
        StorageUnavailable.
        """
        begun = self._known.begin()
        first_pending, first_claimed = keys.indexed_since(since)
        returns = await self._returns(task_queue_id) if with_claimed else ""
        pending, left = await self._range(task_queue_id, first_pending, keys.PENDING[1], most)
        indexed: frozenset[str] | None = None
        if with_claimed and left > 0:
            claimed, left = await self._range(task_queue_id, first_claimed, keys.CLAIMED[1], left)
            if left > 0 and returns == await self._returns(task_queue_id):
                indexed = frozenset(task_id for task_id, _ in (*pending, *claimed))
        return Vouchers(
            since=since,
            begun=begun,
            seen=self._known.begin(),
            pending=pending,
            indexed=indexed,
            is_complete=left > 0,
        )

    async def _range(
        self, task_queue_id: str, start: str, end: str, most: int
    ) -> tuple[dict[tuple[str, int], str], int]:
        """ETags by run, and how many more pages could have been read; 0 where there are more."""
        found: dict[tuple[str, int], str] = {}
        pages = rows_of(self._tables, keys.POOLS, keys.pool(task_queue_id), start=start, end=end, select=())
        async for page in pages:
            most -= 1
            for row in page:
                _, _, task_id, run_id = row.key.split("~")
                found[task_id, int(run_id)] = row.etag
            if most == 0:
                break
        return found, most + 1 if pages.resume is None else 0

    async def _returns(self, task_queue_id: str) -> str:
        row = await self._tables.get(keys.POOLS, keys.pool(task_queue_id), keys.RETURNED)
        return "" if row is None else row.etag
