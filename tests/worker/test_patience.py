"""Waiting for what must have ended, whoever gives up meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from worker.patience import all_or_none, to_the_end


async def test_a_result_is_passed_on() -> None:
    async def seven() -> int:
        return 7

    assert await to_the_end(seven()) == 7


@pytest.mark.parametrize("is_failing", [False, True])
async def test_cancelling_waits_for_the_end_each_time(is_failing: bool) -> None:
    go_on, done = asyncio.Event(), []

    async def work() -> None:
        await go_on.wait()
        done.append(True)
        if is_failing:
            raise ValueError

    waiting = asyncio.create_task(to_the_end(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done == [True]


async def test_when_one_fails_the_others_have_ended() -> None:
    ended = []

    async def last() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("it fails")

    with pytest.raises(ValueError, match="it fails"):
        await all_or_none([last(), fail(), last()])
    assert ended == [True, True]


async def test_all_results_in_their_order() -> None:
    async def number(value: int) -> int:
        await asyncio.sleep(0)
        return value

    assert await all_or_none(number(value) for value in range(3)) == [0, 1, 2]
    assert await all_or_none([]) == []
