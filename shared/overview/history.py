"""Gauges, which are read from storage, and the history of the service (contract 2.5).

Each process counts, the timer takes samples, and the console reads them (design 10).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

from shared.auth.clients.ending import EndingCredentials, RefusedCredentials
from shared.base import bounds
from shared.base.concurrency import in_waves, together
from shared.queue.pools.index import PoolSnapshots
from shared.queue.pools.load import (
    HOURS,
    MINUTES,
    Figures,
    HistoryStore,
    SampleKind,
    ceiling,
    class_of,
    floor,
    sampled,
    summed_up,
)
from shared.queue.pools.states import GRACE, Stalls
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.internal_messages import EVENTS_QUEUE, INTERNAL_QUEUES
from shared.queue.tasks.messages import poison_queue
from shared.runtime import Runtime
from shared.store.interface import Queues, StorageUnavailable
from shared.store.partitions import PageReader
from shared.telemetry.instruments import (
    CLAIMED,
    COMPLETED,
    DESIRED_WORKERS,
    EVENT_BACKLOG,
    EXCEPTION,
    FAILED,
    OLDEST_PENDING,
    PENDING,
    POISON_DEPTH,
    STALLED,
    WAITING,
    Instrument,
)
from shared.telemetry.meter import Labels

FRESH = timedelta(seconds=10)
"""How old gauges must be before they are read again."""
OF_POOLS = (PENDING, CLAIMED, OLDEST_PENDING, DESIRED_WORKERS, STALLED)
"""The gauges with a value for each task queue. They cover the task queues of the latest reading."""


class Gauges:
    """Keeps the meter's gauges up to date: one small read for each task queue, and one for each internal queue.

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
        """Task queues that had tasks at the latest reading."""
        self._next: str | None = None
        """The key in the directory at which the next refresh continues."""
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
        """Pending and running tasks of the task queues that had any at the latest reading."""
        return self._busy

    async def _pools(self) -> None:
        chosen = dict.fromkeys(sorted(self._busy)[: bounds.SAMPLED_QUEUES - bounds.SAMPLED_IDLE_QUEUES])

        async def read(start: str | None) -> tuple[list[str], str | None]:
            return await self._stores.pools.page_of_all(start, bounds.SAMPLED_QUEUES - len(chosen))

        for start in dict.fromkeys((self._next, None)):  # the rest of the directory, then its beginning
            pages = PageReader(read, start)
            async for pools in pages:
                chosen |= dict.fromkeys(pools)
                if len(chosen) >= bounds.SAMPLED_QUEUES:
                    break
            self._next = pages.resume
            if len(chosen) >= bounds.SAMPLED_QUEUES:
                break
        await in_waves(bounds.BACKGROUND, self._pool, chosen)
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
        self._meter.set(DESIRED_WORKERS, counts.unresolved, *labels)
        self._meter.set(STALLED, stall.pending if stall is not None and stall.waited >= GRACE else 0, *labels)

    async def _backlog(self) -> None:
        self._meter.set(EVENT_BACKLOG, await self._queues.length(EVENTS_QUEUE))

    async def _poison(self, queue: str) -> None:
        self._meter.set(POISON_DEPTH, await self._queues.length(poison_queue(queue)), queue)


log = logging.getLogger("taskcluster.housekeeping")

FLUSH_SECONDS = 60.0
"""Interval in which a process writes what it has counted, if there is anything."""
MARGIN = timedelta(seconds=5)
"""Delay of a sample after its time, so that all counts written before that time can be read. Longer than clocks of
processes differ.
"""
MINUTES_KEPT = timedelta(days=2)
"""How long samples are kept."""
HOURS_KEPT = timedelta(days=30)
"""How long the sums of their hours are kept."""


class Recorder:
    """Counts in memory what the meter is given, from the last time that it was taken."""

    def __init__(self) -> None:
        self._queues: dict[str, Figures] = {}

    def note(self, instrument: Instrument, value: float, labels: Labels) -> None:
        """One measurement."""
        if instrument is WAITING:
            self._of(labels).waits[class_of(value)] += 1
        elif instrument is COMPLETED:
            self._of(labels).completed += int(value)
        elif instrument is FAILED:
            self._of(labels).failed += int(value)
        elif instrument is EXCEPTION:
            self._of(labels).exception += int(value)

    def take(self) -> dict[str, Figures]:
        """What has been counted; counting starts again."""
        taken, self._queues = self._queues, {}
        return taken

    def _of(self, labels: Labels) -> Figures:
        return self._queues.setdefault("/".join(labels[:2]), Figures())


class History:
    """Counts, samples and reads."""

    def __init__(self, store: HistoryStore, gauges: Gauges, runtime: Runtime) -> None:
        self._store = store
        self._gauges = gauges
        self._runtime = runtime
        self._recorder = Recorder()
        runtime.meter.listen(self._recorder.note)
        self._outgoing: tuple[str, dict[str, Figures]] | None = None
        """Counts whose write has an unknown outcome, and their key: retries under the same key count them once."""
        self._sampled: datetime | None = None
        self._summed: datetime | None = None

    async def flush(self) -> None:
        """Writes what this process has counted: one request, or none if nothing was counted. Raises
        StorageUnavailable."""
        if self._outgoing is None:
            counted = self._recorder.take()
            if not counted:
                return
            self._outgoing = self._runtime.slugid(), counted
        await self._store.add_tally(*self._outgoing)
        self._outgoing = None

    async def keep_flushing(self) -> None:
        """Flushes every minute, for as long as the process lives. What cannot be written waits for the next time."""
        while True:
            await self._runtime.sleep(FLUSH_SECONDS)
            try:
                await self.flush()
            except StorageUnavailable:
                log.warning("counts for the history wait for storage", extra={"action": "history_waits"})

    async def sample(self) -> None:
        """Takes the sample of this moment's five minutes, unless there is one. Raises StorageUnavailable.

        A process that dies in between does no harm. A sample is one row, written once, and it has counted what was
        written up to its time.
        """
        slot = floor(self._runtime.now() - MARGIN, MINUTES)
        if self._sampled is not None and slot <= self._sampled:
            return
        latest = await self._store.latest("minutes")
        tallied = await self._store.tallies(latest, slot)
        if latest is None or slot > latest:
            await self._gauges.refresh()
            await self._store.add("minutes", sampled(slot, self._gauges.loads, [tallied.queues]))
        await self._store.remove_tallies(tallied.keys)
        await self._sum_up(floor(slot, HOURS))
        self._sampled = slot

    async def read(
        self, task_queue_id: str | None, since: datetime
    ) -> tuple[timedelta, list[tuple[datetime, Figures]]]:
        """Samples since a moment, of one task queue or of all together, and the time between two of them.

        Five minutes apart if they go back that far, hours otherwise. Raises StorageUnavailable.
        """
        now = self._runtime.now()
        near = since >= now - MINUTES_KEPT
        kind: SampleKind = "minutes" if near else "hours"
        after = max(since, now - (MINUTES_KEPT if near else HOURS_KEPT))
        if task_queue_id is None:
            found = await self._store.totals(kind, after, now)
        else:
            found = await self._store.of_queue(kind, after, now, task_queue_id)
        return MINUTES if near else HOURS, found

    async def _sum_up(self, hour: datetime) -> None:
        """Sums up the hours that are over, and removes what has been kept long enough."""
        if self._summed is None:
            self._summed = await self._store.latest("hours") or hour - MINUTES_KEPT
        if self._summed >= hour:
            return
        samples = await self._store.whole("minutes", self._summed, hour)
        for end in sorted({ceiling(sample.time, HOURS) for sample in samples}):
            of_hour = [sample for sample in samples if ceiling(sample.time, HOURS) == end]
            await self._store.add("hours", summed_up(end, of_hour))
        await self._store.forget("minutes", hour - MINUTES_KEPT)
        await self._store.forget("hours", hour - HOURS_KEPT)
        self._summed = hour
