"""How a worker that waits is told that there is work (contract 5.1, decision 21).

Public clients repeat a call that was answered 503 at once; an empty answer makes the worker's own loop pause. So a
worker is told by 503. If its client repeats the call and finds nothing, the next answer is an empty one: clients pause
longer before each repetition. A client that does not repeat is told by empty answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta

from shared.base import remembered
from shared.base.frozen import dataclass, replace
from shared.base.memo import Memo
from shared.queue.tasks.rules import Worker

REPEATS_WITHIN = timedelta(seconds=2)
"""How soon a client has repeated a call that was answered 503. The slowest public one takes 0.75 s, then 1.1 s."""
MISSES = 2
"""Answers of 503 in a row after which a client that repeats none is told by empty answers."""
PAUSES = timedelta(seconds=5)
"""Shortest time between two calls of a generic-worker. One whose call has lasted longer, with its repetitions, calls
again at once after an empty answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """A call of a worker with its repetitions by the client, as far as a process knows of them."""

    began: datetime
    told: datetime | None = None
    """When the worker was last told by 503 in this process, until it is known whether its client has called again."""
    is_vain: bool = False
    """Whether the worker was told and has called again: if it finds nothing, it is told by an empty answer next."""
    missed: int = 0
    """How many answers of 503 in a row the client has not repeated."""

    @property
    def is_told_by_503(self) -> bool:
        """Whether the worker is told by an answer that its client repeats."""
        return not self.is_vain and self.missed < MISSES

    @property
    def ends(self) -> datetime:
        """When a series that came to nothing is to be ended: a generic-worker then calls again at once."""
        return self.began + PAUSES

    def called(self, came: datetime) -> Series:
        """Returns the series that the worker's next call in this process belongs to, as far as is known before the
        worker's row is read: `noted` then corrects it."""
        if self.told is not None and came - self.told <= REPEATS_WITHIN:
            return replace(self, is_vain=True)
        return Series(began=came, told=self.told, missed=self.missed)

    def noted(self, came: datetime, waits: Sequence[float], elsewhere: datetime | None) -> Series:
        """Returns the series of the call that came at `came`, once the worker's row is known. `waits` are the times at
        which its last calls began in any process, oldest first, in seconds since the epoch. `elsewhere` is when its
        last call began, if another process may have answered it 503."""
        series = self._judged(came, waits)
        return series if elsewhere is None or series.is_vain else replace(series, began=elsewhere, is_vain=True)

    def _judged(self, came: datetime, waits: Sequence[float]) -> Series:
        """Returns the series, with what the row tells of the last answer of 503."""
        if self.told is None:
            return self
        told = self.told.timestamp()
        between = [began - told for began in waits if told < began < came.timestamp()]
        if self.is_vain:
            return replace(self, told=None, missed=0) if not between else Series(began=came)
        if any(seconds <= REPEATS_WITHIN.total_seconds() for seconds in between):
            return replace(self, told=None, missed=0)
        is_complete = bool(waits) and waits[0] <= told
        return replace(self, told=None, missed=self.missed + is_complete)


@dataclass(eq=False)
class Wait:
    """A call that may wait, and how its worker is told."""

    series: Series
    had_work: datetime = datetime.max.replace(tzinfo=UTC)
    """When the worker has last got a task, by its row; as late as can be until that is known."""
    is_told: bool = False
    """Whether the call ended since there was work."""
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that is set when a wait of a series that came to nothing is to be ended."""


Caller = tuple[str, Worker]
"""A worker of a task queue."""


class Tellings:
    """Remembers how this process has told workers. It needs nothing of those that it has not told."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._last: Memo[Caller, Series] = Memo(remembered.TOLD, now)

    def called(self, caller: Caller, came: datetime) -> Wait:
        """Notes a call that has come, and returns its wait."""
        last = self._last.get(caller)
        return Wait(Series(began=came) if last is None else last.called(came))

    def told(self, caller: Caller, wait: Wait) -> None:
        """Notes that the call was answered 503."""
        self._last[caller] = Series(began=wait.series.began, told=self._now(), missed=wait.series.missed)

    def ended(self, caller: Caller, wait: Wait) -> None:
        """Notes that the call was answered otherwise, which ends the series."""
        series = wait.series
        if series.is_vain or (series.told is None and not series.missed):
            self._last.pop(caller)
        else:
            self._last[caller] = series
