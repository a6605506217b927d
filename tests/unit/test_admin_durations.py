"""Durations of the administrator's command line."""

from datetime import timedelta

import pytest

from tools.admin.durations import parse_duration


def test_durations_are_read_and_others_refused() -> None:
    assert parse_duration("90m") == timedelta(minutes=90)
    assert parse_duration("12h") == timedelta(hours=12)
    assert parse_duration("52w") == timedelta(weeks=52)
    for text in ("", "1", "m", "0d", "-1d", "1.5h", "1 h", "1000000m"):
        with pytest.raises(ValueError, match="no duration"):
            parse_duration(text)
