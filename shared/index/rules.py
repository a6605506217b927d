"""The index: paths that name tasks; which entry wins a path, and what a completed task asks for (contract 18)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from shared.base.dates import parse_date
from shared.base.frozen import dataclass
from shared.base.types import LONGEST_PATH, PATH_PATTERN
from shared.queue.tasks.definition import Definition

PREFIX = "index."
"""Prefix of the routes that ask for an entry."""
HIGHEST_RANK = 2**31 - 1
LOWEST_RANK = -(2**31)
MOST_DATA = 32_000
"""Bytes of an entry's data as JSON: a property of a row holds 32,768 characters."""

_PATH = re.compile(PATH_PATTERN)
_LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC)
_LAST_MOMENT = datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexEntry:
    """An entry of the index: a path and the task that it names."""

    path: str
    task_id: str
    rank: int
    data: Mapping[str, Any]
    expires: datetime
    at: datetime
    """Time of the request for this entry: that of the call, or of the task's resolution."""


def is_path(text: str) -> bool:
    """Returns whether the text can be a path or a namespace (contract 18.1)."""
    return len(text) <= LONGEST_PATH and _PATH.fullmatch(text) is not None


def split(path: str) -> tuple[str, str]:
    """Returns the namespace and the name of a path: the name is what follows the last dot."""
    namespace, _, name = path.rpartition(".")
    return namespace, name


def replaces(new: IndexEntry, stored: IndexEntry | None, deleted: datetime | None, now: datetime) -> bool:
    """Returns whether an entry takes the place of the stored one (contract 18.3). The entry with the higher rank wins;
    if ranks are equal, the one that was requested later. So a completion whose message is handled late or twice does
    not replace a later entry, or undo a later deletion. A deleted or expired entry blocks none."""
    if deleted is not None and new.at <= deleted:
        return False
    if stored is None or stored.expires <= now:
        return True
    return (new.rank, new.at) >= (stored.rank, stored.at)


def namespaces_above(path: str, expires: datetime) -> list[tuple[str, datetime]]:
    """Returns the namespaces above a path, nearest first, and until when each is listed: a day longer at each level."""
    found = []
    namespace, _ = split(path)
    while namespace:
        midnight = datetime.combine(min(expires, _LAST_DAY).astimezone(UTC).date(), time(), UTC)
        expires = _LAST_MOMENT if expires >= _LAST_DAY else midnight + timedelta(days=1)
        found.append((namespace, expires))
        namespace, _ = split(namespace)
    return found


def paths_of(definition: Definition) -> list[str]:
    """Returns the paths that a task's routes ask for; what cannot be a path is left out."""
    routes = [route.removeprefix(PREFIX) for route in definition.routes if route.startswith(PREFIX)]
    return [path for path in dict.fromkeys(routes) if is_path(path)]


def entries_of(definition: Definition, resolved: datetime) -> list[IndexEntry]:
    """Returns the entries that a completed task asks for by its routes and `extra.index`. None at all if one of the
    values there cannot be used (contract 18.6)."""
    paths = paths_of(definition)
    if not paths:
        return []
    extra = definition.body["extra"].get("index")
    wanted = extra if isinstance(extra, dict) else {}
    rank = _rank(wanted.get("rank", 0))
    data = wanted.get("data", {})
    expires = _expires(wanted["expires"]) if "expires" in wanted else definition.expires
    if rank is None or expires is None or not isinstance(data, dict):
        return []
    return [
        IndexEntry(path=path, task_id=definition.task_id, rank=rank, data=data, expires=expires, at=resolved)
        for path in paths
    ]


def _rank(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or value != int(value):
        return None
    return int(value) if LOWEST_RANK <= value <= HIGHEST_RANK else None


def _expires(value: Any) -> datetime | None:
    """Returns a date-time, a date (its midnight), or milliseconds since the epoch; None for anything else."""
    try:
        if isinstance(value, str):
            return parse_date(value) if "T" in value else datetime.combine(date.fromisoformat(value), time(), UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=math.floor(value))
    except (ValueError, OverflowError):
        return None
    return None
