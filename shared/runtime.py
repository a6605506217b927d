"""What the service needs of the world besides storage: time, ids, chance, waiting, and somebody who watches.

Passed in, never reached for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from shared.domain.protocol import FIRST_WAIT, LONGEST_WAIT
from shared.ids import new_slugid
from shared.telemetry.meter import Meter
from shared.telemetry.tracing import NoTracer, Tracer


def utc_now() -> datetime:
    """The present time in UTC, truncated to milliseconds as everything that the contract stores (contract 3.3)."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """So that tests can decide all of it."""

    now: Callable[[], datetime] = utc_now
    slugid: Callable[[], str] = new_slugid
    jitter: Callable[[], float] = random.random
    """A number in [0, 1) for back-off; not for secrets."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits for so many seconds."""
    meter: Meter = field(default_factory=Meter)
    """Takes what is measured."""
    tracer: Tracer = field(default_factory=NoTracer)
    """Takes what a call goes through."""


async def pause(runtime: Runtime, attempt: int) -> None:
    """Back-off with full jitter after a lost race (compare-and-swap), `attempt` counting from 0."""
    await runtime.sleep(runtime.jitter() * min(LONGEST_WAIT, FIRST_WAIT * 2**attempt))
