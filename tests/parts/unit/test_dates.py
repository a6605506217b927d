"""Dates as the contract accepts and writes them (contract 0.1, 3.3)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.base.dates import format_date, parse_date

ZONES = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=ZONES)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02t03:04:05z", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02 03:04:05Z", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02T03:04:05", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.100Z"),
        ("2026-01-02T03:04:05.123234324Z", "2026-01-02T03:04:05.123Z"),
        ("2026-01-02T03:04:05.9999Z", "2026-01-02T03:04:05.999Z"),
        ("2026-01-02T03:04:05+01:30", "2026-01-02T01:34:05.000Z"),
        ("2026-01-02T03:04:05-0130", "2026-01-02T04:34:05.000Z"),
        ("2026-01-02T03:04:05+04", "2026-01-01T23:04:05.000Z"),
        ("2026-01-02T03:04:05.5-00:00", "2026-01-02T03:04:05.500Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ("2026-12-31T23:59:60Z", "2027-01-01T00:00:00.000Z"),
        ("2026-12-31T23:59:60.000Z", "2027-01-01T00:00:00.000Z"),
        ("2026-02-28t23:59:60.5z", "2026-03-01T00:00:00.500Z"),
        ("2026-01-02T23:59:60+01:00", "2026-01-02T23:00:00.000Z"),
    ],
)
def test_iso_dates_are_read_and_normalised(text: str, normal: str) -> None:
    assert format_date(parse_date(text)) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-02",
        "2026-01-02T03:04Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:60:00Z",
        "2026-01-02T03:04:60Z",
        "2026-01-02T03:04:60.000Z",
        "2026-01-02T23:59:61Z",
        "2026-01-02T23:58:60Z",
        "2026-01-02T22:59:60-01:00",
        "9999-12-31T23:59:60Z",
        "2026-02-30T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05+01:60",
        "2026-01-02T03:04:05+1",
        "2026-01-02T03:04:05Z\n",
        " 2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05 Z",
        "26-01-02T03:04:05Z",
        "٢٠٢٦-01-02T03:04:05Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_texts_that_are_no_dates_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_date(text)


@given(MOMENTS)
def test_written_dates_are_read_back_to_the_millisecond(moment: datetime) -> None:
    text = format_date(moment)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    read = parse_date(text)
    assert timedelta(0) <= moment - read < timedelta(milliseconds=1)
    assert format_date(read) == text


@given(st.text("0123456789-:TtZz.+ ", max_size=30))
def test_whatever_is_read_is_in_utc(text: str) -> None:
    try:
        moment = parse_date(text)
    except ValueError:
        return
    assert moment.tzinfo is UTC
    assert moment.microsecond % 1000 == 0
