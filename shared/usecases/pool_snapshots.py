"""Which runs of a pool have index rows, read once for all who ask at the same time."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.joint import Joint
from shared.recent import Recent
from shared.runtime import Runtime
from shared.storage.pool_index import PoolIndex, PoolSnapshot

LARGE = 200
"""Rows from which on a pool is answered from a copy: reading them takes long, and many ask for large pools."""
COPY_LASTS = timedelta(seconds=1)
"""How old such a copy may be."""
MOST_COPIES = 1000
"""Large pools of which a process keeps what it has read."""


class PoolSnapshots:
    """Reads a pool's index, by one reader at a time.

    Who comes while another reads waits for the next reading, which all who have come by then share. So an answer is as
    of a moment after the question; except for a large pool, where it may be a second older.
    """

    def __init__(self, index: PoolIndex, runtime: Runtime) -> None:
        self._index = index
        self._now = runtime.now
        self._readings: Joint[str, PoolSnapshot] = Joint()
        self._copies: Recent[str, tuple[datetime, PoolSnapshot]] = Recent(MOST_COPIES)
        """Of large pools: when the reading began, and what it found."""

    async def of_pool(self, task_queue_id: str) -> PoolSnapshot:
        """What has rows. Raises StorageUnavailable."""
        return await self._readings.read(task_queue_id, lambda: self._read(task_queue_id))

    async def _read(self, task_queue_id: str) -> PoolSnapshot:
        began, copy = self._now(), self._copies.get(task_queue_id)
        if copy is not None and began - copy[0] <= COPY_LASTS:
            return copy[1]
        found = await self._index.snapshot(task_queue_id, began)
        if found.rows >= LARGE:
            self._copies[task_queue_id] = began, found
        else:
            self._copies.pop(task_queue_id)
        return found
