"""Timer schedules: the NCRONTAB expressions that the app uses, "at this second of every n-th minute of an hour"."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

_SUPPORTED = re.compile(r"([0-5]?\d) \*(?:/(\d{1,2}))? \* \* \* \*")


@dataclass(frozen=True)
class Schedule:
    """A schedule with the same occurrences in every hour."""

    second: int
    minutes: int
    """Minutes between two occurrences; an hour has a whole number of them."""

    def next(self, after: datetime) -> datetime:
        """Returns the first occurrence later than `after`."""
        minute = after.minute - after.minute % self.minutes
        latest = after.replace(minute=minute, second=self.second, microsecond=0)
        return latest if latest > after else latest + timedelta(minutes=self.minutes)


def parse_schedule(text: str) -> Schedule:
    """Reads an expression such as `15 */5 * * * *`. Raises ValueError for other forms and uneven intervals."""
    match = _SUPPORTED.fullmatch(text)
    minutes = int(match[2] or 1) if match else 0
    if match is None or not minutes or 60 % minutes:
        raise ValueError(f"{text!r} is none that the local host runs, such as `15 */5 * * * *`")
    return Schedule(int(match[1]), minutes)
