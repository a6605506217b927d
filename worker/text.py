"""Text of others in a log: names, URLs, errors, what a payload says.

Whoever writes it chooses its length and its content. So each line that the worker says goes through `plain`, which
takes linear time: it has a bounded length, no signature of a URL, no password, and only characters that are printed.
"""

from __future__ import annotations

import logging
import re
from typing import Any

log = logging.getLogger("worker")
"""The worker's own, and that of the processes which work on its tasks."""

LONGEST = 1000
"""Characters of a line."""
MOST = 50 * LONGEST
"""Characters of a text of several lines that are looked at."""


def plain(text: str) -> str:
    """Returns a text as one line."""
    window = text[: 2 * LONGEST]
    cut = len(window) if len(window) < len(text) else -1
    shown = re.sub(r"[^\s\"<>]+", lambda word: _without_secrets(word[0], is_cut=word.end() == cut), window)
    line = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)
    return line if cut < 0 and len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def lines(text: str) -> list[str]:
    """Returns the lines of a text; of a long text the beginning."""
    found = text[:MOST].splitlines()
    if len(text) > MOST:
        found[-1:] = ["…"] if len(found) > 1 else [text]
    return [plain(line) for line in found]


def shown(problem: BaseException) -> str:
    """Returns an error as one line: those of HTTP name the URL, whose query is its signature."""
    return plain(str(problem) or type(problem).__name__)


def _without_secrets(word: str, *, is_cut: bool) -> str:
    """Returns a word without secrets. With `is_cut` it goes on unseen, so a password in it may not have ended."""
    before, mark, query = word.partition("?")
    first, *rest = before.split("://")
    if not rest:
        return f"{before}?…" if "=" in query else word
    places = [part.partition("/") for part in rest]
    hosts = [host.rpartition("@")[2] + slash + path for host, slash, path in places]
    if is_cut and not mark and not places[-1][1]:
        hosts[-1] = "…"
    return "://".join([first, *hosts]) + mark + "…" * bool(query)


class Formatter(logging.Formatter):
    """Writes lines of the worker's log, tracebacks included, as `plain` shows them."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the class it derives from
        """Returns the message as one line."""
        return plain(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Returns a traceback, whose lines are not those of another message."""
        return "\n".join(f"  {line}" for line in lines(super().formatException(ei)))
