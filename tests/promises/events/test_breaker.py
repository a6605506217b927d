"""The circuit breaker, on a clock of its own."""

from __future__ import annotations

import pytest

from shared.base.retrying import Retries
from shared.queue.events.announcer import Breaker


class Clock:
    """A clock whose seconds pass when the test says so."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fail(breaker: Breaker) -> None:
    with breaker.attempt():
        breaker.failed()


def test_it_opens_after_so_many_failures_in_a_row(clock: Clock) -> None:
    breaker = Breaker(clock, threshold=3)
    fail(breaker)
    fail(breaker)
    breaker.succeeded()
    fail(breaker)
    fail(breaker)
    assert not breaker.blocks()
    fail(breaker)
    assert breaker.blocks()


def test_one_probe_at_a_time_tries_again_after_a_pause_that_doubles(clock: Clock) -> None:
    breaker = Breaker(clock, retries=Retries(first=1, longest=4))
    fail(breaker)
    for pause in (1, 2, 4, 4):
        clock.time += pause - 0.01
        assert breaker.blocks()
        clock.time += 0.01
        assert not breaker.blocks()
        with breaker.attempt():
            assert breaker.blocks(), "others wait for the probe"
            breaker.failed()
    clock.time += 4
    with breaker.attempt():
        breaker.succeeded()
        assert not breaker.blocks()
    assert not breaker.is_open
    fail(breaker)
    clock.time += 1
    assert not breaker.blocks(), "the pause is the first one again"


def test_late_failures_of_earlier_attempts_do_not_prolong_the_pause(clock: Clock) -> None:
    breaker = Breaker(clock, retries=Retries(first=1, longest=30))
    with breaker.attempt(), breaker.attempt(), breaker.attempt():
        breaker.failed()
        breaker.failed()
        clock.time += 0.5
        breaker.failed()
    clock.time += 0.5
    assert not breaker.blocks()


def test_a_probe_that_is_given_up_leaves_room_for_the_next(clock: Clock) -> None:
    breaker = Breaker(clock)
    fail(breaker)
    clock.time += 1
    with breaker.attempt():
        assert breaker.blocks()
    assert not breaker.blocks()
    with breaker.attempt():
        assert breaker.blocks()
