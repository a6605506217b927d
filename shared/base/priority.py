"""The seven priorities, which are also the seven bands of pending queues (contract 0.1 Prio)."""

from __future__ import annotations

from typing import Literal, get_args

Priority = Literal["highest", "very-high", "high", "medium", "low", "very-low", "lowest"]

PRIORITIES: tuple[Priority, ...] = get_args(Priority)
"""The priorities from the highest to the lowest: the order in which bands are polled. A band's queue is named after the
place of its priority (`pending_queue`). So another order, or a new priority between these, would give the messages that
wait to another band."""


def at_least(priority: Priority) -> tuple[Priority, ...]:
    """Returns the priorities equal to or higher than the given one, highest first (contract 3.2)."""
    return PRIORITIES[: PRIORITIES.index(priority) + 1]
