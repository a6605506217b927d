"""What one process takes on at a time: calls, long polls, uploads and large bodies. What is more is refused at once.

A call that waits without end for its turn is worse than one that is refused: its client times out and sends it again,
while the process still works on what no client waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from shared.api.validation import measure_body, parse_body
from shared.errors import ServiceUnavailable
from shared.jsontext import Measure

READ_AT_ONCE = 16 * 1024
"""Bytes: bodies up to this size are parsed at once, since that takes no more than a few milliseconds."""
MOST_HELD = 48 * 1024 * 1024
"""Bytes of memory for the parsed bodies larger than READ_AT_ONCE, of all calls together."""
MOST_WAITING = 32 * 1024 * 1024
"""Bytes of the bodies that wait for room."""


class Load:
    """How many calls this process works on and how many long polls it holds."""

    def __init__(self, most_calls: int, most_polls: int) -> None:
        """From three quarters of `most_calls` on there are no long polls, and beyond `most_calls` no calls at all."""
        self._most_calls = most_calls
        self._most_polls = most_polls
        self.calls = 0
        """Calls under way, without long polls."""
        self.polls = 0
        """Long polls under way."""

    @property
    def is_high(self) -> bool:
        """Whether long polls are given up, so that other calls go on."""
        return self.calls * 4 >= self._most_calls * 3

    @contextmanager
    def call(self, end_polls: Callable[[], None]) -> Iterator[None]:
        """One call under way; `end_polls` lets all long polls end now. Raises ServiceUnavailable."""
        if self.calls >= self._most_calls:
            raise ServiceUnavailable("this process is handling as many calls as it can; send the call again")
        self.calls += 1
        try:
            if self.is_high and self.polls:
                end_polls()
            yield
        finally:
            self.calls -= 1

    @contextmanager
    def poll(self) -> Iterator[None]:
        """One long poll under way. Raises ServiceUnavailable."""
        if self.is_high or self.polls >= self._most_polls:
            raise ServiceUnavailable("this process holds as many long polls as it can; send the call again")
        self.polls += 1
        try:
            yield
        finally:
            self.polls -= 1


class Contents:
    """The bytes of uploads that pass through this process at a time: they are in its memory as a whole."""

    def __init__(self, most_held: int) -> None:
        """`most_held` in bytes; one upload may have more, if it is the only one."""
        self._most_held = most_held
        self._held = 0

    @contextmanager
    def content(self, length: int) -> Iterator[None]:
        """One upload of so many bytes under way. Raises ServiceUnavailable."""
        if self._held and self._held + length > self._most_held:
            raise ServiceUnavailable("this process is storing as many uploads as it can; send the request again")
        self._held += length
        try:
            yield
        finally:
            self._held -= length


class Bodies:
    """Reads JSON bodies: large ones one at a time, beside the event loop, and no more than there is room for."""

    def __init__(self, most_held: int = MOST_HELD, most_waiting: int = MOST_WAITING) -> None:
        self._most_held = most_held
        self._most_waiting = most_waiting
        self._held = 0
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()
        # One thread of its own: each further one would keep memory of its own.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bodies")

    @asynccontextmanager
    async def parsed(self, body: bytes) -> AsyncIterator[Any]:
        """The object or array of a JSON body, which has its room until the context ends.

        Raises InputError, MalformedPayload, and ServiceUnavailable when too much waits already.
        """
        if len(body) <= READ_AT_ONCE:
            yield parse_body(body, measure_body(body))
            return
        if self._waiting and self._waiting + len(body) > self._most_waiting:
            raise ServiceUnavailable("this process is handling as many large requests as it can; send the call again")
        self._waiting += len(body)
        try:
            async with self._turn:
                measured = await self._beside(measure_body, body)
                await self._room_for(measured)
                self._held += measured.memory
                try:
                    payload = await self._beside(parse_body, body, measured)
                except BaseException:
                    self._free(measured)
                    raise
        finally:
            self._waiting -= len(body)
        try:
            yield payload
        finally:
            del payload
            self._free(measured)

    async def _room_for(self, measured: Measure) -> None:
        """Waits for room; a body larger than the limit waits until it is the only one."""
        while self._held and self._held + measured.memory > self._most_held:
            self._freed.clear()
            await self._freed.wait()

    def _free(self, measured: Measure) -> None:
        self._held -= measured.memory
        self._freed.set()

    async def _beside(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
