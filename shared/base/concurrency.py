"""Running storage requests side by side without leaving one behind, in bounded number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar, cast

from shared.base import bounds
from shared.base.errors import ServiceUnavailable

TOO_MANY_LISTS = "this process is reading as many lists as it can; send the call again"

T = TypeVar("T")
S = TypeVar("S")


async def together(*awaitables: Awaitable[T]) -> list[T]:
    """Awaits all of them even if one fails, and then raises the first failure. So nothing is still running when the
    call is answered.
    """
    if len(awaitables) < 2:  # creating a task often costs more than what is awaited
        return [await each for each in awaitables]
    outcomes = await asyncio.gather(*awaitables, return_exceptions=True)
    _raise_first(outcomes)
    return cast("list[T]", outcomes)


async def both(first: Awaitable[T], second: Awaitable[S]) -> tuple[T, S]:
    """Like `together`, for two of different kinds."""
    outcomes = list(await asyncio.gather(first, second, return_exceptions=True))
    _raise_first(outcomes)
    return cast("tuple[T, S]", tuple(outcomes))


def _raise_first(outcomes: list[Any]) -> None:
    """Raises the first failure.

    The list is cleared first: an exception's traceback would otherwise keep every outcome alive (a reference cycle).
    """
    failure = next((each for each in outcomes if isinstance(each, BaseException)), None)
    if failure is None:
        return
    outcomes.clear()
    try:
        raise failure
    finally:
        del failure


async def in_waves(width: int, work: Callable[[S], Awaitable[T]], items: Iterable[S]) -> list[T]:
    """Applies `work` to every item, at most `width` at a time, and returns the results in the items' order."""
    waiting = list(items)
    if len(waiting) <= width:
        return await together(*map(work, waiting))
    gate = asyncio.Semaphore(width)

    async def bounded(item: S) -> T:
        async with gate:
            return await work(item)

    return await together(*map(bounded, waiting))


class Turns:
    """Limits how many callers run something expensive at a time. The number of waiting callers is bounded too, since
    each of them counts as a call under way.
    """

    def __init__(self, at_once: int, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._waiting = 0
        self._free = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One turn. Raises ServiceUnavailable when too many wait already."""
        if self._waiting >= self._most_waiting:
            raise ServiceUnavailable(TOO_MANY_LISTS)
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()


class Lookups:
    """Reads something small for each of a list.

    All lists share the reads that may be under way, so that one with something that cannot be read holds up no other.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._reads = asyncio.Semaphore(bounds.ROWS_AT_A_TIME)

    async def each(self, find: Callable[[S], Awaitable[T]], items: Iterable[S]) -> list[T]:
        """What `find` finds for each item. Raises what it raises, ServiceUnavailable when too many lists are read."""

        async def found(item: S) -> T:
            async with self._reads:
                return await find(item)

        if self._calls >= bounds.LISTS_OF_LOOKUPS:
            raise ServiceUnavailable(TOO_MANY_LISTS)
        self._calls += 1
        try:
            return await in_waves(bounds.TASKS_AT_A_TIME, found, items)
        finally:
            self._calls -= 1


async def comes_within(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event, with a time limit in seconds; returns whether it was set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


class OneByOne:
    """Runs one attempt at a time, a separate one for each caller. If an attempt fails, the callers that wait fail with
    it.

    Otherwise, slow failures would follow one another, and the last caller would wait very long for its own.
    """

    def __init__(self) -> None:
        self._trying = asyncio.Lock()
        self._waiting = 0
        self._begun = 0
        self._failed: tuple[int, Exception] | None = None
        """Number and exception of the latest failed attempt. Kept only while somebody waits."""

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The attempt's result. Raises its exception, or that of another attempt that began after this call did."""
        asked = self._begun
        self._waiting += 1
        try:
            async with self._trying:
                if self._failed is not None and self._failed[0] > asked:
                    raise self._failed[1]
                self._begun += 1
                number = self._begun
                try:
                    return await attempt()
                except Exception as failure:
                    self._failed = number, failure
                    raise
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._failed = None  # its traceback refers to this object: a reference cycle
