"""Timer schedules: NCRONTAB expressions of six fields (or five, without seconds), and time spans.

Own parser: the packages that read cron lines differ from NCRONTAB where it matters (seconds first; a restricted day of
the month *and* a restricted day of the week must both match; 7 is no Sunday).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from local.host.timespan import parse_timespan

_FIELDS = (("second", 0, 59), ("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 6))
_NAMES = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "weekday": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_ITEM = re.compile(r"(?:\*|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?", re.ASCII)
_SEARCH_DAYS = 366 * 41
"""29 February on a given day of the week comes within 40 years."""


@dataclass(frozen=True)
class CronSchedule:
    """The allowed values of each field."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""

    adjusts_for_dst = True

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError if the expression is not NCRONTAB, or never matches."""
        fields = text.split()
        if len(fields) == 5:
            fields.insert(0, "0")
        if len(fields) != len(_FIELDS):
            raise ValueError(f"{text!r} has {len(fields)} fields instead of six")
        seconds, minutes, hours, days, months, weekdays = (
            _parse_field(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)
        )
        schedule = cls(seconds, minutes, hours, frozenset(days), frozenset(months), frozenset(weekdays))
        if next(schedule._days(datetime(2000, 1, 1)), None) is None:
            raise ValueError(f"{text!r} never matches")
        return schedule

    def next(self, after: datetime) -> datetime:
        """The first occurrence later than `after`."""
        start = after.replace(microsecond=0) + timedelta(seconds=1)
        for day in self._days(start):
            earliest = (start.hour, start.minute, start.second) if day.date() == start.date() else (0, 0, 0)
            for hour in self.hours:
                for minute in self.minutes:
                    for second in self.seconds:
                        if (hour, minute, second) >= earliest:
                            return day.replace(hour=hour, minute=minute, second=second)
        raise AssertionError("parse() has made sure of an occurrence")

    def _days(self, start: datetime) -> Iterator[datetime]:
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
        for offset in range(_SEARCH_DAYS):
            day = midnight + timedelta(days=offset)
            if day.month in self.months and day.day in self.days and day.isoweekday() % 7 in self.weekdays:
                yield day


@dataclass(frozen=True)
class IntervalSchedule:
    """Every so many seconds, counted from the last run."""

    seconds: float

    adjusts_for_dst = False

    def next(self, after: datetime) -> datetime:
        """One interval later than `after`."""
        return after + timedelta(seconds=self.seconds)


Schedule = CronSchedule | IntervalSchedule


def parse_schedule(text: str) -> Schedule:
    """An NCRONTAB expression, or a time span such as `00:00:30`. Raises ValueError on anything else."""
    if " " in text.strip() or ":" not in text:
        return CronSchedule.parse(text)
    seconds = parse_timespan(text)
    if seconds <= 0:
        raise ValueError(f"{text!r} must be positive")
    return IntervalSchedule(seconds)


def _parse_field(text: str, name: str, low: int, high: int) -> tuple[int, ...]:
    values: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if not match:
            raise ValueError(f"{text!r} is not a {name} field")
        step = int(match["step"] or 1)
        if step == 0:
            raise ValueError(f"the step in {text!r} must not be 0")
        if match["low"] is None:
            first, last = low, high
        else:
            first = _value(match["low"], name, low, high)
            # "3/5" means: from 3 on, every 5.
            only = high if match["step"] and step > 1 else first
            last = _value(match["high"], name, low, high) if match["high"] else only
        if first > last:
            first, last = last, first
        values.update(range(first, last + 1, step))
    return tuple(sorted(values))


def _value(text: str, name: str, low: int, high: int) -> int:
    names = _NAMES.get(name, ())
    prefix = text[:3].lower()
    value = int(text) if text.isdigit() else names.index(prefix) + low if prefix in names else -1
    if not low <= value <= high:
        raise ValueError(f"{text!r} is not a {name} from {low} to {high}")
    return value
