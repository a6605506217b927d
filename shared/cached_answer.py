"""An answer that is found once for all who ask at the same time, and kept for some seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class CachedAnswer(Generic[T]):
    """Finds an answer in a single flight; one that could not be found is looked for again by the next who asks."""

    def __init__(self, find: Callable[[], Awaitable[T]], monotonic: Callable[[], float], seconds: float) -> None:
        """`seconds`: how long an answer is given to others."""
        self._find = find
        self._monotonic = monotonic
        self._seconds = seconds
        self._found_at = 0.0
        self._finding: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """The answer. Raises what finding it raises."""
        finding = self._finding
        if finding is None or (finding.done() and not self._is_good(finding)):
            finding = self._finding = asyncio.create_task(self._look())
        return await asyncio.shield(finding)

    async def _look(self) -> T:
        found = await self._find()
        self._found_at = self._monotonic()
        return found

    def _is_good(self, done: asyncio.Task[T]) -> bool:
        if done.cancelled() or done.exception() is not None:
            return False
        return self._monotonic() - self._found_at <= self._seconds
