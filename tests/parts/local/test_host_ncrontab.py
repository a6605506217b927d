"""Timer schedules, and time spans."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.local.host.ncrontab import parse_schedule
from tools.local.host.timespan import parse_timespan


def at(text: str) -> datetime:
    """Returns a time of day or a date, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("0 */5 * * * *", "2026-11-21 06:04:59.5", "2026-11-21 06:05"),
        ("0 */5 * * * *", "2026-11-21 06:05:00", "2026-11-21 06:10"),
        ("30 */5 * * * *", "2026-11-21 06:05:00", "2026-11-21 06:05:30"),
        ("15 * * * * *", "2026-12-31 23:59:59.9", "2027-01-01 00:00:15"),
        ("0 */60 * * * *", "2026-11-21 06:00", "2026-11-21 07:00"),
    ],
)
def test_the_next_occurrence(schedule: str, after: str, expected: str) -> None:
    assert parse_schedule(schedule).next(at(after)) == at(expected)


@pytest.mark.parametrize(
    "text",
    ["", "* * * * *", "*/5 * * * * *", "60 * * * * *", "0 */7 * * * *", "0 */0 * * * *", "0 5 * * * *", "1:30"],
)
def test_what_no_timer_of_the_app_uses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="local host"):
        parse_schedule(text)


@given(
    second=st.integers(0, 59),
    minutes=st.sampled_from([1, 5, 10, 60]),
    after=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)),
)
def test_an_occurrence_is_the_first_one_later(second: int, minutes: int, after: datetime) -> None:
    found = parse_schedule(f"{second} */{minutes} * * * *").next(after)
    assert after < found <= after + timedelta(minutes=minutes)
    assert (found.second, found.microsecond, found.minute % minutes) == (second, 0, 0)


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
