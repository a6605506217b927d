"""Bounds what calls without a verified name make a deployment record: anybody can send as many of them as they like."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from shared.base.shares import CURRENT, NAMELESS

EACH_MINUTE = 20
"""The most lines of one kind, and the most spans, that a process records in a minute of calls without a verified name.
"""
_MINUTE = 60.0
_MOST_KINDS = 50
"""The most kinds of which it is counted how many were left out; all others are counted together."""


class Nameless:
    """Counts what is recorded in a minute for calls without a name, and what is left out."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._recorded: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def may_record(self, kind: str, what: str) -> bool:
        """Returns whether this may be recorded: all that has a name, and the first few of each kind in a minute. `what`
        says what is left out otherwise."""
        if CURRENT.get() != NAMELESS:
            return True
        if self._recorded[kind] < EACH_MINUTE:
            self._recorded[kind] += 1
            return True
        self._left_out[what if what in self._left_out or len(self._left_out) < _MOST_KINDS else "others"] += 1
        return False

    def left_out(self) -> Counter[str]:
        """Returns what was left out, once the minute is over; then the next one begins."""
        if self._monotonic() - self._began < _MINUTE:
            return Counter()
        left_out, self._left_out = self._left_out, Counter()
        self._began = self._monotonic()
        self._recorded.clear()
        return left_out
