"""Shapes of task graphs, all of as many tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Shape = Callable[[int], list[tuple[int, ...]]]
"""Function that returns for each of a number of tasks the earlier ones that it depends on, by number."""


def _plain(count: int) -> list[tuple[int, ...]]:
    return [()] * count


def _chain(count: int) -> list[tuple[int, ...]]:
    """Returns ten chains side by side, so that workers have something to do."""
    return [(index - 10,) if index >= 10 else () for index in range(count)]


def _diamond(count: int) -> list[tuple[int, ...]]:
    """Returns diamonds: one task, two that wait for it, one that waits for those; again and again."""
    plan: list[tuple[int, ...]] = []
    for index in range(count):
        first = index - index % 4
        plan.append({0: (), 1: (first,), 2: (first,), 3: (first + 1, first + 2)}[index % 4])
    return plan


def _fan_out(count: int) -> list[tuple[int, ...]]:
    """Returns one task that all others wait for."""
    return [(), *[(0,)] * (count - 1)]


def _fan_in(count: int) -> list[tuple[int, ...]]:
    """Returns one task that waits for all others."""
    return [*[()] * (count - 1), tuple(range(count - 1))]


SHAPES: Mapping[str, Shape] = {
    "no dependencies": _plain,
    "chains": _chain,
    "diamonds": _diamond,
    "fan-out": _fan_out,
    "fan-in": _fan_in,
}
