"""All task queues with what waits and runs in them, those included that no worker has ever asked (contract 2.5)."""

from __future__ import annotations

from shared.frozen import dataclass
from shared.storage import keys
from shared.storage.directory import DirectoryStore, Entry
from shared.storage.pool_index import PoolSnapshot
from shared.usecases.groups import page_start
from shared.usecases.pages import Lookups
from shared.usecases.pool_snapshots import PoolSnapshots
from shared.usecases.stalls import Stall, Stalls

MOST = 100
"""Task queues on a page: each costs a read of its index."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskQueueState:
    """A task queue as it is now."""

    task_queue_id: str
    entry: Entry | None
    """None if no worker has asked it for work lately, and nobody has declared it."""
    snapshot: PoolSnapshot
    stall: Stall | None
    """Why nothing takes what waits in it; None if something does, or nothing waits."""


class TaskQueueStates:
    """Lists task queues."""

    def __init__(self, directory: DirectoryStore, snapshots: PoolSnapshots, stalls: Stalls, lookups: Lookups) -> None:
        self._directory = directory
        self._lookups = lookups
        self._snapshots = snapshots
        self._stalls = stalls

    async def page(self, *, start: str, limit: int) -> tuple[list[TaskQueueState], str | None]:
        """A page of at most MOST task queues in the order of their ids, and the key at which the next one starts.

        Those that are neither in use nor hold a task are left out, so a page may be short. Raises InputError for a
        start outside of the listing, StorageUnavailable, ServiceUnavailable when too many lists are read.
        """
        first = page_start(start, keys.LISTED)
        if limit == 0:
            return [], None
        known, resume = await self._directory.known(first, min(limit, MOST))
        found = await self._lookups.each(lambda queue: self._state(*queue), known)
        return [state for state in found if state.entry is not None or state.snapshot.rows], resume

    async def _state(self, task_queue_id: str, entry: Entry | None) -> TaskQueueState:
        snapshot = await self._snapshots.of_pool(task_queue_id)
        stall = await self._stalls.of_entry(task_queue_id, snapshot, entry)
        return TaskQueueState(task_queue_id=task_queue_id, entry=entry, snapshot=snapshot, stall=stall)
