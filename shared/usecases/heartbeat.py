"""Heartbeat: whether the services that this one needs respond (Service Bus, storage)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from shared import remembered
from shared.memo import Memo
from shared.storage import keys
from shared.storage.interface import Storage
from shared.storage.internal_messages import CLAIM_QUEUE

log = logging.getLogger("taskcluster.heartbeat")

Ask = Callable[[], Awaitable[object]]
"""Asks one service something small. Raises when it does not answer."""

LIMIT_SECONDS = 3.0
"""How long each service may take to answer."""


class Heartbeat:
    """Asks every service at once, for all callers that wait."""

    def __init__(
        self,
        asks: Mapping[str, Ask],
        now: Callable[[], datetime],
        *,
        limit: float = LIMIT_SECONDS,
    ) -> None:
        """`asks` by the names of the services; times in seconds."""
        self._asks = asks
        self._limit = limit
        self._found: Memo[str, list[str]] = Memo(remembered.SILENT, now)

    async def silent(self) -> list[str]:
        """The names of the services that do not answer in time."""
        return await self._found.read("", self._ask_all)

    async def _ask_all(self) -> list[str]:
        answers = await asyncio.gather(*(self._answers(name, ask) for name, ask in self._asks.items()))
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
