"""One budget of memory for large request bodies and definitions, of all calls in a process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from weakref import finalize

from shared.base.errors import ServiceUnavailable

LONGEST_WAIT_FOR_ROOM = 5.0
"""Seconds that a call waits for room, while it has none."""


class NoRoom(ServiceUnavailable):
    """There is no room now: the process has as much in memory as it can, or the call as much as it may."""

    def __init__(self) -> None:
        super().__init__("this process has as much in memory as it can; send the call again")


class Memory:
    """The memory budget, in bytes, of the large bodies and definitions that a process uses or keeps.

    Memory taken for a definition is freed when the definition is garbage-collected. So a call need not give it back,
    and cannot do so too early.
    """

    def __init__(self, size: int, make_room: Callable[[], bool]) -> None:
        """`make_room` drops something from a cache, and returns whether there was anything to drop."""
        self._size = size
        self._make_room = make_room
        self._taken = 0
        # Finalizers run at any time and in any thread, so what they free is counted by the next call.
        self._freed: deque[int] = deque()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def taken(self) -> int:
        """Bytes that are taken now."""
        while self._freed:
            self._taken -= self._freed.popleft()
        return self._taken

    def try_take(self, size: int) -> bool:
        """Takes `size` bytes if they are free and no call waits. More than the whole budget is granted when nothing
        else is taken.
        """
        return not self._waiting and self._fits(size)

    async def take(self, size: int) -> None:
        """Like `try_take`, but waits for its turn. Raises NoRoom when that takes too long."""
        if self.try_take(size):
            return
        self._loop = asyncio.get_running_loop()
        turn = self._loop.create_future()
        self._waiting.append((size, turn))
        try:
            await asyncio.wait_for(turn, LONGEST_WAIT_FOR_ROOM)
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.free(size)
            self._serve()
            if isinstance(error, TimeoutError):
                raise NoRoom from None
            raise

    def free(self, size: int) -> None:
        """Gives back `size` bytes. May be called at any time, from any thread."""
        self._freed.append(size)
        if self._waiting and self._loop is not None:
            self._loop.call_soon_threadsafe(self._serve)

    def free_with(self, kept: object, size: int) -> None:
        """Frees `size` bytes when the object is garbage-collected."""
        finalize(kept, self.free, size).atexit = False

    def _serve(self) -> None:
        """Serves the waiting calls in the order in which they came, as far as the budget allows."""
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.done():
                if not self._fits(size):
                    return
                turn.set_result(None)
            self._waiting.popleft()

    def _fits(self, size: int) -> bool:
        while self.taken and self.taken + size > self._size:
            if not self._make_room():
                return False
        self._taken += size
        return True
