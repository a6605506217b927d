"""Names of tables, queues and containers in the account: ours, behind a prefix that keeps installations apart."""

from __future__ import annotations

import re
from functools import lru_cache

from shared.base.frozen import dataclass

_PREFIX = re.compile(r"([a-z][a-z0-9]{0,19})?")
_DASHED = re.compile(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*")
_PATTERNS = {"table": re.compile(r"[A-Za-z][A-Za-z0-9]{2,62}"), "queue": _DASHED, "container": _DASHED}


@dataclass(frozen=True, slots=True)
class Names:
    """Names with one prefix: none, or up to 20 lower-case letters and digits that start with a letter."""

    prefix: str = ""

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise ValueError(f"{self.prefix!r} cannot be a prefix: up to 20 lower-case letters and digits")

    def table(self, name: str) -> str:
        """Name of a table: the prefix in front. Raises ValueError when Azure would refuse it."""
        return _checked("table", f"{self.prefix}{name}")

    def queue(self, name: str) -> str:
        """Name of a queue: the prefix and a hyphen in front. Raises ValueError when Azure would refuse it."""
        return _checked("queue", f"{self.prefix}-{name}" if self.prefix else name)

    def container(self, name: str) -> str:
        """Name of a blob container, as `queue`."""
        return _checked("container", f"{self.prefix}-{name}" if self.prefix else name)


@lru_cache(maxsize=1024)  # each request has one, and most have the same few
def _checked(kind: str, name: str) -> str:
    if not _PATTERNS[kind].fullmatch(name):
        raise ValueError(f"{name!r} cannot name a {kind}")
    return name
