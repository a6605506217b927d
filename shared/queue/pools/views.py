"""Pools: what waits and runs in them, exact as of now (contract 9)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shared.base import bounds
from shared.base.concurrency import Lookups, both, together
from shared.base.frozen import dataclass, replace
from shared.queue.pools.index import Counts, PoolIndex, PoolSnapshot
from shared.queue.pools.rows import IndexRow
from shared.queue.pools.states import Stall, TaskQueueStates
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.rows import Found, Loaded
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.partitions import page_start


@dataclass(eq=False, repr=False)
class PoolViews:
    """Reads pools. An unknown pool is an empty one. All methods raise StorageUnavailable."""

    _stores: Stores
    _lookups: Lookups
    _index: PoolIndex
    _states: TaskQueueStates

    def __post_init__(self) -> None:
        self._now = self._stores.runtime.now

    async def pending_count(self, task_queue_id: str) -> int:
        """Counts the index rows of pending runs: one request per thousand."""
        return (await self._index.of_pool(task_queue_id)).pending

    async def counts(self, task_queue_id: str) -> Counts:
        """Returns the counts of one pool, as `counts_of_many` does."""
        (counts,) = await self._counts([task_queue_id], [await self._index.of_pool(task_queue_id)])
        return counts

    async def load(self, task_queue_id: str) -> tuple[Counts, Stall | None]:
        """Returns the counts of one pool, and why nothing takes its tasks if that is so."""
        snapshot = await self._index.of_pool(task_queue_id)
        (counts,), stall = await both(
            self._counts([task_queue_id], [snapshot]), self._states.stall_of(task_queue_id, snapshot)
        )
        return counts, stall

    async def counts_of_many(self, task_queue_ids: Sequence[str]) -> list[tuple[str, Counts]]:
        """Returns the counts of pools, in order, from their index rows; those of a large pool may be a second old.

        The row of a reported run is removed a second or two later. If few runs are claimed, such a difference would be
        noticed, so their status rows are read. If many are claimed, it is hardly noticed, and reading them all would be
        expensive. Raises ServiceUnavailable when too many lists are read."""
        found = await self._lookups.each(self._index.of_pool, task_queue_ids)
        return list(zip(task_queue_ids, await self._counts(task_queue_ids, found), strict=True))

    async def _counts(self, task_queue_ids: Sequence[str], found: Sequence[PoolSnapshot]) -> list[Counts]:
        if sum(len(snapshot.claimed) for snapshot in found) > bounds.CLAIMED_RUNS_READ:
            return [snapshot.counts for snapshot in found]

        async def judged(task_queue_id: str, snapshot: PoolSnapshot) -> Counts:
            held = await together(*(self._is_held(task_queue_id, *run) for run in snapshot.claimed))
            return replace(snapshot.counts, claimed=sum(held))

        return await together(*map(judged, task_queue_ids, found))

    async def _is_held(self, task_queue_id: str, task_id: str, run_id: int) -> bool:
        task = await self._stores.tasks.status(task_id)
        if task is None or task.task_queue_id != task_queue_id or run_id != task.last_run_id:
            return False
        until = task.last_run.taken_until
        return task.state is State.RUNNING and until is not None and until > self._now()

    async def pending(self, task_queue_id: str, *, start: str, limit: int) -> tuple[list[Loaded], str | None]:
        """Returns a page of the tasks with a pending run, first scheduled first. Raises InputError, NoRoom."""
        return await self._list(State.PENDING, task_queue_id, start, limit)

    async def claimed(self, task_queue_id: str, *, start: str, limit: int) -> tuple[list[Loaded], str | None]:
        """Returns a page of the tasks with a running run, first claimed first. Raises InputError, NoRoom."""
        return await self._list(State.RUNNING, task_queue_id, start, limit)

    async def _list(self, wanted: State, task_queue_id: str, start: str, limit: int) -> tuple[list[Loaded], str | None]:
        within = keys.PENDING if wanted is State.PENDING else keys.CLAIMED
        start = page_start(start, within)
        if limit == 0:
            return [], None
        rows, resume = await self._stores.pools.runs(task_queue_id, limit, start, within=within)
        find, unpack = partial(self._find, task_queue_id, wanted), self._stores.tasks.unpacked
        found, rest = await self._stores.tasks.definitions.fill(rows, find, unpack)
        return found, resume if rest is None else rows[rest].key

    async def _find(self, task_queue_id: str, wanted: State, row: IndexRow) -> Found | None:
        """Returns the task of an index row, if its last run is the row's. Returns None for an outdated index row, and
        for a task of another pool, for which the caller may not be authorised."""
        found = await self._stores.tasks.find(row.task_id)
        if found is None or row.run_id != found.task.last_run_id:
            return None
        task = found.task
        if task.task_queue_id != task_queue_id:
            return None
        if task.state is not wanted or row.since != (task.last_run.started or task.last_run.scheduled):
            return None
        return None if wanted is State.PENDING and task.deadline <= self._now() else found
