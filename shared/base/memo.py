"""What a process remembers, in bounded memory: forgetting costs requests, never a mistake (design 2.8)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from shared.base.frozen import dataclass

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

FOREVER = timedelta.max
"""Freshness of what never changes, and of what is compared with storage before it is relied on."""
_NO_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Remembered:
    """One kind of thing that processes remember. All kinds are in shared/base/remembered.py."""

    name: str
    """The module, and the attribute that holds the memo."""
    capacity: int
    """The most entries. 0: nothing is kept, and only concurrent callers share a reading."""
    fresh: timedelta = FOREVER
    """The greatest age of an entry."""
    absent: timedelta | None = None
    """The greatest age of an entry for something that does not exist; None: that of the others. If set, such entries
    have a capacity of their own, so that they push out no others."""


@dataclass(eq=False)
class _Asked(Generic[V]):
    """Callers of `read_anew` for one key."""

    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    turn: int = 0
    found: list[V] = field(default_factory=list)
    """The latest answer in a list; empty if the reading failed."""
    failure: Exception | None = None


class Memo(Generic[K, V]):
    """Entries of one kind, for use in one event loop. When it is full, the entry that was set least recently makes room
    for a new one."""

    def __init__(self, kind: Remembered, now: Callable[[], datetime] | None = None) -> None:
        """Makes an empty memo. `now` is needed only where entries age."""
        assert now is not None or kind.fresh == FOREVER, "what ages needs a clock"
        self._kind = kind
        self._now = now
        self._entries: OrderedDict[K, tuple[V, datetime]] = OrderedDict()
        self._absent: OrderedDict[K, tuple[V, datetime]] = OrderedDict()
        self._reads: dict[K, asyncio.Future[V]] = {}
        self._changes = 0
        self._asked: dict[K, _Asked[V]] = {}
        self._turns = 0

    def get(self, key: K) -> V | None:
        """Returns the entry, unless it is too old."""
        entry = self._entries.get(key) or self._absent.get(key)
        return entry[0] if entry is not None and self._is_fresh(*entry) else None

    def peek(self, key: K) -> V | None:
        """Returns the entry, however old."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def put(self, key: K, value: V, *, read: datetime | None = None, since: int | None = None) -> None:
        """Remembers a value that was read or written at the time `read` (None: now). Does nothing if `changes` is not
        `since` any more: something was forgotten meanwhile."""
        if since is not None and since != self._changes:
            return  # the value may be older than the change
        kept, other = self._entries, self._absent
        if value is None and self._kind.absent is not None:
            kept, other = other, kept
        kept[key] = (value, read or self._time())
        kept.move_to_end(key)
        other.pop(key, None)
        if len(kept) > self._kind.capacity:
            kept.popitem(last=False)

    def pop(self, key: K) -> V | None:
        """Forgets an entry that was changed, or may have been. Readings that are under way answer no later caller."""
        self._changes += 1
        self._reads.pop(key, None)
        self._absent.pop(key, None)
        entry = self._entries.pop(key, None)
        return None if entry is None else entry[0]

    @property
    def changes(self) -> int:
        """How many times something has been forgotten. Read it before a reading, and pass it to `put` as `since`."""
        return self._changes

    def items(self) -> Iterator[tuple[K, V]]:
        """Returns all entries, however old, the one that was set least recently first."""
        return ((key, entry[0]) for key, entry in self._entries.items())

    def __len__(self) -> int:
        return len(self._entries)

    async def read(self, key: K, find: Callable[[], Awaitable[V]]) -> V:
        """Returns the entry or, if there is none that is fresh, the result of a reading that concurrent callers share.
        Raises what `find` raises."""
        while True:
            entry = self._entries.get(key) or self._absent.get(key)
            if entry is not None and self._is_fresh(*entry):
                return entry[0]
            reading = self._reads.get(key)
            if reading is None:
                return await self._read_for_all(key, find)
            await asyncio.wait([reading])
            if not reading.cancelled():  # else the caller that read was cancelled, and one of the others reads
                return reading.result()

    async def _read_for_all(self, key: K, find: Callable[[], Awaitable[V]]) -> V:
        """Reads for all who ask meanwhile, except those who ask after a change (`pop`)."""
        reading = self._reads[key] = asyncio.get_running_loop().create_future()
        started, changes = self._time(), self._changes
        try:
            value = await find()
        except Exception as error:
            reading.set_exception(error)
            reading.exception()  # marks the exception as retrieved: perhaps nobody else waits for it
            raise
        else:
            self.put(key, value, since=changes, read=started)
            reading.set_result(value)
            return value
        finally:
            reading.cancel()  # nothing happens unless the caller was cancelled
            if self._reads.get(key) is reading:
                del self._reads[key]

    async def read_anew(self, key: K, find: Callable[[], Awaitable[V]]) -> V:
        """Returns the result of a reading that began after this call did. Raises what `find` raises. One caller reads
        at a time. Those who come meanwhile wait for the next reading and share its result. They share its failure too:
        failures are slow, and otherwise they would follow one another."""
        entry = self._asked.setdefault(key, _Asked())
        asked = self._turns
        entry.waiting += 1
        try:
            async with entry.reading:
                if entry.turn <= asked:
                    self._turns += 1
                    turn = self._turns
                    try:
                        entry.found, entry.failure = [await find()], None
                    except Exception as failure:
                        entry.found, entry.failure = [], failure
                    entry.turn = turn
                if entry.failure is not None:
                    raise entry.failure
                return entry.found[0]
        finally:
            entry.waiting -= 1
            if not entry.waiting:
                del self._asked[key]
                entry.failure = None  # its traceback refers to the entry: a reference cycle

    def _time(self) -> datetime:
        return _NO_TIME if self._now is None else self._now()

    def _is_fresh(self, value: V, read: datetime) -> bool:
        limit = self._kind.absent if value is None and self._kind.absent is not None else self._kind.fresh
        return limit == FOREVER or timedelta(0) <= self._time() - read < limit
