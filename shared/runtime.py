"""What the service needs of the world besides storage: time, ids, randomness, waiting, and receivers of measurements
and spans. These are passed in, so that tests can replace them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import field
from datetime import UTC, datetime, timedelta

from opentelemetry.trace import Tracer

from shared.base.frozen import dataclass
from shared.base.ids import new_slugid
from shared.base.retrying import LOST_RACE, Retries
from shared.telemetry.meter import Meter


def utc_now() -> datetime:
    """Returns the present time in UTC, truncated to milliseconds like all stored times (contract 3.3)."""
    return datetime.fromtimestamp(time.time_ns() // 1_000_000 / 1000, UTC)


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Time, ids, randomness, waiting and measurements of one process, which tests replace by their own."""

    now: Callable[[], datetime] = utc_now
    slugid: Callable[[], str] = new_slugid
    jitter: Callable[[], float] = random.random
    """Returns a random number in [0, 1) for back-off; not for secrets."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits for the given seconds."""
    meter: Meter = field(default_factory=Meter)
    """Receives measurements."""
    tracer: Tracer | None = None
    """Receives the spans of calls; None if no exporter is set up."""


def attempts(
    runtime: Runtime, retries: Retries = LOST_RACE, *, at_least: timedelta = timedelta(0)
) -> AsyncIterator[int]:
    """Yields the attempts of a compare-and-swap loop, counted from 0, with a pause before each one but the first. The
    body reads, decides, and writes on condition that no one else has written since. It returns when that succeeds, and
    continues with the next attempt when it does not. After the loop the caller says what a lost race means, usually by
    raising ServiceUnavailable: the call may be repeated. There are as many as `retries` says, and more until `at_least`
    has passed."""
    return _Attempts(runtime, retries, runtime.now() + at_least)


class _Attempts:
    """The iterator of `attempts`. It is no generator: one that is left before its end has to be closed."""

    def __init__(self, runtime: Runtime, retries: Retries, until: datetime) -> None:
        self._runtime = runtime
        self._retries = retries
        self._until = until
        self._next = 0

    def __aiter__(self) -> _Attempts:
        return self

    async def __anext__(self) -> int:
        attempt = self._next
        if attempt >= self._retries.tries and self._runtime.now() >= self._until:
            raise StopAsyncIteration
        self._next += 1
        if attempt:
            await pause(self._runtime, attempt - 1, self._retries)
        return attempt


async def pause(runtime: Runtime, attempt: int, retries: Retries = LOST_RACE) -> None:
    """Waits before the next attempt after a lost race (compare-and-swap); `attempt` counts from 0."""
    await runtime.sleep(retries.pause(attempt, runtime.jitter()))
