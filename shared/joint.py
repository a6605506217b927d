"""Reading something once for all who ask at the same time, without giving anybody an answer older than the question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(eq=False)
class _Entry(Generic[T]):
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    turn: int = 0
    found: list[T] = field(default_factory=list)
    """The latest answer; none if there was a failure instead."""
    failure: Exception | None = None


class Joint(Generic[K, T]):
    """One reader at a time for each key. Those who come while it reads wait for the next reading, and share it."""

    def __init__(self) -> None:
        self._entries: dict[K, _Entry[T]] = {}
        self._turns = 0

    async def read(self, key: K, read: Callable[[], Awaitable[T]]) -> T:
        """The answer of a reading that began after this call did, or its failure: raises what `read` raises.

        Those who wait share a failure as well: what cannot be read takes long, and they would try one after the other.
        """
        entry = self._entries.setdefault(key, _Entry())
        asked = self._turns
        entry.waiting += 1
        try:
            async with entry.reading:
                if entry.turn <= asked:
                    self._turns += 1
                    turn = self._turns
                    try:
                        entry.found, entry.failure = [await read()], None
                    except Exception as failure:
                        entry.found, entry.failure = [], failure
                    entry.turn = turn
                if entry.failure is not None:
                    raise entry.failure
                return entry.found[0]
        finally:
            entry.waiting -= 1
            if not entry.waiting:
                del self._entries[key]
                entry.failure = None  # whose stack frames refer to the entry


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
