"""Load over time: what is counted between two samples, and the History table (contract 2.5, design 10).

A sample is one row. One column has the total. Sixteen others have the task queues, spread by a hash of their names: so
the history of one task queue is read without most of the others.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from shared.base.dates import format_date, parse_date
from shared.base.frozen import dataclass
from shared.store import keys
from shared.store.interface import MAX_OPERATIONS, Create, Delete, Row, Storage, TransactionRefused, Value
from shared.store.partitions import rows_of, try_transact


def waited(figures: Figures) -> dict[str, float]:
    """Median and 95th percentile of the time that runs waited before they were started; empty if none was started."""
    waits = {"waitP50Seconds": figures.wait(0.5), "waitP95Seconds": figures.wait(0.95)}
    return {name: round(seconds, 1) for name, seconds in waits.items() if seconds is not None}


MINUTES = timedelta(minutes=5)
"""From one sample to the next."""
HOURS = timedelta(hours=1)
"""What one sum of samples covers."""

_SHORTEST = 0.1
"""Seconds of the lowest class of waiting times; shorter waits are counted in it."""
_STEPS = 4
"""Classes of waiting times for each doubling: a time is known to about 9 %."""
LAST = math.ceil(_STEPS * math.log2(timedelta(days=10).total_seconds() / _SHORTEST))
"""The class of the longest waits: more than the deadline of most tasks allows."""


def class_of(seconds: float) -> int:
    """The class of a waiting time; each is a constant factor wider than the one before."""
    if seconds <= _SHORTEST:
        return 0
    return min(math.ceil(_STEPS * math.log2(seconds / _SHORTEST)), LAST)


def seconds_of(number: int) -> float:
    """The waiting time that stands for a class: the geometric mean of its bounds."""
    return float(_SHORTEST * 2 ** ((number - 0.5) / _STEPS)) if number else _SHORTEST


def floor(moment: datetime, step: timedelta) -> datetime:
    """`moment` rounded down to a multiple of `step`, counted from midnight."""
    midnight = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return midnight + (moment - midnight) // step * step


def ceiling(moment: datetime, step: timedelta) -> datetime:
    """The first multiple of a step, counted from midnight, that is not earlier."""
    earlier = floor(moment, step)
    return earlier if earlier == moment else earlier + step


@dataclass(kw_only=True, slots=True)
class Figures:
    """The figures of one task queue, or of all together, in a sample: runs that were pending and claimed at its time,
    and what happened since the previous sample.
    """

    pending: int = 0
    claimed: int = 0
    oldest: int = 0
    """How long the run that waited longest had waited, in seconds."""
    completed: int = 0
    failed: int = 0
    exception: int = 0
    """Runs that were resolved since the previous sample."""
    waits: Counter[int] = field(default_factory=Counter)
    """Number of runs that were started since the previous sample, by the class of the time that they had waited."""

    def count(self, other: Figures) -> None:
        """Adds what happened in another task queue, or in an adjoining period."""
        self.completed += other.completed
        self.failed += other.failed
        self.exception += other.exception
        self.waits.update(other.waits)

    def join(self, other: Figures) -> None:
        """Adds the figures of another task queue at the same time."""
        self.pending += other.pending
        self.claimed += other.claimed
        self.oldest = max(self.oldest, other.oldest)
        self.count(other)

    @property
    def weight(self) -> int:
        """A measure of the activity; 0 if there was none."""
        return self.pending + self.claimed + self.completed + self.failed + self.exception + sum(self.waits.values())

    def wait(self, share: float) -> float | None:
        """The waiting time in seconds that this share of the started runs did not exceed; None if none was started."""
        needed, seen = share * self.waits.total(), 0
        for number in sorted(self.waits):
            seen += self.waits[number]
            if seen >= needed:
                return seconds_of(number)
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What is known at a moment, of each task queue that had anything to tell, and of all together."""

    time: datetime
    total: Figures
    queues: Mapping[str, Figures]


def sampled(time: datetime, loads: Mapping[str, Figures], tallies: Iterable[Mapping[str, Figures]]) -> Sample:
    """A sample made of the gauges of all pools and of the counts of all processes."""
    queues = {name: Figures(pending=at.pending, claimed=at.claimed, oldest=at.oldest) for name, at in loads.items()}
    for tally in tallies:
        for name, figures in tally.items():
            queues.setdefault(name, Figures()).count(figures)
    return Sample(time=time, total=_total(queues), queues={name: at for name, at in queues.items() if at.weight})


def summed_up(time: datetime, samples: Iterable[Sample]) -> Sample:
    """Samples as one: loads are the mean, the age of the oldest is the greatest."""
    listed = list(samples)
    return Sample(
        time=time,
        total=_mean([sample.total for sample in listed], len(listed)),
        queues={
            name: _mean([sample.queues[name] for sample in listed if name in sample.queues], len(listed))
            for name in sorted({name for sample in listed for name in sample.queues})
        },
    )


def _total(queues: Mapping[str, Figures]) -> Figures:
    total = Figures()
    for figures in queues.values():
        total.join(figures)
    return total


def _mean(listed: Iterable[Figures], times: int) -> Figures:
    total = Figures()
    for figures in listed:
        total.join(figures)
    total.pending, total.claimed = round(total.pending / times), round(total.claimed / times)
    return total


SampleKind = Literal["minutes", "hours"]
"""A sample, or the sum of an hour's."""

PARTS = 16
QUEUES_A_PART = 100
"""Largest number of task queues in each part of a sample; the busiest are kept. A column thus stays below 64 KiB, and
the row below 1 MiB.
"""
_TALLIES = "tallies"
_TIME, _TOTAL = "time", "total"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tallied:
    """Counts that processes have written in a period, by the storage's clock."""

    keys: Sequence[str]
    """The keys of all rows that were written before the end of the period."""
    queues: Mapping[str, Figures]


class HistoryStore:
    """Reads and writes samples."""

    def __init__(self, storage: Storage) -> None:
        self._tables = storage.tables

    async def add_tally(self, key: str, queues: Mapping[str, Figures]) -> None:
        """Writes what a process has counted; nothing if that was written before. Raises StorageUnavailable."""
        await self._create(_TALLIES, key, _parts(queues))

    async def tallies(self, after: datetime | None, until: datetime) -> Tallied:
        """Reads what processes have written before `until` and no sample has removed, and sums up what was written
        since `after`. It keeps the keys and one page in memory. Raises StorageUnavailable."""
        found: list[str] = []
        queues: dict[str, Figures] = {}
        async for page in rows_of(self._tables, keys.HISTORY, _TALLIES):
            for row in page:
                if row.timestamp >= until:
                    continue
                found.append(row.key)
                if after is None or row.timestamp >= after:
                    for name, figures in _queues(row).items():
                        queues.setdefault(name, Figures()).count(figures)
        return Tallied(keys=found, queues=queues)

    async def remove_tallies(self, names: Sequence[str]) -> None:
        """Removes what is in a sample. Raises StorageUnavailable."""
        await self._remove(_TALLIES, list(names))

    async def add(self, kind: SampleKind, sample: Sample) -> None:
        """Writes a sample, unless there is one of that time. Raises StorageUnavailable."""
        values = {_TIME: format_date(sample.time), _TOTAL: _text(sample.total), **_parts(sample.queues)}
        await self._create(kind, keys.sample(sample.time), values)

    async def latest(self, kind: SampleKind) -> datetime | None:
        """The time of the last sample. Raises StorageUnavailable."""
        page = await self._tables.query(keys.HISTORY, kind, start="", end="\x7f", limit=1, select=(_TIME,))
        return parse_date(str(page.rows[0].values[_TIME])) if page.rows else None

    async def last(self, kind: SampleKind) -> Sample | None:
        """The last sample, with all task queues. Raises StorageUnavailable."""
        page = await self._tables.query(keys.HISTORY, kind, start="", end="\x7f", limit=1)
        return next((_sample(row) for row in page.rows), None)

    async def whole(self, kind: SampleKind, after: datetime, until: datetime) -> list[Sample]:
        """Samples with after < time ≤ until, with all task queues, in order of time. Raises StorageUnavailable."""
        rows = await self._rows(kind, after, until, None)
        return [_sample(row) for row in rows]

    async def totals(self, kind: SampleKind, after: datetime, until: datetime) -> list[tuple[datetime, Figures]]:
        """Like `whole`, but only the totals of all task queues. Raises StorageUnavailable."""
        return [(_time(row), _total_of(row)) for row in await self._rows(kind, after, until, (_TIME, _TOTAL))]

    async def of_queue(
        self, kind: SampleKind, after: datetime, until: datetime, task_queue_id: str
    ) -> list[tuple[datetime, Figures]]:
        """One task queue, zeros where it had nothing to tell, as `whole`. Raises StorageUnavailable."""
        part = _part(task_queue_id)
        rows = await self._rows(kind, after, until, (_TIME, part))
        return [(_time(row), _unpacked(row, part).get(task_queue_id, Figures())) for row in rows]

    async def forget(self, kind: SampleKind, until: datetime) -> None:
        """Removes samples of `until` and before, one page at most. Raises StorageUnavailable."""
        page = await self._tables.query(keys.HISTORY, kind, start=keys.sample(until), end="\x7f", select=())
        await self._remove(kind, [row.key for row in page.rows])

    async def _rows(
        self, kind: SampleKind, after: datetime, until: datetime, select: Sequence[str] | None
    ) -> list[Row]:
        start, end = keys.sample(until), keys.sample(after)
        pages = rows_of(self._tables, keys.HISTORY, kind, start=start, end=end, select=select)
        return [row async for page in pages for row in page][::-1]

    async def _create(self, partition: str, key: str, values: Mapping[str, Value]) -> None:
        await try_transact(self._tables, keys.HISTORY, partition, [Create(key, values)])

    async def _remove(self, partition: str, names: list[str]) -> None:
        """Rows that another process removes at the same time are left to it."""
        for start in range(0, len(names), MAX_OPERATIONS):
            operations = [Delete(name) for name in names[start : start + MAX_OPERATIONS]]
            while operations:
                try:
                    await self._tables.transact(keys.HISTORY, partition, operations)
                except TransactionRefused as refused:
                    del operations[refused.index]
                else:
                    break


def _sample(row: Row) -> Sample:
    return Sample(time=_time(row), total=_total_of(row), queues=_queues(row))


def _part(task_queue_id: str) -> str:
    return f"queues{zlib.crc32(task_queue_id.encode()) % PARTS:02}"


def _parts(queues: Mapping[str, Figures]) -> dict[str, Value]:
    parts: dict[str, dict[str, list[Any]]] = {}
    for name in sorted(queues, key=lambda name: queues[name].weight, reverse=True):
        part = parts.setdefault(_part(name), {})
        if len(part) < QUEUES_A_PART:
            part[name] = _written(queues[name])
    return {part: zlib.compress(json.dumps(content, separators=(",", ":")).encode()) for part, content in parts.items()}


def _queues(row: Row) -> dict[str, Figures]:
    return {name: at for part in row.values if part.startswith("queues") for name, at in _unpacked(row, part).items()}


def _unpacked(row: Row, part: str) -> dict[str, Figures]:
    packed = row.values.get(part)
    if not isinstance(packed, bytes):
        return {}
    return {name: _read(figures) for name, figures in json.loads(zlib.decompress(packed)).items()}


def _text(figures: Figures) -> str:
    return json.dumps(_written(figures), separators=(",", ":"))


_FIGURES = tuple(each.name for each in fields(Figures))
"""The figures in the order in which they are stored; the waits come last."""


def _written(figures: Figures) -> list[Any]:
    return [getattr(figures, name) for name in _FIGURES]


def _read(written: Sequence[Any]) -> Figures:
    *numbers, waits = written
    counted = Counter({int(number): count for number, count in waits.items()})
    return Figures(**dict(zip(_FIGURES, (*numbers, counted), strict=True)))


def _time(row: Row) -> datetime:
    return parse_date(str(row.values[_TIME]))


def _total_of(row: Row) -> Figures:
    return _read(json.loads(str(row.values[_TOTAL])))
