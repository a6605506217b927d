"""How long the Functions host waits, in seconds, as recorded from the real one (docs/functions-host.md)."""

from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Times:
    """Tests shorten some of them (`--times`)."""

    take: int = 600
    """A queue message is hidden when it is taken; renewed at half time while its function runs."""
    lease: int = 60
    """Length of a timer's lock; renewed at half time. Another host looks for it as often."""
    answer: float = 100.0
    """Storage has this long to answer a request."""
    retry: float = 0.8
    """The first pause before a request to storage is repeated. It doubles; there are six tries."""
    calls: float = 30.0
    """Calls that run when the host is stopped may go on; then their connections are cut."""
    messages: float = 10.0
    """Messages and timers that run may go on after that."""
    restart: float = 10.0
    """Least time between two starts of the app's process after crashes."""
    crashes: float = 1800.0
    """A crash counts for the next one for this long."""
    grace: float = 2.0
    """A function that overran functionTimeout still has this long before its process is replaced."""
    kill: float = 10.0
    """A process that is replaced still lives this long."""


def parse_times(text: str) -> Times:
    """Times in which `name=seconds,…` replaces some. Raises ValueError for a name that there is not, or no number."""
    known: dict[str, int | float] = asdict(Times())
    changed: dict[str, Any] = {}
    for word in text.split(","):
        name, _, value = word.partition("=")
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(known)}")
        changed[name] = type(known[name])(value)
    return replace(Times(), **changed)
