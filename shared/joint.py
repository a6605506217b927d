"""One attempt at a time for all who wait for the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class OneByOne:
    """One attempt at something at a time, for each caller its own; those who wait share a failure.

    Where it fails slowly they would fail one after the other, and the last of them after a very long time.
    """

    def __init__(self) -> None:
        self._trying = asyncio.Lock()
        self._waiting = 0
        self._begun = 0
        self._failed: tuple[int, Exception] | None = None
        """Which of all attempts was the latest that failed, and how; for as long as somebody waits."""

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What the attempt returns. Raises what it raises, or what one has raised that began after this call did."""
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
                self._failed = None  # whose stack frames refer to this
