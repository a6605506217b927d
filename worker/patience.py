"""Waiting for what must have ended before anything else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Awaitable[T]) -> T:
    """The result of work that is finished even if its caller is cancelled, however often. The cancellation is raised
    afterwards."""
    working, is_cancelled = asyncio.ensure_future(work), False
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError from working.exception()
    return working.result()


async def all_or_none(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all. If one fails, or the caller is cancelled, that is raised only when all others have ended."""
    working = [asyncio.create_task(each) for each in work]
    try:
        return await asyncio.gather(*working)
    finally:
        for each in working:
            each.cancel()
        await to_the_end(asyncio.gather(*working, return_exceptions=True))
