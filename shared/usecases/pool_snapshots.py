"""Which runs of a pool have index rows, read once for all who ask at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.runtime import Runtime
from shared.storage.pool_index import PoolIndex, PoolSnapshot

LARGE = 200
"""Rows from which on a pool is answered from a copy: reading them takes long, and many ask for large pools."""
COPY_LASTS = timedelta(seconds=1)
"""How old such a copy may be."""
MOST_COPIES = 1000
"""Pools of which a process keeps what it has read."""


@dataclass(eq=False)
class _Pool:
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    turn: int = 0
    """Which of all readings was the latest of this pool."""
    read: datetime | None = None
    """When that reading began."""
    found: PoolSnapshot | None = None
    waiting: int = 0


class PoolSnapshots:
    """Reads a pool's index, by one reader at a time.

    Who comes while another reads waits for the next reading, which all who have come by then share. So an answer is as
    of a moment after the question; except for a large pool, where it may be a second older.
    """

    def __init__(self, index: PoolIndex, runtime: Runtime) -> None:
        self._index = index
        self._now = runtime.now
        self._pools: dict[str, _Pool] = {}
        self._turns = 0

    async def of_pool(self, task_queue_id: str) -> PoolSnapshot:
        """What has rows. Raises StorageUnavailable."""
        pool = self._pools.setdefault(task_queue_id, _Pool())
        asked = self._turns
        pool.waiting += 1
        try:
            async with pool.reading:
                if pool.found is None or not (pool.turn > asked or self._is_fresh(pool)):
                    self._turns += 1
                    turn, began = self._turns, self._now()
                    pool.found = await self._index.snapshot(task_queue_id, began)
                    pool.turn, pool.read = turn, began
                return pool.found
        finally:
            pool.waiting -= 1
            self._forget()

    def _is_fresh(self, pool: _Pool) -> bool:
        if pool.read is None or pool.found is None or pool.found.rows < LARGE:
            return False
        return self._now() - pool.read <= COPY_LASTS

    def _forget(self) -> None:
        """Keeps what somebody waits for, and large pools that were read just now."""
        if len(self._pools) > MOST_COPIES:
            self._pools = {name: pool for name, pool in self._pools.items() if pool.waiting or self._is_fresh(pool)}
