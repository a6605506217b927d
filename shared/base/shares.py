"""Shares out what a process has too little of: calls, long polls, lists, uploads, memory (design 2.9).

What somebody holds or waits for counts towards a share: the root of an identity, since names below it cost nothing
(contract 11.3). All who have no verified name have one share together."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from shared.base.ids import digest_of

Share = str


def share_of(root: str) -> Share:
    """Returns the share of the root of an identity: 22 characters."""
    return digest_of(root)[:22]


OWN = share_of("the service itself")
"""The share of the work that the service does by itself."""
NAMELESS = share_of("without a name")
"""The share of all callers who have no verified name."""
CHECKING = share_of("being checked")
"""The share of all callers whose name is still being verified: they count, but get no turn."""

CURRENT: ContextVar[Share] = ContextVar("share", default=OWN)
"""The share of the call that is being handled, and of what is begun for it."""

LONGEST_WAIT = 15.0
"""Seconds that a call waits for its turn. The JavaScript client gives up after 30, and the call takes some."""
RESERVED_PART = 8
"""One in this many units is left to shares that hold nothing."""


@dataclass(eq=False, kw_only=True)
class Place:
    """The share of something scarce that a call holds or waits for."""

    units: int = 1
    size: int = 0
    """Bytes that it takes while it waits."""
    share: Share = field(default_factory=CURRENT.get)
    is_held: bool = False
    has_waited: bool = False
    turn: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that is set when the place is held. In a room without units, it is set when the place is lost."""
    waits: asyncio.Timeout | None = None


@dataclass(slots=True)
class _Waiting:
    places: dict[Place, None] = field(default_factory=dict)
    """The places of one share, in the order in which they came."""
    size: int = 0


class Room:
    """Waiting places, bounded in number and in bytes. When it is full, the newest place of the largest share is
    dropped; if no share is larger than that of the place that came last, that one is. As many more places may wait
    while the names of their callers are being verified."""

    def __init__(self, most: float, most_size: float = math.inf) -> None:
        self._most = most
        self._most_size = most_size
        self._shares: OrderedDict[Share, _Waiting] = OrderedDict()
        """The shares; the one whose turn is next comes first."""
        self._count = 0
        self._size = 0

    def __len__(self) -> int:
        return self._count

    def enter(self, place: Place) -> list[Place]:
        """Adds a place. Returns the places for which there is no room any more, perhaps this one. A place that is
        larger than the whole room may stay if it is alone."""
        waiting = self._shares.setdefault(place.share, _Waiting())
        waiting.places[place] = None
        waiting.size += place.size
        self._count += 1
        self._size += place.size
        gone: list[Place] = []
        checking = self._shares.get(CHECKING, _Waiting()).places
        if place.share == CHECKING and len(checking) > self._most:
            gone.append(next(iter(checking)))  # the newest may have a name in a moment
        elif place.share != CHECKING and self._count - len(checking) > self._most:
            named = (each.places for share, each in self._shares.items() if share != CHECKING)
            most = max(named, key=len)
            gone.append(place if len(waiting.places) == len(most) else next(reversed(most)))
        for each in gone:
            self.leave(each)
        while self._size > self._most_size and self._count > 1:
            largest = max(self._shares.values(), key=lambda waiting: waiting.size)
            gone.append(max(largest.places, key=lambda each: each.size))
            self.leave(gone[-1])
        return gone

    def move(self, place: Place, share: Share) -> list[Place]:
        """Moves a waiting place to the share that turned out to be its own. Returns the places that have no room any
        more."""
        was_there = self.leave(place)
        place.share = share
        return self.enter(place) if was_there else []

    def leave(self, place: Place) -> bool:
        """Removes a place; returns whether it was there."""
        waiting = self._shares.get(place.share)
        if waiting is None or place not in waiting.places:
            return False
        del waiting.places[place]
        waiting.size -= place.size
        if not waiting.places:
            del self._shares[place.share]
        self._count -= 1
        self._size -= place.size
        return True

    def firsts(self) -> Iterator[Place]:
        """Returns the first place of each share, in the order of their turns."""
        return (next(iter(waiting.places)) for share, waiting in self._shares.items() if share != CHECKING)

    def took_turn(self, place: Place) -> None:
        """Removes a place that had its turn, and moves its share to the end of the line."""
        self._shares.move_to_end(place.share)
        self.leave(place)


class Scarce:
    """A number of units of something scarce. Callers for whom none is free wait in a room, where shares take turns."""

    def __init__(
        self,
        most: int,
        room: Room,
        refusal: Callable[[], Exception],
        *,
        reserve: int | None = None,
        longest_wait: float | None = LONGEST_WAIT,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`refusal` makes the exception for those who lose their place in the room, or wait there for `longest_wait`
        seconds. `reserve` of the units are left to shares that hold nothing, by default one eighth. `changed` is called
        when units were taken or given back."""
        self._most = most
        self._room = room
        self._refusal = refusal
        self._reserve = most // RESERVED_PART if reserve is None else reserve
        self._longest_wait = longest_wait
        self._changed = changed
        self._held: defaultdict[Share, int] = defaultdict(int)
        self._used = 0

    @property
    def used(self) -> int:
        """Units that are held now."""
        return self._used

    @property
    def waiting(self) -> int:
        """Number of places that wait for their turn."""
        return len(self._room)

    @asynccontextmanager
    async def hold(
        self, units: int = 1, size: int = 0, *, check: Callable[[], Awaitable[Share]] | None = None
    ) -> AsyncIterator[Place]:
        """Waits for a turn and holds units until the context ends. More units than there are in all are granted when
        nothing else is held. `check` is awaited before the wait: it refuses callers who may not have the units in any
        case, and finds out the share. Raises what `check` raises, and the refusal."""
        place = Place(units=units, size=size) if check is None else Place(units=units, size=size, share=CHECKING)
        await self.take(place, check)
        try:
            yield place
        finally:
            self.leave(place)

    async def take(self, place: Place, check: Callable[[], Awaitable[Share]] | None = None) -> None:
        """Takes a place as `hold` does, and keeps it until `leave` is called."""
        try:
            if not self.waiting and self._fits(place):
                self._grant(place)
                if check is not None:
                    self._move(place, await check())
                return
            place.has_waited = True
            try:
                async with asyncio.timeout(self._longest_wait) as place.waits:
                    self._come_in(place, self._room.enter(place))
                    if check is not None:
                        self._move(place, await check())
                    await place.turn.wait()
            except TimeoutError:
                if not place.is_held:  # else it got its turn at the last moment
                    raise self._refusal() from None
            finally:
                if self._room.leave(place):
                    self.serve()
        except BaseException:
            self.leave(place)
            raise

    def try_take(self, place: Place) -> bool:
        """Takes the units if they are free and nobody waits; returns whether it has."""
        if self.waiting or not self._fits(place):
            return False
        self._grant(place)
        return True

    def leave(self, place: Place) -> None:
        """Gives back the units that a place holds, if it holds any."""
        if place.is_held:
            place.is_held = False
            self._free(place.units, place.share)
            self.serve()

    def serve(self) -> None:
        """Grants the free units to the places whose turn it is."""
        while self._room and (place := self._next()):
            self._room.took_turn(place)
            self._grant(place)
        self._changed()

    def _next(self) -> Place | None:
        for place in self._room.firsts():
            if self._fits(place):
                return place
            if place.share not in self._held:
                return None  # nobody passes a share that has nothing yet
        return None

    def _fits(self, place: Place) -> bool:
        may_have_last = place.share not in self._held and place.share != CHECKING
        most = self._most if may_have_last else self._most - self._reserve
        return not self.used or self._used + place.units <= most

    def _come_in(self, place: Place, gone: Sequence[Place]) -> None:
        if place in gone:
            raise self._refusal()
        drop(gone)
        self.serve()

    def _move(self, place: Place, share: Share) -> None:
        if place.is_held:
            self._free(place.units, place.share)
            place.share = share
            self._count(place)
        else:
            self._come_in(place, self._room.move(place, share))

    def _grant(self, place: Place) -> None:
        place.is_held = True
        place.turn.set()
        self._count(place)
        self._changed()

    def _count(self, place: Place) -> None:
        self._used += place.units
        self._held[place.share] += place.units

    def _free(self, units: int, share: Share) -> None:
        self._used -= units
        self._held[share] -= units
        if not self._held[share]:
            del self._held[share]


def drop(places: Sequence[Place]) -> None:
    """Ends the waits of places that have lost their room, by a TimeoutError."""
    for each in places:
        if each.waits is not None and not each.waits.expired():
            each.waits.reschedule(asyncio.get_running_loop().time())
