"""Whether what the service needs answers, for those who watch it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from shared.storage import keys
from shared.storage.interface import Storage
from shared.storage.internal_messages import CLAIM_QUEUE

log = logging.getLogger("taskcluster.heartbeat")

Ask = Callable[[], Awaitable[object]]
"""Asks one service something small. Raises when it does not answer."""

LIMIT_SECONDS = 3.0
"""How long each service may take to answer."""
KEPT_SECONDS = 5.0
"""How long what was found is told to others: whoever asks often asks us, and not the services."""


class Heartbeat:
    """Asks every service at once, for all callers that wait."""

    def __init__(
        self,
        asks: Mapping[str, Ask],
        monotonic: Callable[[], float],
        *,
        limit: float = LIMIT_SECONDS,
        kept: float = KEPT_SECONDS,
    ) -> None:
        """`asks` by the names of the services; times in seconds."""
        self._asks = asks
        self._monotonic = monotonic
        self._limit = limit
        self._kept = kept
        self._found_at = 0.0
        self._asking: asyncio.Task[list[str]] | None = None

    async def silent(self) -> list[str]:
        """The names of the services that do not answer in time."""
        asking = self._asking
        if asking is None or (asking.done() and self._monotonic() - self._found_at > self._kept):
            asking = self._asking = asyncio.create_task(self._ask_all())
        return await asyncio.shield(asking)

    async def _ask_all(self) -> list[str]:
        answers = await asyncio.gather(*(self._answers(name, ask) for name, ask in self._asks.items()))
        self._found_at = self._monotonic()
        return [name for name, answered in zip(self._asks, answers, strict=True) if not answered]

    async def _answers(self, name: str, ask: Ask) -> bool:
        try:
            async with asyncio.timeout(self._limit):
                await ask()
        except Exception as error:
            log.warning("%s does not answer: %s", name, type(error).__name__, extra={"action": "no_heartbeat"})
            return False
        return True


def asks_of(storage: Storage) -> dict[str, Ask]:
    """One small request to each part of the storage account."""
    return {
        "tables": lambda: storage.tables.get(keys.TASKS, "heartbeat", "heartbeat"),
        "queues": lambda: storage.queues.peek(CLAIM_QUEUE),
        "blobs": lambda: storage.blobs.properties(keys.DEFINITIONS, "heartbeat"),
    }
