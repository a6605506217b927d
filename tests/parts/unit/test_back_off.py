"""Advice to come back later: grows with vain requests, shrinks without them, ends with work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.queue.claims.poll_urls import FREE, LONGEST, WINDOW, BackOff


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


def window(back_off: BackOff, clock: Clock, requests: int, pool: str = "p/w") -> int:
    """Makes a number of requests in one window, and returns the advice that the last one gets."""
    advice = 0
    for _ in range(requests):
        advice = back_off.in_vain(pool)
    clock.time += WINDOW
    return advice


def test_few_requests_are_free() -> None:
    clock = Clock()
    back_off = BackOff(clock.now)
    assert [window(back_off, clock, FREE) for _ in range(20)] == [0] * 20


def test_many_requests_double_the_advice_window_by_window() -> None:
    clock = Clock()
    back_off = BackOff(clock.now)
    advice = [window(back_off, clock, FREE + 1) for _ in range(10)]
    assert advice == [0, 1, 2, 4, 8, 16, 32, 64, 64, 64]
    assert advice[-1] == LONGEST


def test_work_resets_the_advice() -> None:
    clock = Clock()
    back_off = BackOff(clock.now)
    for _ in range(5):
        window(back_off, clock, FREE + 1)
    back_off.worked("p/w")
    assert back_off.in_vain("p/w") == 0


def test_quiet_windows_halve_the_advice() -> None:
    clock = Clock()
    back_off = BackOff(clock.now)
    for _ in range(5):
        window(back_off, clock, FREE + 1)
    assert [window(back_off, clock, 1) for _ in range(6)] == [16, 8, 4, 2, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=30))
def test_advice_is_none_or_a_power_of_two_up_to_the_longest(traffic: list[tuple[int, int]]) -> None:
    clock = Clock()
    back_off = BackOff(clock.now)
    for requests, pause in traffic:
        for _ in range(requests):
            assert back_off.in_vain("p/w") in {0, 1, 2, 4, 8, 16, 32, 64}
        clock.time += timedelta(seconds=pause)
