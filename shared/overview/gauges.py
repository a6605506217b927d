"""Gauges, which are read from storage, and which task queues wait for workers (contract 2.5, design 10)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from shared.auth.clients.ending import EndingCredentials, RefusedCredentials
from shared.base import bounds
from shared.base.concurrency import in_waves, together
from shared.queue.pools.index import PoolIndex
from shared.queue.pools.states import GRACE, TaskQueueStates, Waiting, WaitingStore
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.internal_messages import EVENTS_QUEUE, INTERNAL_QUEUES
from shared.queue.tasks.messages import poison_queue
from shared.store.interface import Queues
from shared.store.partitions import PageReader
from shared.telemetry.instruments import (
    CLAIMED,
    DESIRED_WORKERS,
    EVENT_BACKLOG,
    OLDEST_PENDING,
    PENDING,
    POISON_DEPTH,
    STALLED,
    Instrument,
)

FRESH = timedelta(seconds=10)
"""How old gauges must be before they are read again."""
OF_POOLS = (PENDING, CLAIMED, OLDEST_PENDING, DESIRED_WORKERS, STALLED)
"""The gauges with a value for each task queue. They cover the task queues of the latest reading."""
NOTED_EVERY = timedelta(minutes=5)
"""How often it is noted in storage which task queues wait for workers."""


@dataclass(eq=False)
class Gauges:
    """Keeps the meter's gauges up to date: one small read for each task queue, and one for each internal queue.
    Bounded: where there are very many task queues, those without tasks are looked at in turn."""

    _stores: Stores
    _index: PoolIndex
    _states: TaskQueueStates
    _queues: Queues
    _ending: EndingCredentials
    _refused: RefusedCredentials
    _waiting: WaitingStore
    _busy: dict[str, float] = field(default_factory=dict)
    """Task queues that had tasks at the latest reading, each with the seconds for which its oldest pending task has
    waited although nothing takes tasks; 0 where tasks run."""
    _next: str | None = None
    """The key in the directory at which the next refresh continues."""

    def __post_init__(self) -> None:
        now, self._meter = self._stores.runtime.now(), self._stores.runtime.meter
        self._noted, self._read = now - NOTED_EVERY, now - 2 * FRESH

    async def refresh(self) -> None:
        """Reads the gauges unless that has just been done. Raises StorageUnavailable."""
        now = self._stores.runtime.now()
        if now - self._read < FRESH:
            return

        async def depth(gauge: Instrument, queue: str, *labels: str) -> None:
            self._meter.set(gauge, await self._queues.length(queue), *labels)

        credentials = (self._ending.measure(), self._refused.measure())
        poison = (depth(POISON_DEPTH, poison_queue(queue), queue) for queue in INTERNAL_QUEUES)
        await together(self._pools(), depth(EVENT_BACKLOG, EVENTS_QUEUE), *credentials, *poison)
        self._read = now

    async def note_waiting(self) -> None:
        """Notes which task queues wait for workers, every five minutes, for `health`. Raises StorageUnavailable."""
        now = self._stores.runtime.now()
        if now - self._noted < NOTED_EVERY:
            return
        await self.refresh()
        longest = sorted((name for name, age in self._busy.items() if age), key=lambda name: (-self._busy[name], name))
        await self._waiting.write_waiting(Waiting(task_queue_ids=tuple(longest[: bounds.STALLED_QUEUES]), time=now))
        self._noted = now

    async def _pools(self) -> None:
        chosen = dict.fromkeys(sorted(self._busy)[: bounds.MEASURED_QUEUES - bounds.MEASURED_IDLE_QUEUES])

        async def page_of_pools(start: str | None) -> tuple[list[str], str | None]:
            return await self._stores.pools.page_of_all(start, bounds.MEASURED_QUEUES - len(chosen))

        for start in dict.fromkeys((self._next, None)):  # the rest of the directory, then its beginning
            pages = PageReader(page_of_pools, start)
            async for pools in pages:
                chosen |= dict.fromkeys(pools)
                if len(chosen) >= bounds.MEASURED_QUEUES:
                    break
            self._next = pages.resume
            if len(chosen) >= bounds.MEASURED_QUEUES:
                break
        await in_waves(bounds.BACKGROUND, self._pool, chosen)
        for gauge in OF_POOLS:
            for labels in self._meter.values_of(gauge):
                if "/".join(labels) not in chosen:
                    self._meter.forget(gauge, labels)

    async def _pool(self, task_queue_id: str) -> None:
        now = self._stores.runtime.now()
        snapshot = await self._index.of_pool(task_queue_id)
        stall = await self._states.stall_of(task_queue_id, snapshot)
        counts = snapshot.counts
        age = 0.0 if snapshot.oldest is None else max((now - snapshot.oldest).total_seconds(), 0.0)
        if counts.pending or counts.claimed:
            self._busy[task_queue_id] = 0.0 if counts.claimed else age
        else:
            self._busy.pop(task_queue_id, None)
        labels = task_queue_id.split("/", 1)
        self._meter.set(PENDING, counts.pending, *labels)
        self._meter.set(CLAIMED, counts.claimed, *labels)
        self._meter.set(OLDEST_PENDING, age, *labels)
        self._meter.set(DESIRED_WORKERS, counts.pending + counts.claimed, *labels)
        self._meter.set(STALLED, stall.pending if stall is not None and stall.waited >= GRACE else 0, *labels)
