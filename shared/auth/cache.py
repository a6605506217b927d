"""A cache with a stated staleness: many who ask for the same at once cause one read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from shared.recent import Recent

T = TypeVar("T")


class StaleCache(Generic[T]):
    """Keeps what was read for a while, by key. For one event loop."""

    def __init__(
        self, now: Callable[[], datetime], capacity: int, staleness: timedelta, absence: timedelta | None = None
    ) -> None:
        """`absence` is how long a None is kept, if that differs from `staleness`.

        Each kind has the capacity for itself: names that nobody has push out none that somebody has.
        """
        self._now = now
        self._staleness = staleness
        self._absence = staleness if absence is None else absence
        self._entries: Recent[str, tuple[T, datetime]] = Recent(capacity)
        self._absent: Recent[str, tuple[T, datetime]] = Recent(capacity)
        self._reads: dict[str, asyncio.Future[T]] = {}
        self._changes = 0

    @property
    def changes(self) -> int:
        """How often something was forgotten so far. Read before a write, it shows `put` what came in between."""
        return self._changes

    async def get(self, key: str, read: Callable[[], Awaitable[T]]) -> T:
        """What is kept, or what is read now, by this caller or by one before it. Raises what the read raises."""
        while True:
            entry = self._entries.get(key) or self._absent.get(key)
            if entry is not None and self._is_fresh(*entry):
                return entry[0]
            reading = self._reads.get(key)
            if reading is None:
                return await self._read(key, read)
            await asyncio.wait([reading])
            if not reading.cancelled():  # else its caller has gone away, and the next one reads
                return reading.result()

    async def _read(self, key: str, read: Callable[[], Awaitable[T]]) -> T:
        """Reads for all who ask meanwhile; who asks after a change is not among them."""
        reading = self._reads[key] = asyncio.get_running_loop().create_future()
        started, changes = self._now(), self._changes
        try:
            value = await read()
        except Exception as error:
            reading.set_exception(error)
            reading.exception()  # perhaps no one else waits for it, which is fine
            raise
        else:
            self.put(key, value, since=changes, read=started)
            reading.set_result(value)
            return value
        finally:
            reading.cancel()  # nothing happens unless the caller was cancelled
            if self._reads.get(key) is reading:
                del self._reads[key]

    def put(self, key: str, value: T, *, since: int, read: datetime | None = None) -> None:
        """Keeps what was read or written, unless something was forgotten since `changes` was `since`."""
        if since != self._changes:
            return  # it may be from before the change
        kept, other = (self._absent, self._entries) if value is None else (self._entries, self._absent)
        kept[key] = (value, read or self._now())
        other.pop(key)

    def forget(self, key: str) -> None:
        """Drops an entry that has just been changed, or may have been."""
        self._changes += 1
        self._entries.pop(key)
        self._absent.pop(key)
        self._reads.pop(key, None)

    def _is_fresh(self, value: T, read: datetime) -> bool:
        return timedelta(0) <= self._now() - read < (self._absence if value is None else self._staleness)
