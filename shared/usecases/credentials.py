"""Registered clients that end soon, or have ended: whoever works with their credentials stops then (contract 2.5).

Nothing else of a deployment's credentials has an end that the service could see: docs/operations.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from shared.auth.client_store import ClientStore, ClientTerm
from shared.cached_answer import CachedAnswer
from shared.frozen import dataclass
from shared.runtime import Runtime
from shared.telemetry.instruments import ENDING_CREDENTIALS

NOTICE = timedelta(days=30)
"""How long before its end a client is named."""
SHORTEST = 3
"""A client is not named in more than this part of its time: one that is made for a week has two days of notice."""
CACHE_SECONDS = 600.0
"""How long an answer is given to others: all clients are read for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """A client that somebody has to prolong or to remove."""

    expires: datetime
    client_id: str
    has_ended: bool


class EndingCredentials:
    """Looks for such clients: a small read for a thousand of them, every ten minutes if anybody asks."""

    def __init__(self, clients: ClientStore, runtime: Runtime, monotonic: Callable[[], float]) -> None:
        self._clients = clients
        self._runtime = runtime
        self._kept = CachedAnswer(self._look, monotonic, CACHE_SECONDS)

    async def known(self) -> Sequence[Ending]:
        """Those there are, the first to end first. Raises StorageUnavailable."""
        return await self._kept()

    async def measure(self) -> None:
        """Sets the gauge. Raises StorageUnavailable."""
        known = await self.known()
        ended = sum(each.has_ended for each in known)
        self._runtime.meter.set(ENDING_CREDENTIALS, ended, "ended")
        self._runtime.meter.set(ENDING_CREDENTIALS, len(known) - ended, "ending")

    async def _look(self) -> Sequence[Ending]:
        now = self._runtime.now()
        found = [
            Ending(expires=term.expires, client_id=term.client_id, has_ended=term.expires <= now)
            async for page in self._clients.terms()
            for term in page
            if term.stays and term.expires <= now + _notice(term)
        ]
        return sorted(found, key=lambda each: (each.expires, each.client_id))


def _notice(term: ClientTerm) -> timedelta:
    return min(NOTICE, (term.expires - term.created) / SHORTEST)
