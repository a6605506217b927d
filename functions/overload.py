"""What one process takes on at a time: calls, long polls, uploads and large bodies. More calls wait for their turn.

A call that waits longer than its client is worse than a refused one: the client sends it again, while the process still
works on the first one, whose answer nobody reads.

Each client has a share of those that wait, and shares take turns, so that the calls of one client do not delay those of
the others. A name counts only once its signature is verified: all calls without a verified name are one share.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from shared.api.validation import measure_body, parse_body
from shared.base import bounds
from shared.base.concurrency import comes_within
from shared.base.errors import ServiceUnavailable
from shared.base.memory import Memory

LONGEST_WAIT = 15.0
"""Seconds that a call waits for its turn. The JavaScript client gives up after 30, and the call itself takes some of
them.
"""
POLL_PAUSE = 5.0
"""Seconds after which a long poll is answered while the load is high, once it has polled for work."""

TOO_MANY = "this process is handling as many calls as it can; send the call again"

Share = tuple[Literal["being checked", "without a name", "of a client"], str]
"""Identifies a share: the verified clientId, or a constant."""

BEING_CHECKED: Share = ("being checked", "")
"""The share of calls whose credentials are not checked yet: they count towards the bound, but get no turn."""
WITHOUT_A_NAME: Share = ("without a name", "")


def share_of(client_id: str | None) -> Share:
    """The share of a verified client; None for a call that names none, or none that could be verified."""
    return WITHOUT_A_NAME if client_id is None else ("of a client", client_id)


@dataclass(eq=False, kw_only=True)
class Visit:
    """A call that needs a place among those in hand."""

    size: int
    """Bytes of its body."""
    has_place: bool = False
    share: Share = BEING_CHECKED
    turn: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the call gets its place."""
    waits: asyncio.Timeout | None = None
    """The time limit of the call's wait; rescheduled to end the wait at once."""


@dataclass(slots=True)
class _Waiting:
    visits: dict[Visit, None] = field(default_factory=dict)
    """The waiting calls of a share, in the order in which they came."""
    size: int = 0


class Room:
    """The waiting room, bounded in calls and in bytes. When it is full, the largest share loses a call.

    There is a share for each client whose calls wait, so the bound on calls also bounds the number of shares.
    """

    def __init__(self, most_calls: int, most_bytes: int) -> None:
        self._most_calls = most_calls
        self._most_bytes = most_bytes
        self._shares: OrderedDict[Share, _Waiting] = OrderedDict()
        """The shares; the one whose turn is next comes first."""
        self.calls = 0
        self.size = 0

    def enter(self, visit: Visit) -> list[Visit]:
        """Lets a call in. Returns the calls for which there is no room any more, perhaps this one.

        A body larger than the bound may wait if it is the only one.
        """
        self._add(visit)
        gone: list[Visit] = []
        while self.calls > self._most_calls:
            share, fullest = max(self._shares.items(), key=lambda item: len(item[1].visits))
            # The newest call loses its place, as it has waited least. Among calls that are still being checked it is
            # the oldest: the newest may be verified in a moment.
            gone.append(next(iter(fullest.visits) if share == BEING_CHECKED else reversed(fullest.visits)))
            self.leave(gone[-1])
        while self.size > self._most_bytes and self.calls > 1:
            largest = max(self._shares.values(), key=lambda waiting: waiting.size)
            gone.append(max(largest.visits, key=lambda each: each.size))
            self.leave(gone[-1])
        return gone

    def move(self, visit: Visit, share: Share) -> None:
        """Moves a call to its share, now that its client is known. From now on it can get a turn."""
        if self._has(visit):
            self.leave(visit)
            visit.share = share
            self._add(visit)

    def leave(self, visit: Visit) -> None:
        """Removes a call that stops waiting. Does nothing if it does not wait."""
        if not self._has(visit):
            return
        waiting = self._shares[visit.share]
        del waiting.visits[visit]
        waiting.size -= visit.size
        if not waiting.visits:
            del self._shares[visit.share]
        self.calls -= 1
        self.size -= visit.size

    def next(self) -> Visit | None:
        """Removes and returns the call whose turn it is. Its share then moves behind all others."""
        share = next((share for share in self._shares if share != BEING_CHECKED), None)
        if share is None:
            return None
        visit = next(iter(self._shares[share].visits))
        self._shares.move_to_end(share)
        self.leave(visit)
        return visit

    def _add(self, visit: Visit) -> None:
        waiting = self._shares.setdefault(visit.share, _Waiting())
        waiting.visits[visit] = None
        waiting.size += visit.size
        self.calls += 1
        self.size += visit.size

    def _has(self, visit: Visit) -> bool:
        waiting = self._shares.get(visit.share)
        return waiting is not None and visit in waiting.visits


class Arrival(Protocol):
    """A call that asks to be worked on."""

    @property
    def size(self) -> int:
        """Bytes of its body."""
        ...

    async def check(self) -> None:
        """Refuses the call if its URL and headers already show that it is not allowed. Raises ApiError,
        StorageUnavailable.
        """
        ...

    async def client_id(self) -> str | None:
        """The verified clientId; None if there is none. Raises StorageUnavailable."""
        ...


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
        """From three quarters of `most_calls` on no long poll waits for work; beyond `most_calls` calls take turns."""
        self._most_calls = most_calls
        self._most_polls = most_polls
        self._longest_wait = longest_wait
        self._poll_pause = poll_pause
        self._room = Room(most_calls * bounds.CALLS_WAITING_FOR_EACH, most_bytes)
        self._calm = asyncio.Event()
        self._calm.set()
        self.calls = 0
        """Calls under way, without long polls."""
        self.polls = 0
        """Long polls under way."""

    @property
    def waiting(self) -> int:
        """Calls that wait for their turn."""
        return self._room.calls

    @property
    def is_high(self) -> bool:
        """Whether the load is so high that long polls are ended in favour of other calls."""
        return self.calls * 4 >= self._most_calls * 3

    @asynccontextmanager
    async def call(self, arrival: Arrival, end_polls: Callable[[], None]) -> AsyncIterator[bool]:
        """Holds the place of a call under way, after it was checked and got its turn. Yields whether it had to wait.
        `end_polls` ends all long polls.

        A call that has to wait is checked first: one that is refused in any case need not wait, and its client must be
        known for the turns. Raises what the checks raise, and ServiceUnavailable when the turn does not come in time.
        """
        visit = Visit(size=arrival.size)
        waits = self.calls >= self._most_calls or self.waiting > 0
        try:
            if not waits:
                self._take(visit)
            if self.is_high and self.polls:
                end_polls()
            if waits:
                await self._wait_for_turn(visit, arrival)
            else:
                await arrival.check()
            yield waits
        finally:
            if visit.has_place:
                self._give_back()

    @asynccontextmanager
    async def poll(self, arrival: Arrival) -> AsyncIterator[None]:
        """Holds the place of a long poll under way, after it was checked. Raises what the checks raise, and
        ServiceUnavailable.
        """
        if self.polls >= self._most_polls:
            raise ServiceUnavailable("this process holds as many long polls as it can; send the call again")
        self.polls += 1
        try:
            await arrival.check()
            yield
        finally:
            self.polls -= 1

    async def falls(self) -> bool:
        """Waits a moment for the load to fall; returns whether it has.

        Long polls that have found no work wait here while the load is high: if they were answered at once, their
        clients would call again at once. They poll for work before, while their clients are certainly connected.
        """
        return await comes_within(self._calm, self._poll_pause)

    async def _wait_for_turn(self, visit: Visit, arrival: Arrival) -> None:
        try:
            async with asyncio.timeout(self._longest_wait) as visit.waits:
                self._make_room(visit)
                await arrival.check()
                self._room.move(visit, share_of(await arrival.client_id()))
                self._admit()
                await visit.turn.wait()
        except TimeoutError:
            if not visit.has_place:  # else it got its turn at the last moment
                raise ServiceUnavailable(TOO_MANY) from None
        finally:
            self._room.leave(visit)

    def _make_room(self, visit: Visit) -> None:
        for gone in self._room.enter(visit):
            if gone is visit:
                raise ServiceUnavailable(TOO_MANY)
            if gone.waits is not None and not gone.waits.expired():
                gone.waits.reschedule(asyncio.get_running_loop().time())

    def _take(self, visit: Visit) -> None:
        visit.has_place = True
        visit.turn.set()
        self.calls += 1
        if self.is_high:
            self._calm.clear()

    def _give_back(self) -> None:
        self.calls -= 1
        self._admit()
        if not self.is_high:
            self._calm.set()

    def _admit(self) -> None:
        while self.calls < self._most_calls and (visit := self._room.next()) is not None:
            self._take(visit)


class Contents:
    """Bounds the bytes of uploads that pass through this process at a time, since each is in memory as a whole."""

    def __init__(self, most_held: int) -> None:
        """`most_held` in bytes; one upload may have more, if it is the only one."""
        self._most_held = most_held
        self._held = 0

    @contextmanager
    def content(self, length: int) -> Iterator[None]:
        """Holds memory for one upload of `length` bytes. Raises ServiceUnavailable."""
        if self._held and self._held + length > self._most_held:
            raise ServiceUnavailable("this process is storing as many uploads as it can; send the request again")
        self._held += length
        try:
            yield
        finally:
            self._held -= length


class Bodies:
    """Parses JSON bodies, within the memory budget. Large ones are parsed in a thread, one at a time."""

    def __init__(self, most_waiting: int = bounds.BYTES_WAITING) -> None:
        self._most_waiting = most_waiting
        self._waiting = 0
        self._turn = asyncio.Lock()
        # A single thread: each further one would keep memory of its own.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bodies")

    @asynccontextmanager
    async def parsed(self, body: bytes, memory: Memory) -> AsyncIterator[Any]:
        """The object or array of a JSON body. Its memory is reserved until the context ends.

        Raises InputError, MalformedPayload, and ServiceUnavailable when too much waits already, or for too long.
        """
        if len(body) <= bounds.SMALL_BODY:
            yield parse_body(body, measure_body(body))
            return
        if self._waiting and self._waiting + len(body) > self._most_waiting:
            raise ServiceUnavailable("this process is handling as many large requests as it can; send the call again")
        self._waiting += len(body)
        try:
            async with self._turn:
                measured = await self._beside(measure_body, body)
                await memory.take(measured.memory)
                try:
                    payload = await self._beside(parse_body, body, measured)
                except BaseException:
                    memory.free(measured.memory)
                    raise
        finally:
            self._waiting -= len(body)
        try:
            yield payload
        finally:
            del payload
            memory.free(measured.memory)

    async def _beside(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
