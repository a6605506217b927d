"""Gauges that are read from storage, and so are the same in every process."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from shared.concurrency import in_waves, together
from shared.domain.history import Figures
from shared.domain.scaling import desired
from shared.storage.interface import Queues
from shared.storage.internal_messages import EVENTS_QUEUE, INTERNAL_QUEUES
from shared.storage.messages import poison_queue
from shared.storage.partitions import PageReader
from shared.telemetry.instruments import (
    CLAIMED,
    DESIRED_WORKERS,
    EVENT_BACKLOG,
    OLDEST_PENDING,
    PENDING,
    POISON_DEPTH,
    STALLED,
)
from shared.usecases.credentials import EndingCredentials, RefusedCredentials
from shared.usecases.executor import Stores
from shared.usecases.pool_snapshots import PoolSnapshots
from shared.usecases.stalls import GRACE, Stalls

WIDTH = 16
"""Task queues at a time."""
FRESH = timedelta(seconds=10)
"""Gauges are not read again before that."""
MOST = 500
"""Task queues that one refresh reads: those that had tasks the last time, then the others in turn."""
OF_POOLS = (PENDING, CLAIMED, OLDEST_PENDING, DESIRED_WORKERS, STALLED)
"""The gauges that have a value for each task queue. They are of those that were read last, so at most MOST."""
IN_TURN = 100
"""Slots of each refresh reserved for rotating through idle task queues."""


class Gauges:
    """Keeps the meter's gauges up to date: a small read a task queue, one an internal queue.

    Bounded: where there are very many task queues, those without tasks are looked at in turn.
    """

    def __init__(
        self,
        stores: Stores,
        snapshots: PoolSnapshots,
        stalls: Stalls,
        queues: Queues,
        ending: EndingCredentials,
        refused: RefusedCredentials,
    ) -> None:
        self._stores = stores
        self._snapshots = snapshots
        self._stalls = stalls
        self._busy: dict[str, Figures] = {}
        """Task queues that had tasks when they were read last."""
        self._next: str | None = None
        """Where in the directory the next refresh goes on."""
        self._queues = queues
        self._ending = ending
        self._refused = refused
        self._meter = stores.runtime.meter
        self._read = stores.runtime.now() - 2 * FRESH

    async def refresh(self) -> None:
        """Reads them unless that has just been done. Raises StorageUnavailable."""
        now = self._stores.runtime.now()
        if now - self._read < FRESH:
            return
        credentials = (self._ending.measure(), self._refused.measure())
        await together(self._pools(), self._backlog(), *credentials, *map(self._poison, INTERNAL_QUEUES))
        self._read = now

    @property
    def loads(self) -> Mapping[str, Figures]:
        """What waits and runs in the task queues that had tasks when they were read last."""
        return self._busy

    async def _pools(self) -> None:
        chosen = dict.fromkeys(sorted(self._busy)[: MOST - IN_TURN])

        async def read(start: str | None) -> tuple[list[str], str | None]:
            return await self._stores.pools.known(start, MOST - len(chosen))

        for start in dict.fromkeys((self._next, None)):  # on from there, then from the beginning
            pages = PageReader(read, start)
            async for pools in pages:
                chosen |= dict.fromkeys(pools)
                if len(chosen) >= MOST:
                    break
            self._next = pages.resume
            if len(chosen) >= MOST:
                break
        await in_waves(WIDTH, self._pool, chosen)
        for gauge in OF_POOLS:
            for labels in self._meter.of(gauge):
                if "/".join(labels) not in chosen:
                    self._meter.forget(gauge, labels)

    async def _pool(self, task_queue_id: str) -> None:
        now = self._stores.runtime.now()
        snapshot = await self._snapshots.of_pool(task_queue_id)
        stall = await self._stalls.of(task_queue_id, snapshot)
        counts = snapshot.counts
        age = 0.0 if snapshot.oldest is None else max((now - snapshot.oldest).total_seconds(), 0.0)
        if counts.pending or counts.claimed:
            self._busy[task_queue_id] = Figures(pending=counts.pending, claimed=counts.claimed, oldest=int(age))
        else:
            self._busy.pop(task_queue_id, None)
        labels = task_queue_id.split("/", 1)
        self._meter.set(PENDING, counts.pending, *labels)
        self._meter.set(CLAIMED, counts.claimed, *labels)
        self._meter.set(OLDEST_PENDING, age, *labels)
        self._meter.set(DESIRED_WORKERS, desired(counts.unresolved), *labels)
        self._meter.set(STALLED, stall.pending if stall is not None and stall.waited >= GRACE else 0, *labels)

    async def _backlog(self) -> None:
        self._meter.set(EVENT_BACKLOG, await self._queues.length(EVENTS_QUEUE))

    async def _poison(self, queue: str) -> None:
        self._meter.set(POISON_DEPTH, await self._queues.length(poison_queue(queue)), queue)
