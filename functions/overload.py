"""What one process takes on at a time: calls, long polls and large bodies. More calls wait for their turn.

A call that waits longer than its client is worse than a refused one: the client sends it again, while the process still
works on the first one, whose answer nobody reads."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from shared.api.validation import measure_body, parse_body
from shared.base import bounds
from shared.base.concurrency import comes_within
from shared.base.errors import ServiceUnavailable
from shared.base.memory import Memory
from shared.base.shares import CHECKING, LONGEST_WAIT, Place, Room, Scarce, Share

POLL_PAUSE = 5.0
"""Seconds after which a long poll is answered while the load is high, once it has polled for work."""

TOO_MANY = "this process is handling as many calls as it can; send the call again"
TOO_MANY_POLLS = "this process holds as many long polls as it can; send the call again"
TOO_LARGE = "this process is handling as many large requests as it can; send the call again"

Check = Callable[[], Awaitable[Share]]
"""Refuses a call if its URL and headers already show that it is not allowed, and says in whose name it comes. Raises
ApiError, StorageUnavailable."""


class Load:
    """How many calls this process works on, how many wait for their turn, and how many long polls it holds."""

    def __init__(
        self,
        most_calls: int,
        most_polls: int,
        *,
        longest_wait: float = LONGEST_WAIT,
        poll_pause: float = POLL_PAUSE,
        most_bytes: int = bounds.BYTES_WAITING,
    ) -> None:
        """Takes the limits. Long polls wait below three quarters of `most_calls` calls; beyond it, calls take turns."""
        self._most_calls = most_calls
        self._poll_pause = poll_pause
        self._calls = Scarce(
            most_calls,
            Room(most_calls * bounds.CALLS_WAITING_FOR_EACH, most_bytes),
            partial(ServiceUnavailable, TOO_MANY),
            longest_wait=longest_wait,
            changed=self._note_load,
        )
        self._polls = Room(most_polls)
        self._calm = asyncio.Event()
        self._calm.set()

    @property
    def calls(self) -> int:
        """Number of calls under way, without long polls."""
        return self._calls.used

    @property
    def polls(self) -> int:
        """Number of long polls under way."""
        return len(self._polls)

    @property
    def waiting(self) -> int:
        """Number of calls that wait for their turn."""
        return self._calls.waiting

    @property
    def is_high(self) -> bool:
        """Whether the load is so high that long polls are ended in favour of other calls."""
        return self._is_high(self.calls)

    @asynccontextmanager
    async def call(self, check: Check, size: int, end_polls: Callable[[], None]) -> AsyncIterator[bool]:
        """Holds the place of a call under way, with a body of `size` bytes, once it was checked and had its turn.
        Yields whether it had to wait. `end_polls` ends all long polls.

        A call that has to wait is checked first: one that is refused in any case need not wait, and in whose name it
        comes must be known for the turns. Raises what the check raises, and ServiceUnavailable when the turn does not
        come in time."""
        if self.polls and self._is_high(self.calls + 1):
            end_polls()
        async with self._calls.hold(size=size, check=check) as place:
            yield place.has_waited

    @asynccontextmanager
    async def poll(self, check: Check) -> AsyncIterator[asyncio.Event]:
        """Holds the place of a long poll under way, after it was checked. Yields an event that is set if the poll has
        to end before its time, so that a caller of another share has its place. Raises what the check raises, and
        ServiceUnavailable."""
        place = Place(share=CHECKING)
        try:
            _end(self._polls.enter(place))
            _end(self._polls.move(place, await check()))
            if place.turn.is_set():
                raise ServiceUnavailable(TOO_MANY_POLLS)
            yield place.turn
        finally:
            self._polls.leave(place)

    async def falls(self) -> bool:
        """Waits a moment for the load to fall; returns whether it has. Long polls that have found no work wait here
        while the load is high: if they were answered at once, their clients would call again at once. They poll for
        work before, while their clients are certainly connected."""
        return await comes_within(self._calm, self._poll_pause)

    def _is_high(self, calls: int) -> bool:
        return calls * 4 >= self._most_calls * 3

    def _note_load(self) -> None:
        if self.is_high:
            self._calm.clear()
        else:
            self._calm.set()


def _end(polls: Sequence[Place]) -> None:
    for each in polls:
        each.turn.set()


class Bodies:
    """Parses JSON bodies, within the memory budget. Large ones are parsed in a thread, one at a time."""

    def __init__(self, most_waiting: int = bounds.BYTES_WAITING) -> None:
        self._turns = Scarce(1, Room(math.inf, most_waiting), partial(ServiceUnavailable, TOO_LARGE))
        # A single thread: each further one would keep memory of its own.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bodies")

    @asynccontextmanager
    async def parsed(self, body: bytes, memory: Memory) -> AsyncIterator[Any]:
        """Yields the object or array of a JSON body. Its memory is reserved until the context ends. Raises InputError,
        MalformedPayload, and ServiceUnavailable when too much waits already, or for too long."""
        if len(body) <= bounds.SMALL_BODY:
            yield parse_body(body, measure_body(body))
            return
        measured = await self._beside(measure_body, body)
        place = Place(units=measured.memory, size=len(body))
        await memory.take(place)
        try:
            payload = await self._beside(parse_body, body, measured)
            try:
                yield payload
            finally:
                del payload
        finally:
            memory.leave(place)

    async def _beside(self, work: Callable[..., Any], body: bytes, *arguments: Any) -> Any:
        async with self._turns.hold(size=len(body)):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, body, *arguments)
