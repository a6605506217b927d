"""Running storage requests side by side without leaving one behind, in bounded number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from shared.base import bounds
from shared.base.errors import ServiceUnavailable
from shared.base.shares import Room, Scarce

TOO_MANY_LISTS = "this process is reading as many lists as it can; send the call again"

T = TypeVar("T")
S = TypeVar("S")


async def together(*awaitables: Awaitable[T]) -> list[T]:
    """Awaits all of them even if one fails, and then raises the first failure. So nothing is still running when the
    call is answered. The first runs in the caller's own task: creating a task often costs more than what is awaited.
    The others are cancelled with the caller, and awaited all the same."""
    if len(awaitables) < 2:
        return [await each for each in awaitables]
    caller = cast("asyncio.Task[Any]", asyncio.current_task())
    cancelled = before = caller.cancelling()
    first, *others = awaitables
    tasks = [asyncio.ensure_future(each) for each in others]
    outcomes: list[Any] = []
    for each in (first, *tasks):
        try:
            outcomes.append(await each)
        except BaseException as failure:
            outcomes.append(failure)
        if caller.cancelling() > cancelled:
            cancelled = caller.cancelling()
            for task in tasks:
                task.cancel()
    # An exception's traceback refers to this frame: a local variable that leads to it would make a reference cycle.
    del each
    tasks.clear()
    if cancelled > before:
        outcomes.clear()
        raise asyncio.CancelledError
    failures = [each for each in outcomes if isinstance(each, BaseException)]
    if failures:
        outcomes.clear()  # the traceback would keep every outcome alive: a reference cycle
        try:
            raise failures[0]
        finally:
            failures.clear()
    return outcomes


async def both(first: Awaitable[T], second: Awaitable[S]) -> tuple[T, S]:
    """Awaits two of different types, as `together` does."""
    return cast("tuple[T, S]", tuple(await together(cast("Awaitable[Any]", first), second)))


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


def turns(at_once: int, most_waiting: int) -> Scarce:
    """Turns of callers who read lists. Few wait, as each of them counts as a call under way."""
    return Scarce(at_once, Room(most_waiting), partial(ServiceUnavailable, TOO_MANY_LISTS), reserve=at_once // 4)


class Lookups:
    """Reads something small for each item of a list. Only a bounded number of lists are read at a time."""

    def __init__(self) -> None:
        self._turns = turns(bounds.LOOKUPS_AT_A_TIME, bounds.LOOKUPS_WAITING)

    async def each(self, find: Callable[[S], Awaitable[T]], items: Iterable[S]) -> list[T]:
        """Returns what `find` finds for each item. Raises as it does, ServiceUnavailable for too many lists."""
        async with self._turns.hold():
            return await in_waves(bounds.TASKS_AT_A_TIME, find, items)


async def comes_within(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event, with a time limit in seconds; returns whether it was set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


class OneByOne:
    """Runs one attempt at a time, a separate one for each caller. If an attempt fails, the callers that wait fail with
    it. Otherwise, slow failures would follow one another, and the last caller would wait very long for its own."""

    def __init__(self) -> None:
        self._trying = asyncio.Lock()
        self._waiting = 0
        self._begun = 0
        self._failed: tuple[int, Exception] | None = None
        """Number and exception of the latest failed attempt. Kept only while somebody waits."""

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Returns the attempt's result. Raises its exception, or that of an attempt that began after this call."""
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
