"""The one budget of memory for the large request bodies and the definitions of all calls in a process."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from weakref import finalize

from shared.base import bounds
from shared.base.errors import ServiceUnavailable
from shared.base.shares import Place, Room, Scarce, Share

LONGEST_WAIT_FOR_ROOM = 5.0
"""Seconds that a call waits for room, while it has none."""


class NoRoom(ServiceUnavailable):
    """There is no room now: the process has as much in memory as it can, or the call as much as it may."""

    def __init__(self) -> None:
        super().__init__("this process has as much in memory as it can; send the call again")


class Memory(Scarce):
    """The memory budget, in bytes, of the large bodies and definitions that a process uses or keeps. Memory taken for a
    definition is freed when the definition is garbage-collected. So a call need not give it back, and cannot do so too
    early."""

    def __init__(self, size: int, make_room: Callable[[], bool], *, reserve: int = 0) -> None:
        """Makes a budget. `make_room` drops something from a cache, and returns whether there was anything to drop."""
        room = Room(math.inf, bounds.BYTES_WAITING)
        super().__init__(size, room, NoRoom, reserve=reserve, longest_wait=LONGEST_WAIT_FOR_ROOM)
        self._make_room = make_room
        # Finalizers run at any time and in any thread, so what they free is counted by the next call.
        self._freed: deque[tuple[int, Share]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def used(self) -> int:
        """Bytes that are taken now."""
        while self._freed:
            self._free(*self._freed.popleft())
        return self._used

    async def take(self, place: Place, check: Callable[[], Awaitable[Share]] | None = None) -> None:
        """Takes memory as `Scarce.take` takes units. Raises NoRoom."""
        self._loop = asyncio.get_running_loop()
        await super().take(place, check)

    def shrink(self, place: Place, units: int) -> None:
        """Gives back what a place has beyond `units`."""
        self._free(place.units - units, place.share)
        place.units = units
        self.serve()

    def free_with(self, kept: object, place: Place) -> None:
        """Gives back what a place has when the object is garbage-collected."""
        place.is_held = False
        finalize(kept, self._freed_anywhere, place.units, place.share).atexit = False

    def _freed_anywhere(self, size: int, share: Share) -> None:
        """Notes what was freed. The garbage collector calls it at any time, in any thread."""
        self._freed.append((size, share))
        if self.waiting and self._loop is not None:
            self._loop.call_soon_threadsafe(self.serve)

    def _fits(self, place: Place) -> bool:
        while not super()._fits(place):
            if not self._make_room():
                return False
        return True
