"""The attempts of compare-and-swap loops: how many there are, and the pauses between them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from shared.base.retrying import LOST_RACE, Retries
from shared.runtime import Runtime, attempts


def collected(
    retries: Retries = LOST_RACE, *, jitter: float = 1.0, stop_at: int | None = None
) -> tuple[list[int], list[float]]:
    """Returns the numbers of the attempts, and the seconds of the pauses."""
    numbers: list[int] = []
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def run() -> None:
        runtime = Runtime(sleep=sleep, jitter=lambda: jitter)
        async for attempt in attempts(runtime, retries):
            numbers.append(attempt)
            if attempt == stop_at:
                return

    asyncio.run(run())
    return numbers, pauses


def test_attempts_pause_between_and_neither_before_the_first_nor_after_the_last() -> None:
    numbers, pauses = collected()
    assert numbers == list(range(LOST_RACE.tries))
    assert pauses == [LOST_RACE.first * 2**number for number in range(LOST_RACE.tries - 1)]


def test_an_attempt_that_succeeds_costs_no_pause() -> None:
    assert collected(stop_at=0) == ([0], [])


def test_pauses_are_bounded() -> None:
    _, pauses = collected(replace(LOST_RACE, tries=12))
    assert max(pauses) == pauses[-1] == LOST_RACE.longest


@pytest.mark.parametrize("jitter", [0.0, 0.25])
def test_pauses_have_full_jitter(jitter: float) -> None:
    _, pauses = collected(jitter=jitter)
    assert pauses == [jitter * LOST_RACE.first * 2**number for number in range(LOST_RACE.tries - 1)]
