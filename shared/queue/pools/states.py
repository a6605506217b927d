"""The states of task queues, and those in which tasks wait and no worker takes them (contract 2.5, 9)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Literal

from shared.base import bounds, remembered
from shared.base.concurrency import Lookups, both, in_waves
from shared.base.frozen import dataclass
from shared.base.memo import Memo
from shared.queue.pools.directory import REFRESHED_EVERY, DirectoryEntry, DirectoryKind, DirectoryStore
from shared.queue.pools.index import PoolIndex, PoolSnapshot
from shared.queue.pools.worker_rows import WorkerCounts, WorkerStore
from shared.store import keys
from shared.store.columns import Columns
from shared.store.interface import Storage, Upsert
from shared.store.partitions import page_start

_PARTITION, _KEY = "task-queues", "waiting"


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """Task queues, those in which a task has waited longest first, and when they were looked at."""

    task_queue_ids: tuple[str, ...]
    time: datetime


_COLUMNS = Columns(Waiting)


class WaitingStore:
    """Reads and writes the row of waiting task queues with one request each. Raises StorageUnavailable."""

    def __init__(self, storage: Storage) -> None:
        self._tables = storage.tables

    async def write_waiting(self, waiting: Waiting) -> None:
        """Replaces the row. A write that takes effect late is replaced by the next one."""
        await self._tables.transact(keys.HEALTH, _PARTITION, [Upsert(_KEY, _COLUMNS.encode(waiting))])

    async def latest(self) -> Waiting | None:
        """Returns what was written last; None until the timer has run for the first time."""
        row = await self._tables.get_row(keys.HEALTH, _PARTITION, _KEY)
        return None if row is None else _COLUMNS.decode(row.values)

    async def noted(self) -> datetime | None:
        """Returns when the row was written last."""
        waiting = await self.latest()
        return None if waiting is None else waiting.time


Reason = Literal["no-worker", "not-asked", "quarantined"]
ASKED_LATELY = REFRESHED_EVERY + timedelta(minutes=1)
"""A worker that keeps asking for work is noted at least this often: a wait in claimWork ends within the minute."""
GRACE = timedelta(minutes=2)
"""How long a run may wait before workers count as missing: those that poll with signed URLs are seen only when they
take one, and one that is being started needs a moment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stall:
    """A task queue whose pending runs nothing takes."""

    task_queue_id: str
    reason: Reason
    """No worker is known; none has asked for work or renewed a claim lately; or all known are in quarantine."""
    pending: int
    waited: timedelta
    """How long the task queue's oldest run has waited."""
    silent: timedelta
    """How long no worker has been seen, accurate to REFRESHED_EVERY; None if no worker is known."""

    @property
    def message(self) -> str:
        """Returns what is wrong, for people."""
        tasks = f"{self.pending:,} pending task{'' if self.pending == 1 else 's'}"
        return (
            f"No worker takes the tasks of task queue {self.task_queue_id}: {self._why}. "
            f"{tasks}, the oldest for {_minutes(self.waited)}."
        )

    @property
    def brief(self) -> str:
        """Returns what is wrong in a few words, for a list of several task queues."""
        return f"{self.task_queue_id} ({self.pending:,} pending, the oldest for {_minutes(self.waited)}; {self._why})"

    @property
    def _why(self) -> str:
        if self.reason == "no-worker":
            return "none is known"
        if self.reason == "quarantined":
            return "all that are known are in quarantine"
        return f"none has asked for work or renewed a claim for {_minutes(self.silent)}"


def _waits_alone(snapshot: PoolSnapshot) -> bool:
    """Returns whether tasks wait and none runs. If a run is claimed, some worker has claimed or renewed it recently."""
    counts = snapshot.counts
    return counts.pending > 0 and counts.claimed == 0


def _minutes(time: timedelta) -> str:
    hours, minutes = divmod(int(time.total_seconds()) // 60, 60)
    if hours >= 48:
        return f"{hours // 24} days"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else "less than a minute"


@dataclass(frozen=True, kw_only=True, slots=True)
class CurrentTaskQueue:
    """A task queue as it is now."""

    task_queue_id: str
    entry: DirectoryEntry | None
    """The entry; None if no worker has asked the task queue for work lately, and nobody has declared it."""
    snapshot: PoolSnapshot
    stall: Stall | None
    """The reason why nothing takes the tasks that wait; None if something does, or nothing waits."""
    workers: WorkerCounts


@dataclass(eq=False, repr=False)
class TaskQueueStates:
    """Lists task queues, and finds stalled ones. All methods raise StorageUnavailable."""

    _directory: DirectoryStore
    _index: PoolIndex
    _workers: WorkerStore
    _waiting: WaitingStore
    _lookups: Lookups
    _now: Callable[[], datetime]

    def __post_init__(self) -> None:
        self._counted: Memo[str, WorkerCounts] = Memo(remembered.WORKER_COUNTS, self._now)

    async def state_page(self, *, start: str, limit: int) -> tuple[list[CurrentTaskQueue], str | None]:
        """Returns a page of at most 100 task queues in the order of their ids, and the key at which the next one
        starts. Those that are neither in use nor hold a task are left out, so a page may be short. Raises InputError
        for a start outside of the listing, StorageUnavailable, ServiceUnavailable when too many lists are read."""
        first = page_start(start, keys.LISTED)
        if limit == 0:
            return [], None
        known, resume = await self._directory.page_of_all(first, min(limit, bounds.PAGE_OF_READINGS))
        found = await self._lookups.each(lambda queue: self._state(*queue), known)
        return [state for state in found if state.entry is not None or state.snapshot.rows], resume

    async def _state(self, task_queue_id: str, entry: DirectoryEntry | None) -> CurrentTaskQueue:
        snapshot, workers = await both(
            self._index.of_pool(task_queue_id),
            self._counted.read(task_queue_id, lambda: self._workers.counted(task_queue_id)),
        )
        return CurrentTaskQueue(
            task_queue_id=task_queue_id,
            entry=entry,
            snapshot=snapshot,
            stall=await self._stall(task_queue_id, snapshot, entry),
            workers=workers,
        )

    async def stall_of(self, task_queue_id: str, snapshot: PoolSnapshot) -> Stall | None:
        """Returns a task queue's stall by its index, if any. Makes no request unless tasks wait and none runs."""
        if not _waits_alone(snapshot):
            return None
        entry = await self._directory.entry(DirectoryKind.TASK_QUEUE, task_queue_id)
        return await self._stall(task_queue_id, snapshot, entry)

    async def _stall(self, task_queue_id: str, snapshot: PoolSnapshot, entry: DirectoryEntry | None) -> Stall | None:
        """Returns the stall as `stall_of` does, if its entry in the directory was read already (None: not listed)."""
        if not _waits_alone(snapshot) or snapshot.oldest is None:
            return None
        now = self._now()
        waited = now - snapshot.oldest
        silent = timedelta() if entry is None else now - entry.last_active
        reason: Reason = "no-worker"
        if entry is not None:
            if waited < GRACE:
                return None
            reason = "not-asked"
            if silent < ASKED_LATELY:
                if not await self._all_quarantined(task_queue_id, now):
                    return None
                reason = "quarantined"
        return Stall(
            task_queue_id=task_queue_id, reason=reason, pending=snapshot.counts.pending, waited=waited, silent=silent
        )

    async def stalls(self) -> list[Stall]:
        """Returns the task queues that have been stalled for GRACE, longest first. Only those are examined in which
        tasks waited and none ran when the timer looked last. So a stall is found up to five minutes late."""
        waiting = await self._waiting.latest()
        if waiting is None:
            return []

        async def look(task_queue_id: str) -> Stall | None:
            return await self.stall_of(task_queue_id, await self._index.of_pool(task_queue_id))

        found = await in_waves(bounds.POOLS_AT_A_TIME, look, waiting.task_queue_ids)
        stalls = [stall for stall in found if stall is not None and stall.waited >= GRACE]
        return sorted(stalls, key=lambda stall: (-stall.waited, stall.task_queue_id))

    async def _all_quarantined(self, task_queue_id: str, now: datetime) -> bool:
        """Returns whether workers are known and none of them may be given a run. The first that may ends the search."""
        any_known = False
        async for records in self._workers.pages(task_queue_id):
            any_known = any_known or any(record.is_quarantined(now) for record in records)
            if any(record.expires > now and not record.is_quarantined(now) for record in records):
                return False
        return any_known
