"""Time spans as .NET writes them, which host.json and timer schedules use."""

import re

_TIMESPAN = re.compile(r"(-)?(?:(\d+)\.)?(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,7}))?)?")


def parse_timespan(text: str) -> float:
    """Returns the seconds of a text `[-][d.]hh:mm[:ss[.fffffff]]`. Raises ValueError if the text is not of that form,
    or an hour, minute or second is out of range."""
    match = _TIMESPAN.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a time span of the form hh:mm:ss")
    sign, days, hours, minutes, seconds, fraction = match.groups()
    if int(hours) > 23 or int(minutes) > 59 or int(seconds or 0) > 59:
        raise ValueError(f"{text!r} is not a time span: hours go to 23, minutes and seconds to 59")
    total = int(days or 0) * 86_400 + int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    return (-1 if sign else 1) * (total + float(f"0.{fraction or 0}"))
