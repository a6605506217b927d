"""How busy the service was: counted by each process, sampled by the timer, read by the console (design 10)."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from shared.domain.history import HOURS, MINUTES, Figures, ceiling, class_of, floor, sampled, summed_up
from shared.runtime import Runtime
from shared.storage.history import HistoryStore, Kind
from shared.storage.interface import StorageUnavailable
from shared.telemetry.instruments import COMPLETED, EXCEPTION, FAILED, WAITING, Instrument
from shared.telemetry.meter import Labels
from shared.usecases.gauges import Gauges

log = logging.getLogger("taskcluster.housekeeping")

FLUSH_SECONDS = 60.0
"""Interval in which a process writes what it has counted, if there is anything."""
MARGIN = timedelta(seconds=5)
"""Delay of a sample after its time: by then whatever was written before that time, by the storage's clock, is
there to be read. Longer than clocks differ."""
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
        """What could not be written for certain, and its key: it is written once, however often that is tried."""
        self._sampled: datetime | None = None
        self._summed: datetime | None = None

    async def flush(self) -> None:
        """Writes what this process has counted: one request, none if that is nothing. Raises StorageUnavailable."""
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

        A process that dies in between does no harm: a sample is one row, written once, and what it has counted is
        known by the time at which it was written.
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
        kind: Kind = "minutes" if near else "hours"
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
