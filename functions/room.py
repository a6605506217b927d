"""The waiting room: calls that came while a process had as many in hand as it takes, and who is next.

Each client has a share, and shares take turns, so that the calls of one client do not delay those of the others. A
name counts only once its signature is verified: all calls without a verified name are one share.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Literal

Share = tuple[Literal["being checked", "without a name", "of a client"], str]
"""Whose calls take turns together; the text is the verified clientId."""

BEING_CHECKED: Share = ("being checked", "")
"""Calls of which it is not known yet whose they are: they count, and it is not their turn."""
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
    """Set once it has its place."""
    waits: asyncio.Timeout | None = None
    """Ends its wait."""


@dataclass(slots=True)
class _Waiting:
    visits: dict[Visit, None] = field(default_factory=dict)
    """In the order in which they came."""
    size: int = 0


class Room:
    """Bounded in calls and in bytes. When it is full, the share that takes the most of it gives way.

    There are as many shares as clients whose calls wait, so that the bound on calls is one on shares, too.
    """

    def __init__(self, most_calls: int, most_bytes: int) -> None:
        self._most_calls = most_calls
        self._most_bytes = most_bytes
        self._shares: OrderedDict[Share, _Waiting] = OrderedDict()
        """The one whose turn is next comes first."""
        self.calls = 0
        self.size = 0

    def enter(self, visit: Visit) -> list[Visit]:
        """Lets a call in; returns those that there is no room for any more, perhaps this one itself.

        A body that is larger than the room may wait as long as it is alone.
        """
        self._add(visit)
        gone: list[Visit] = []
        while self.calls > self._most_calls:
            share, fullest = max(self._shares.items(), key=lambda item: len(item[1].visits))
            # The newest has waited least. But of those being checked it may be one whose name is verified in a moment.
            gone.append(next(iter(fullest.visits) if share == BEING_CHECKED else reversed(fullest.visits)))
            self.leave(gone[-1])
        while self.size > self._most_bytes and self.calls > 1:
            largest = max(self._shares.values(), key=lambda waiting: waiting.size)
            gone.append(max(largest.visits, key=lambda each: each.size))
            self.leave(gone[-1])
        return gone

    def move(self, visit: Visit, share: Share) -> None:
        """It is known now whose call it is: from now on it may be its turn."""
        if self._has(visit):
            self.leave(visit)
            visit.share = share
            self._add(visit)

    def leave(self, visit: Visit) -> None:
        """The call waits no more; nothing happens if it does not."""
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
        """The call whose turn it is, which leaves the room; the other shares come before its share's next one."""
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
