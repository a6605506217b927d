"""Advice to those who ask for work where there is none: come back later, and later (design 4, contract 15.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared import remembered
from shared.memo import Memo

WINDOW = timedelta(seconds=10)
FREE = 20
"""Vain requests for a pool in one window that lead to no pause."""
HIGHEST = 7
LONGEST = 2 ** (HIGHEST - 1)
"""Seconds of the longest advice."""


@dataclass
class _Traffic:
    began: datetime
    count: int = 0
    level: int = 0


class BackOff:
    """Counts vain requests for each pool in this process, in windows of 10 s.

    A window with more than FREE of them doubles the advice, one with less than half as many halves it, and work ends
    it. A long poll has waited before it gets the advice.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._pools: Memo[str, _Traffic] = Memo(remembered.VAIN)

    def in_vain(self, task_queue_id: str) -> int:
        """Counts a request that found nothing, or only asked for URLs. Returns the advice in seconds, 0 for none."""
        now = self._now()
        traffic = self._pools.get(task_queue_id) or _Traffic(began=now)
        self._pools[task_queue_id] = traffic  # also one that is known: the pool that was asked for least recently goes
        _roll(traffic, now)
        traffic.count += 1
        return int(2 ** (traffic.level - 1)) if traffic.level else 0

    def worked(self, task_queue_id: str) -> None:
        """Forgets what was counted for a pool: there is work."""
        self._pools.pop(task_queue_id)


def _roll(traffic: _Traffic, now: datetime) -> None:
    """Closes the windows that have passed."""
    passed = int((now - traffic.began) / WINDOW)
    if passed <= 0:
        return
    if traffic.count > FREE:
        traffic.level = min(traffic.level + 1, HIGHEST)
    elif traffic.count <= FREE // 2:
        traffic.level -= 1
    quiet = passed - 1
    traffic.level = max(traffic.level - quiet, 0)
    traffic.began += passed * WINDOW
    traffic.count = 0
