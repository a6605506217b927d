"""How often something is tried again, and after which pauses: one value for each kind of failure, with its reason."""

from __future__ import annotations

import sys

from shared.base.frozen import dataclass, replace

UNLIMITED = sys.maxsize
"""Number of tries: until one succeeds, or something else ends them."""
_MOST_GROWTH = 40
"""Largest exponent of a pause's growth: enough for every value here to reach its longest pause, without overflow of a
float."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Retries:
    """Exponential back-off: pauses in seconds that grow from the first one to the longest."""

    first: float
    longest: float
    tries: int = UNLIMITED
    """Tries in all, the first one included."""
    factor: float = 2
    jitter: tuple[float, float] = (1, 1)
    """Bounds of the random factor of a pause: (0, 1) is full jitter."""

    def pause(self, number: int, chance: float = 0.0) -> float:
        """Returns the pause with this number, counted from 0; `chance` is a random number in [0, 1)."""
        low, high = self.jitter
        pause = min(self.longest, self.first * self.factor ** min(number, _MOST_GROWTH))
        return pause * (low + (high - low) * chance)

    def after(self, pause: float) -> float:
        """Returns the pause that follows one of `pause` seconds, for callers that do not know its number."""
        return min(self.longest, pause * self.factor)


LOST_RACE = Retries(first=0.05, longest=2, tries=5, jitter=(0, 1))
"""A write that has lost its race (compare-and-swap by ETag); after the last one the call returns 503. More than the
calls that usually meet at one task: claim, cancel, a handler and a timer."""
LOST_RACE_FOR_DIRECTORY = replace(LOST_RACE, tries=8)
"""The retries of writing a new task queue's one row, which all processes write: no call should fail for a listing."""
LOST_RACE_FOR_ROLES = replace(LOST_RACE, tries=10)
"""Every change of a role competes with all others, so scripts that change many roles at a time lose races often."""
STORAGE_REQUEST = Retries(first=0.1, longest=0.9, tries=4, factor=3, jitter=(0.5, 1.5))
"""A request to storage that was not answered, or answered by 408, 429 or 5xx. The request's time limit ends the tries
earlier."""
SERVICE_BUS = Retries(first=1, longest=30)
"""The pauses of the circuit breakers: for connections to Service Bus, and for topics that refuse messages."""
UNSENT_EVENTS = Retries(first=5, longest=240)
"""An unavailable topic for which pointers in the queue `events` wait. An event waits up to `longest` after Service Bus
is back."""
FAILED_MESSAGE = Retries(first=5, longest=3600, tries=13)
"""An internal message whose function fails: over three and a half hours, then it goes to the poison queue."""
WAITING_MESSAGE = Retries(first=5, longest=60)
"""An internal message while storage is down or a task is contended. It is never dead-lettered for that."""
UNCLAIMED_MESSAGE = Retries(first=1, longest=300)
"""A pending message that was polled and led to no claim. Its dequeue count is the number of pauses."""
UNCOMMITTED_RESOLUTION = Retries(first=2, longest=60)
"""A resolved message whose commit is not there yet: tried until `ORPHAN_AFTER`."""
MISSING_DEPENDENT = Retries(first=5, longest=30)
"""Edges whose dependents do not exist yet: tried until `ORPHAN_AFTER`."""
FAILED_DELETION = Retries(first=3600, longest=86_400)
"""An expired item that cannot be deleted. The expiry job works hour by hour."""
