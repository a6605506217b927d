"""Pauses grow up to the longest one, however often something fails, and chance moves them as it is said."""

from __future__ import annotations

import pytest

from shared.base import retrying
from shared.base.retrying import Retries

KINDS = [pytest.param(value, id=name) for name, value in vars(retrying).items() if isinstance(value, Retries)]


def test_pauses_grow_up_to_the_longest() -> None:
    retries = Retries(first=5, longest=60)
    assert [retries.pause(number) for number in range(6)] == [5, 10, 20, 40, 60, 60]
    assert [retries.after(pause) for pause in (5, 40, 60)] == [10, 60, 60]


def test_chance_moves_a_pause_within_its_jitter() -> None:
    retries = Retries(first=2, longest=10, factor=3, jitter=(0.5, 1.5))
    assert [retries.pause(1, chance) for chance in (0.0, 0.5)] == [3, 6]


@pytest.mark.parametrize("retries", KINDS)
def test_a_pause_after_very_many_is_the_longest(retries: Retries) -> None:
    assert retries.pause(100_000, 0.5) == pytest.approx(retries.longest * sum(retries.jitter) / 2)
    assert 0 < retries.first <= retries.longest
