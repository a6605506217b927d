"""How long the Functions host waits, in seconds, as recorded from the real one (docs/functions-host.md)."""

from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Times:
    """The times of the host. Tests shorten some of them (`--times`)."""

    take: int = 600
    """How long a taken message is hidden. The lease is renewed at half time while the function runs."""
    lease: int = 60
    """Length of a timer's lock, which is renewed at half time. Another host looks for it as often."""
    answer: float = 100.0
    """How long storage may take to answer a request."""
    retry: float = 0.8
    """The first pause before a request to storage is repeated. It doubles; there are six tries."""
    calls: float = 30.0
    """How long calls may go on when the host is stopped; then their connections are cut."""
    messages: float = 10.0
    """How long messages and timers may go on after the calls have ended."""
    restart: float = 10.0
    """Least time between two starts of the app's process after crashes."""
    crashes: float = 1800.0
    """How long a crash counts together with the next one."""
    grace: float = 2.0
    """How long a function that overran functionTimeout may still go on before its process is replaced."""
    kill: float = 10.0
    """How long a process that is replaced still lives."""


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
