"""Durations as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tools.admin.output import fail

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_duration(text: str) -> timedelta:
    """Parses a duration such as `90m`, `12h`, `30d` or `52w`. Raises ValueError."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})([mhdw])", text)
    if match is None:
        raise ValueError(f"{text!r} is no duration: a number and m, h, d or w are, such as 90m or 30d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def duration(text: str) -> timedelta:
    """Parses a duration; ends the command with a message if it cannot."""
    try:
        return parse_duration(text)
    except ValueError as error:
        fail(str(error))


def expiry(text: str) -> str:
    """Returns the time after that duration from now, in the form that the API takes."""
    try:
        return (datetime.now(UTC) + duration(text)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    except OverflowError:
        fail(f"{text} from now is too far in the future")
