"""What people read: tables, times as distances, and progress that shows only where somebody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import typer

from tools.admin.output import show
from tools.local.output import OBEYED

SILENT_SECONDS = 1.0
"""Seconds within which a command shows no progress."""

_CONTROL = dict.fromkeys(OBEYED)
_NEVER = datetime.fromtimestamp(0, UTC)
_SIZES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints rows below a head, in columns as wide as what is in them."""
    cells = [list(head), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for row in cells:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def facts(of: Mapping[str, Any]) -> None:
    """Prints names and values, one a line; what is None is left out."""
    given = {name: plain(value) for name, value in of.items() if value is not None}
    width = max((len(name) for name in given), default=0)
    for name, value in given.items():
        typer.echo(f"{name.ljust(width)}  {value}")


def printed(value: Any, *, as_json: bool, otherwise: Callable[[Any], None]) -> None:
    """Prints a value as JSON, for programs, or else as people want to read it."""
    if as_json:
        show(value)
    else:
        otherwise(value)


def plain(value: Any) -> str:
    """Returns a text of one line: tasks may have control characters in their names, which terminals would obey."""
    return "-" if value is None or value == "" else str(value).translate(_CONTROL)


def ago(text: str | None, now: datetime | None = None) -> str | None:
    """Returns how long ago a time is, or how far ahead, in its two largest units; None for the epoch, which means
    never."""
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
        """Shows how far the work is."""
        if sys.stderr.isatty() and self._clock() - self._started >= SILENT_SECONDS:
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{text} …")
            sys.stderr.flush()

    def end(self) -> None:
        """Removes the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
