"""What runs side by side ends before the caller goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from shared.base.concurrency import together


class Side:
    """Coroutines that note how they end."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def waits(self, name: str) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            self.ended.append(name)
        return name

    async def answers(self, name: str) -> str:
        await asyncio.sleep(0)
        self.ended.append(name)
        return name

    async def fails(self, name: str) -> str:
        raise ValueError(name)

    async def goes_on(self, name: str) -> str:
        try:
            return await self.waits(name)
        except asyncio.CancelledError:
            return name


async def test_results_come_in_order_and_the_first_failure_after_the_last_end() -> None:
    side = Side()
    assert await together(side.answers("a"), side.answers("b")) == ["a", "b"]
    for each in (
        (side.fails("1"), side.answers("c"), side.fails("2")),
        (side.answers("c"), side.fails("1"), side.fails("2")),
    ):
        side.ended.clear()
        with pytest.raises(ValueError, match="1"):
            await together(*each)
        assert side.ended == ["c"]


@pytest.mark.parametrize(
    "kinds", [("waits", "waits"), ("goes_on", "waits"), ("waits", "goes_on"), ("answers", "waits", "goes_on")]
)
async def test_a_cancelled_caller_cancels_all_and_waits_for_their_end(kinds: tuple[str, ...]) -> None:
    side = Side()
    names = [str(number) for number in range(len(kinds))]
    made: list[Awaitable[str]] = [getattr(side, kind)(name) for kind, name in zip(kinds, names, strict=True)]
    call = asyncio.create_task(together(*made))
    for _ in range(5):
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert sorted(side.ended) == names
