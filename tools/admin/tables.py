"""What people read: tables, times as distances, and progress that shows only where somebody watches."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import typer

from tools.admin.output import show
from tools.local.output import OBEYED

STATES = ("failed", "exception", "running", "pending", "unscheduled", "completed")
FINAL = frozenset({"completed", "failed", "exception"})
SILENT_SECONDS = 1.0
"""What takes no longer shows no progress."""

_COLORS = {
    "failed": "red",
    "exception": "magenta",
    "running": "blue",
    "pending": "yellow",
    "completed": "green",
    "quarantined": "magenta",
    "disabled": "red",
    "expired": "red",
}
"""Those of the console, by the word that says the state without them."""
_COLORED = re.compile(rf"\b(?:\d+ )?({'|'.join(_COLORS)})\b")
_OF_STATES = frozenset({"STATE", "state", "tasks"})
"""Columns and facts whose words are states, and not what somebody has named."""
_LONGEST_TEXT = 60

_CONTROL = dict.fromkeys(OBEYED)
_NEVER = datetime.fromtimestamp(0, UTC)
_FOR_GOOD = timedelta(days=100 * 365)
_SIZES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows below a head, in columns as wide as what is in them."""
    cells = [list(head), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    states = [name in _OF_STATES for name in head]
    for row in cells:
        padded = [
            painted(cell.ljust(width)) if of_states else cell.ljust(width)
            for cell, width, of_states in zip(row, widths, states, strict=True)
        ]
        typer.echo("  ".join(padded).rstrip())


def facts(of: Mapping[str, Any]) -> None:
    """Print names and values, one a line; what is None is left out."""
    given = {name: plain(value) for name, value in of.items() if value is not None}
    width = max((len(name) for name in given), default=0)
    for name, value in given.items():
        typer.echo(f"{name.ljust(width)}  {painted(value) if name in _OF_STATES else value}")


def scopes(of: Mapping[str, Any]) -> None:
    """Print what a client or role was given, and what more it may do by the roles among that."""
    given, expanded = of["scopes"], of["expandedScopes"]
    for head, found in (("SCOPE", given), ("BY ROLES", [scope for scope in expanded if scope not in given])):
        if found:
            typer.echo()
            table((head,), [(scope,) for scope in sorted(found)])


def printed(value: Any, *, as_json: bool, otherwise: Callable[[Any], None]) -> None:
    """Print a value as JSON, for programs, or else as people want to read it."""
    if as_json:
        show(value)
    else:
        otherwise(value)


def plain(value: Any) -> str:
    """A text of one line: tasks may have control characters in their names, which terminals would obey."""
    return "-" if value is None or value == "" else str(value).translate(_CONTROL)


def shortened(text: str) -> str:
    """A description in the row of a table."""
    line = one_line(text)
    return line if len(line) <= _LONGEST_TEXT else f"{line[: _LONGEST_TEXT - 1].rstrip()}…"


def one_line(text: str) -> str:
    """A text of several lines as one."""
    return " ".join(text.split())


def in_color() -> bool:
    """Whether a person reads who wants colours: in a terminal that has them, unless NO_COLOR says otherwise."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str) -> str:
    """A text with its words for states in their colours, for who reads in colour."""
    if not in_color():
        return text
    return _COLORED.sub(lambda found: typer.style(found.group(), fg=_COLORS[found.group(1)]), text)


def until(text: str | None, now: datetime | None = None) -> str | None:
    """Like `ago`, for how long something holds: what is a century ahead holds for good."""
    if text is None or datetime.fromisoformat(text) - (now or datetime.now(UTC)) < _FOR_GOOD:
        return ago(text, now)
    return "further notice"


def ago(text: str | None, now: datetime | None = None) -> str | None:
    """How long ago a time is, or how far ahead, in its two largest units; None for the epoch, which means never."""
    if text is None or datetime.fromisoformat(text) == _NEVER:
        return None
    seconds = round(((now or datetime.now(UTC)) - datetime.fromisoformat(text)).total_seconds())
    left, parts = abs(seconds), []
    for size, unit in _SIZES:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    distance = " ".join(parts[:2]) or "0 s"
    return f"in {distance}" if seconds < 0 else f"{distance} ago"


def counts(states: Iterable[str]) -> str:
    """How many are in which state: `1 failed, 3 completed`."""
    found = Counter(states)
    return ", ".join(f"{found[state]} {state}" for state in STATES if found[state]) or "no tasks"


class Progress:
    """One line on standard error that says how far something is, if it takes long and a person watches."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def at(self, text: str) -> None:
        """Say how far it is."""
        if sys.stderr.isatty() and self._clock() - self._started >= SILENT_SECONDS:
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{text} …")
            sys.stderr.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
