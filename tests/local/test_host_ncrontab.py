"""Timer schedules."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.host.ncrontab import CronSchedule, IntervalSchedule, parse_schedule
from local.host.timespan import parse_timespan


def at(text: str) -> datetime:
    """A time of day or a date, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("0 */5 * * * *", "2026-11-21 06:04:59.5", "2026-11-21 06:05"),
        ("0 */5 * * * *", "2026-11-21 06:05:00", "2026-11-21 06:10"),
        ("*/5 * * * *", "2026-11-21 06:05:01", "2026-11-21 06:10"),
        ("* * * * * *", "2026-12-31 23:59:59.9", "2027-01-01 00:00:00"),
        ("30 15 10 * * *", "2026-11-21 10:15:30", "2026-11-22 10:15:30"),
        ("0 0 0 1 1 *", "2026-11-21", "2027-01-01"),
        ("0 0 0 29 2 *", "2026-11-21", "2028-02-29"),
        ("0 0 9-17/4 * * *", "2026-11-21 10:00", "2026-11-21 13:00"),
        ("0 0 0 * * Mon-Fri", "2026-11-21", "2026-11-23"),
        ("0 0 0 * * SUN", "2026-11-21", "2026-11-22"),
        ("0 0 0 * * 0", "2026-11-21", "2026-11-22"),
        ("0 0 0 * january *", "2026-11-21", "2027-01-01"),
        ("0 0 0 13 * 5", "2026-11-21", "2027-08-13"),
        ("0 10,20,30 * * * *", "2026-11-21 06:10", "2026-11-21 06:20"),
        ("0 50/4 * * * *", "2026-11-21 06:50", "2026-11-21 06:54"),
        ("0 5 * * * *", "2026-11-21 06:50", "2026-11-21 07:05"),
    ],
)
def test_the_next_occurrence(schedule: str, after: str, expected: str) -> None:
    assert parse_schedule(schedule).next(at(after)) == at(expected)


def test_a_time_span_counts_from_the_run_before() -> None:
    schedule = parse_schedule("00:00:30")
    assert isinstance(schedule, IntervalSchedule)
    assert schedule.next(at("2026-11-21 06:00:01")) == at("2026-11-21 06:00:31")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "* * * * * * *",
        "60 * * * * *",
        "* * 24 * * *",
        "* * * 0 * *",
        "* * * * 13 *",
        "* * * * * 7",
        "* * * * * Mittwoch",
        "*/0 * * * * *",
        "a * * * * *",
        "1- * * * * *",
        ",1 * * * * *",
        "? * * * * *",
        "-1 * * * * *",
        "0 0 0 30 2 *",
        "00:00:00",
        "-00:00:30",
        "00:61:00",
    ],
)
def test_what_is_not_a_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_schedule(text)


fields = st.tuples(*[st.integers(low, high) for low, high in ((0, 59), (0, 59), (0, 23), (1, 28), (1, 12))])


@given(values=fields, free=st.sets(st.integers(0, 4)), after=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)))
def test_an_occurrence_is_later_fits_every_field_and_is_the_first(
    values: tuple[int, ...], free: set[int], after: datetime
) -> None:
    text = " ".join("*" if position in free else str(value) for position, value in enumerate(values)) + " *"
    schedule = CronSchedule.parse(text)
    found = schedule.next(after)
    assert found > after
    parts = (found.second, found.minute, found.hour, found.day, found.month)
    assert all(position in free or part == values[position] for position, part in enumerate(parts))
    assert schedule.next(found - timedelta(seconds=1)) == found
    between = after + (found - after) / 2
    assert schedule.next(between) == found


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:00:02", 2), ("01:02:03", 3723), ("1.00:00:00", 86_400), ("00:00:00.250", 0.25), ("-00:01", -60)],
)
def test_a_time_span_is_read(text: str, seconds: float) -> None:
    assert parse_timespan(text) == seconds


@pytest.mark.parametrize("text", ["2", "00:60:00", "24:00:00", "00:00:00:00", "x", ""])
def test_what_is_not_a_time_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="time span"):
        parse_timespan(text)
