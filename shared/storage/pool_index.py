"""Reads the index rows of pools: which runs of a task queue are pending and running (design 3, contract 9)."""

from __future__ import annotations

from array import array
from datetime import datetime
from typing import Literal

from shared.domain.dates import format_date, parse_date
from shared.domain.effects import PoolRow
from shared.frozen import dataclass
from shared.storage import keys
from shared.storage.interface import Row, Storage
from shared.storage.partitions import rows_of

AT_ONCE = 1000
"""Claimed rows of a pool that are looked through for those of one worker, in one request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """Runs of a pool."""

    pending: int
    claimed: int

    @property
    def unresolved(self) -> int:
        """Those that wait, and those that are being worked on."""
        return self.pending + self.claimed


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolSnapshot:
    """Runs that have index rows: pending before their deadline, and claimed."""

    pending: int
    """A number: there may be very many."""
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


class _Different:
    """Counts different things in eight bytes each, by their hashes: of a run that has two rows one counts."""

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
                    # A claim that died after its commit has left its pending row, and one for the claim may be there.
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
            limit=AT_ONCE,
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
    return Indexed(task_id=task_id, run_id=int(run_id), since=parse_date(since))


def key_of(kind: Literal["pending", "claimed"], indexed: Indexed) -> str:
    """The key of an index row."""
    return f"{kind}~{format_date(indexed.since)}~{indexed.task_id}~{indexed.run_id:04d}"


def is_row_of(indexed: Indexed, row: PoolRow) -> bool:
    """Whether an index row is the one that stands for a run, given the row that should."""
    return indexed.since == (row.started or row.scheduled)
