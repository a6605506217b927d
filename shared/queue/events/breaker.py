"""Failures to send events: what is raised, and the circuit breaker.

In a module of its own, so that importing it does not load the Service Bus SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY

from shared.base.errors import ServiceError
from shared.base.frozen import dataclass
from shared.base.retrying import SERVICE_BUS, Retries
from shared.queue.events.rendering import EventMessage


class EventsUnavailable(ServiceError):
    """Not every message was accepted. `unsent` are those that were not, though one of them may still arrive."""

    def __init__(self, unsent: Sequence[EventMessage], reason: str) -> None:
        super().__init__(f"{len(unsent)} messages could not be sent: {reason}")
        self.unsent = tuple(unsent)


@dataclass(eq=False, repr=False)
class Breaker:
    """A circuit breaker that opens after `threshold` failures in a row. Not thread-safe.

    While it is open, nothing is tried until a pause is over. Then it lets a single attempt through, the probe: success
    closes the breaker, and failure starts a longer pause."""

    _monotonic: Callable[[], float]
    _: KW_ONLY
    threshold: int = 1
    retries: Retries = SERVICE_BUS

    def __post_init__(self) -> None:
        self._failures = 0
        self._pause = 0.0
        self._retry_at = 0.0
        self._probe: object | None = None

    @property
    def is_open(self) -> bool:
        """Whether there were `threshold` failures in a row, and no success since."""
        return self._pause > 0

    @property
    def pause_left(self) -> float:
        """Seconds until an attempt may be made; 0 if one may be made now."""
        return max(0.0, self._retry_at - self._monotonic()) if self.is_open else 0.0

    def blocks(self) -> bool:
        """Returns whether an attempt must not be made now."""
        return self.is_open and (self._probe is not None or self.pause_left > 0)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Returns a context manager for an attempt that `blocks` allowed; `succeeded` and `failed` take its outcome."""
        token = object()
        if self.is_open:
            self._probe = token
        try:
            yield
        finally:
            if self._probe is token:
                self._probe = None

    def succeeded(self) -> None:
        """Closes the breaker: an attempt worked."""
        self._failures = 0
        self._pause = 0.0
        self._probe = None

    def failed(self) -> None:
        """Counts a failed attempt. A late failure of one that began before the breaker opened changes nothing."""
        if self.is_open and self._probe is None:
            return
        self._failures += 1
        self._probe = None
        if self._failures >= self.threshold:
            self._pause = self.retries.after(self._pause) or self.retries.first
            self._retry_at = self._monotonic() + self._pause
