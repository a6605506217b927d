"""Times as the contract writes and accepts them (contract 0.1 Date, 3.3)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

_DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:([Zz])|([+-])(\d\d)(?::?(\d\d))?)?", re.ASCII
)

_AS_WRITTEN = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:[0-5]\d\.\d{3}Z", re.ASCII)
"""The form that `format_date` writes, and that nearly every date has. The standard library reads it several times as
fast as other forms."""


def parse_date(text: str) -> datetime:
    """Reads any accepted form; extra digits are truncated to milliseconds, a missing offset means UTC. A leap second
    (23:59:60, on any day) is the second after it: no clock here counts it, and JSON schema allows it. Raises ValueError
    for impossible dates, missing seconds, hour 24 and anything else."""
    if _AS_WRITTEN.fullmatch(text):
        return datetime.fromisoformat(text)
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise ValueError("not a date-time")
    year, month, day, hour, minute, second, fraction, _, sign, offset_hours, offset_minutes = match.groups()
    milliseconds = int((fraction or "0")[:3].ljust(3, "0"))
    zone = UTC
    if sign:
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes or 0))
        if offset >= timedelta(days=1) or int(offset_minutes or 0) > 59:
            raise ValueError("impossible offset")
        zone = timezone(-offset if sign == "-" else offset)
    leap = timedelta(seconds=(hour, minute, second) == ("23", "59", "60"))
    second = "59" if leap else second
    try:
        local = datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second), milliseconds * 1000, tzinfo=zone
        )
        return (local + leap).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("out of range") from error


@lru_cache(maxsize=4096)  # a call writes the dates of its task into rows, messages and its answer
def format_date(moment: datetime) -> str:
    """Returns the time as `YYYY-MM-DDTHH:mm:ss.sssZ`, always with milliseconds and in UTC."""
    return f"{moment.astimezone(UTC).isoformat(timespec='milliseconds').removesuffix('+00:00')}Z"


def a_year_after(moment: datetime) -> datetime:
    """Returns the same date a calendar year later; 29 February becomes 1 March (contract 3.3)."""
    try:
        return moment.replace(year=moment.year + 1)
    except ValueError:
        return moment.replace(year=moment.year + 1, month=3, day=1)
