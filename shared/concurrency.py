"""Running storage requests side by side without leaving one behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar, cast

T = TypeVar("T")
S = TypeVar("S")


async def together(*awaitables: Awaitable[T]) -> list[T]:
    """Awaits all, also when one fails, and only then raises the first failure: nothing runs after the reply."""
    outcomes = await asyncio.gather(*awaitables, return_exceptions=True)
    results: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results


async def both(first: Awaitable[T], second: Awaitable[S]) -> tuple[T, S]:
    """As `together`, for two of different kinds."""
    results = await asyncio.gather(first, second, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("tuple[T, S]", tuple(results))


async def in_waves(width: int, work: Callable[[S], Awaitable[T]], items: Iterable[S]) -> list[T]:
    """Applies `work` to every item, at most `width` at a time, and answers in the items' order."""
    gate = asyncio.Semaphore(width)

    async def bounded(item: S) -> T:
        async with gate:
            return await work(item)

    return await together(*(bounded(item) for item in items))


async def comes_within(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event so long at the most, and tells whether it has come."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
