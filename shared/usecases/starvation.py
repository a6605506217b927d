"""Bands go strictly by priority, unless a setting lets those first that have waited too long (design 4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from shared.domain.priority import Priority
from shared.runtime import Runtime
from shared.storage.pool_queues import BANDS_STALE
from shared.storage.pools import PoolStore

ROWS = 100
"""The oldest pending runs of a pool that are looked at."""


class Starvation:
    """Orders a pool's bands."""

    def __init__(self, pools: PoolStore, runtime: Runtime, patience: timedelta) -> None:
        """`patience`: how long a band's oldest run may wait until the band goes first; zero for ever."""
        self._pools = pools
        self._now = runtime.now
        self._patience = patience
        self._starving: dict[str, tuple[datetime, list[Priority]]] = {}

    async def order(self, task_queue_id: str, bands: Sequence[Priority]) -> Sequence[Priority]:
        """The bands (highest first), those that starve before the others, the one that has waited longest first.

        What starves is known for 10 s. Raises StorageUnavailable.
        """
        if not self._patience or len(bands) < 2:
            return bands
        known = self._starving.get(task_queue_id)
        if known is None or self._now() - known[0] >= BANDS_STALE:
            known = self._starving[task_queue_id] = self._now(), await self._read(task_queue_id)
        starving = [band for band in known[1] if band in bands]
        return [*starving, *(band for band in bands if band not in starving)]

    async def _read(self, task_queue_id: str) -> list[Priority]:
        rows, _ = await self._pools.pending(task_queue_id, ROWS)
        now = self._now()
        return list(dict.fromkeys(row.priority for row in rows if now - row.scheduled > self._patience))
