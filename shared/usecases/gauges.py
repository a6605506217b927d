"""What is so now, whichever process asks: read from storage, since no process knows of the others."""

from __future__ import annotations

from datetime import timedelta

from shared.concurrency import in_waves, together
from shared.storage.interface import Queues
from shared.storage.keys import PENDING as PENDING_ROWS
from shared.storage.messages import EVENTS_QUEUE, INTERNAL_QUEUES, poison_queue
from shared.storage.pool_index import PoolIndex
from shared.telemetry.instruments import CLAIMED, EVENT_BACKLOG, OLDEST_PENDING, PENDING, POISON_DEPTH
from shared.usecases.executor import Stores

WIDTH = 16
"""Task queues at a time."""
FRESH = timedelta(seconds=10)
"""Gauges are not read again before that."""


class Gauges:
    """Keeps the meter's gauges up to date: two small reads a task queue, one an internal queue."""

    def __init__(self, stores: Stores, index: PoolIndex, queues: Queues) -> None:
        self._stores = stores
        self._index = index
        self._queues = queues
        self._meter = stores.runtime.meter
        self._read = stores.runtime.now() - 2 * FRESH

    async def refresh(self) -> None:
        """Reads them unless that has just been done. Raises StorageUnavailable."""
        now = self._stores.runtime.now()
        if now - self._read < FRESH:
            return
        await together(self._pools(), self._backlog(), *(self._poison(queue) for queue in INTERNAL_QUEUES))
        self._read = now

    async def _pools(self) -> None:
        start: str | None = ""
        while start is not None:
            pools, start = await self._stores.pools.known(start)
            await in_waves(WIDTH, self._pool, pools)

    async def _pool(self, task_queue_id: str) -> None:
        now = self._stores.runtime.now()
        counts = await self._index.counts(task_queue_id, now)
        oldest, _ = await self._index.page("pending", task_queue_id, PENDING_ROWS[0], 1)
        age = max((now - oldest[0].since).total_seconds(), 0.0) if oldest and counts.pending else 0.0
        labels = task_queue_id.split("/", 1)
        self._meter.set(PENDING, counts.pending, *labels)
        self._meter.set(CLAIMED, counts.claimed, *labels)
        self._meter.set(OLDEST_PENDING, age, *labels)

    async def _backlog(self) -> None:
        self._meter.set(EVENT_BACKLOG, await self._queues.length(EVENTS_QUEUE))

    async def _poison(self, queue: str) -> None:
        self._meter.set(POISON_DEPTH, await self._queues.length(poison_queue(queue)), queue)
