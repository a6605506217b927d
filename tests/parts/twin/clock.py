"""A clock that goes only when it is advanced."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """Time in whole microseconds since `start`. `now` and `sleep` fit `shared.runtime.Runtime`."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start
        self._microseconds = 0
        self._exact = self._now = start
        self._read()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._microseconds / 1e6

    def exact(self) -> datetime:
        """Returns the present time to the microsecond, as a server knows it."""
        return self._exact

    def now(self) -> datetime:
        """Returns the present time truncated to milliseconds, as `shared.runtime.utc_now`."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Lets time pass; a part of a microsecond counts as one, so that a timer is never a hair early."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self._microseconds += math.ceil(round(seconds * 1e6, 3))
        self._read()

    def _read(self) -> None:
        """Computes the present time once, since it is read far more often than it is advanced."""
        self._exact = self._start + timedelta(microseconds=self._microseconds)
        self._now = self._exact.replace(microsecond=self._exact.microsecond // 1000 * 1000)

    async def sleep(self, seconds: float) -> None:
        """Waits for `seconds`: beside the others in a simulation; elsewhere the clock jumps, and it returns at once."""
        loop = asyncio.get_running_loop()
        if getattr(loop, "clock", None) is self:
            await asyncio.sleep(seconds)
            return
        self.advance(max(0.0, seconds))
        await asyncio.sleep(0)
