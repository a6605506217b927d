"""How busy the service was: what is counted between two samples, and how samples are summed up (contract 2.5)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta

from shared.frozen import dataclass

MINUTES = timedelta(minutes=5)
"""From one sample to the next."""
HOURS = timedelta(hours=1)
"""What one sum of samples covers."""

_SHORTEST = 0.1
"""Seconds: the lowest class of waiting times; what waited less is counted in it."""
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
    """The last multiple of a step, counted from midnight, that is not later."""
    midnight = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return midnight + (moment - midnight) // step * step


def ceiling(moment: datetime, step: timedelta) -> datetime:
    """The first multiple of a step, counted from midnight, that is not earlier."""
    earlier = floor(moment, step)
    return earlier if earlier == moment else earlier + step


@dataclass(kw_only=True, slots=True)
class Figures:
    """A task queue, or all: how many runs waited and ran when the sample was taken, and what happened before."""

    pending: int = 0
    claimed: int = 0
    oldest: int = 0
    """How long the run that waited longest had waited, in seconds."""
    completed: int = 0
    failed: int = 0
    exception: int = 0
    """Runs that were resolved since the sample before."""
    waits: Counter[int] = field(default_factory=Counter)
    """Runs that were started since then, by the class of the time that they had waited."""

    def count(self, other: Figures) -> None:
        """Adds what happened elsewhere in the same time, or in a time next to it."""
        self.completed += other.completed
        self.failed += other.failed
        self.exception += other.exception
        self.waits.update(other.waits)

    def join(self, other: Figures) -> None:
        """Adds another task queue at the same time."""
        self.pending += other.pending
        self.claimed += other.claimed
        self.oldest = max(self.oldest, other.oldest)
        self.count(other)

    @property
    def weight(self) -> int:
        """How much there is to tell."""
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
    """A sample of what waits and runs, and of what the processes have counted."""
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
