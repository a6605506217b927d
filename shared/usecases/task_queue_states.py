"""All task queues with what waits and runs in them, those included that no worker has ever asked (contract 2.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from shared import remembered
from shared.concurrency import both
from shared.domain.history import HOURS, Figures
from shared.frozen import dataclass
from shared.memo import Memo
from shared.storage import keys
from shared.storage.directory import DirectoryStore, Entry
from shared.storage.history import HistoryStore
from shared.storage.pool_index import PoolSnapshot
from shared.storage.workers import WorkerCounts, WorkerStore
from shared.usecases.groups import page_start
from shared.usecases.pages import Lookups
from shared.usecases.pool_snapshots import PoolSnapshots
from shared.usecases.stalls import Stall, Stalls

MOST = 100
"""Task queues on a page: each costs a read of its index, and one of its workers now and then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskQueueState:
    """A task queue as it is now."""

    task_queue_id: str
    entry: Entry | None
    """None if no worker has asked it for work lately, and nobody has declared it."""
    snapshot: PoolSnapshot
    stall: Stall | None
    """Why nothing takes what waits in it; None if something does, or nothing waits."""
    workers: WorkerCounts
    waits: Figures
    """How long the runs had waited that were started in the last hour."""


class TaskQueueStates:
    """Lists task queues."""

    def __init__(
        self,
        directory: DirectoryStore,
        snapshots: PoolSnapshots,
        stalls: Stalls,
        workers: WorkerStore,
        history: HistoryStore,
        lookups: Lookups,
        now: Callable[[], datetime],
    ) -> None:
        self._directory = directory
        self._lookups = lookups
        self._snapshots = snapshots
        self._stalls = stalls
        self._workers = workers
        self._history = history
        self._now = now
        self._counted: Memo[str, WorkerCounts] = Memo(remembered.WORKER_COUNTS, now)
        self._waits: Memo[str, Mapping[str, Figures]] = Memo(remembered.WAITS, now)

    async def page(self, *, start: str, limit: int) -> tuple[list[TaskQueueState], str | None]:
        """A page of at most MOST task queues in the order of their ids, and the key at which the next one starts.

        Those that are neither in use nor hold a task are left out, so a page may be short. Raises InputError for a
        start outside of the listing, StorageUnavailable, ServiceUnavailable when too many lists are read.
        """
        first = page_start(start, keys.LISTED)
        if limit == 0:
            return [], None
        (known, resume), waits = await both(
            self._directory.known(first, min(limit, MOST)), self._waits.read("", self._waited)
        )
        found = await self._lookups.each(lambda queue: self._state(*queue, waits), known)
        return [state for state in found if state.entry is not None or state.snapshot.rows], resume

    async def _state(self, task_queue_id: str, entry: Entry | None, waits: Mapping[str, Figures]) -> TaskQueueState:
        snapshot, workers = await both(
            self._snapshots.of_pool(task_queue_id),
            self._counted.read(task_queue_id, lambda: self._workers.counted(task_queue_id)),
        )
        return TaskQueueState(
            task_queue_id=task_queue_id,
            entry=entry,
            snapshot=snapshot,
            stall=await self._stalls.of_entry(task_queue_id, snapshot, entry),
            workers=workers,
            waits=waits.get(task_queue_id, Figures()),
        )

    async def _waited(self) -> Mapping[str, Figures]:
        """By the samples of the last hour, task queue by task queue."""
        now = self._now()
        found: dict[str, Figures] = {}
        for sample in await self._history.whole("minutes", now - HOURS, now):
            for name, figures in sample.queues.items():
                found.setdefault(name, Figures()).count(figures)
        return found
