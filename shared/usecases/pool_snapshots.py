"""Which runs of a pool have index rows, read once for all who ask at the same time."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared import remembered
from shared.memo import Memo
from shared.runtime import Runtime
from shared.storage.pool_index import PoolIndex, PoolSnapshot

LARGE = 200
"""Rows from which on a pool is answered from a copy: reading them takes long, and many ask for large pools."""
COPY_LASTS = timedelta(seconds=1)
"""How old such a copy may be."""


class PoolSnapshots:
    """Reads a pool's index, by one reader at a time.

    Who comes while another reads waits for the next reading, which all who have come by then share. So an answer is as
    of a moment after the question; except for a large pool, where it may be a second older.
    """

    def __init__(self, index: PoolIndex, runtime: Runtime) -> None:
        self._index = index
        self._now = runtime.now
        self._readings: Memo[str, PoolSnapshot] = Memo(remembered.POOL_READINGS)
        self._copies: dict[str, tuple[datetime, PoolSnapshot]] = {}
        """Of large pools: when the reading began, and what it found; the one that ended first comes first."""

    async def of_pool(self, task_queue_id: str) -> PoolSnapshot:
        """What has rows. Raises StorageUnavailable."""
        return await self._readings.read_anew(task_queue_id, lambda: self._read(task_queue_id))

    async def _read(self, task_queue_id: str) -> PoolSnapshot:
        began = self._now()
        self._forget(began)
        copy = self._copies.get(task_queue_id)
        if copy is not None and began - copy[0] <= COPY_LASTS:
            return copy[1]
        found = await self._index.snapshot(task_queue_id, began)
        self._copies.pop(task_queue_id, None)
        if found.rows >= LARGE:
            self._copies[task_queue_id] = began, found
        return found

    def _forget(self, now: datetime) -> None:
        """Copies that nobody may be given any more."""
        while self._copies:
            first = next(iter(self._copies))
            if now - self._copies[first][0] <= COPY_LASTS:
                return
            del self._copies[first]
