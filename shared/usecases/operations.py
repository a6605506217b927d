"""What an operator looks at and does: what was given up, what waits, and when the timers ran last (contract 2.7)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from shared.concurrency import both, together
from shared.errors import ResourceNotFound
from shared.frozen import dataclass
from shared.runtime import Runtime
from shared.storage.expiry import ExpiryStore
from shared.storage.history import HistoryStore
from shared.storage.interface import Queues
from shared.storage.internal_messages import INTERNAL_QUEUES
from shared.storage.pools import PoolStore
from shared.usecases import poison
from shared.usecases.poison import Moved

SECONDS = 15.0
"""Time budget of a call that moves messages; repeat the call to continue."""
SHOWN = ("taskId", "runId", "taskGroupId", "kind", "put", "attempts")
"""What is shown of a message: what it is about. Receipts and what an event would say are nobody's to copy."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """When timer functions have noted last what they did; None: never."""

    expiry: datetime | None
    expired_before: datetime | None
    """What is due before that has been deleted."""
    reconciler: datetime | None
    sample: datetime | None
    """The last sample of the history."""


class Operations:
    """Everything may raise StorageUnavailable."""

    def __init__(
        self, queues: Queues, expiry: ExpiryStore, pools: PoolStore, history: HistoryStore, runtime: Runtime
    ) -> None:
        self._queues = queues
        self._expiry = expiry
        self._pools = pools
        self._history = history
        self._runtime = runtime

    async def look(self) -> tuple[Sequence[dict[str, Any]], Times]:
        """How many messages the internal queues hold and have given up, and when timers ran last."""
        depths, times = await both(poison.depths(self._queues), self._times())
        return depths, times

    async def _times(self) -> Times:
        expiry, before, reconciler, sample = await together(
            self._expiry.noted(), self._expiry.cursor(), self._pools.checked(), self._history.latest("minutes")
        )
        return Times(expiry=expiry, expired_before=before, reconciler=reconciler, sample=sample)

    async def given_up(self, queue: str) -> list[dict[str, Any]]:
        """The first messages that a queue gave up; of those that can be read what they are about.

        Raises ResourceNotFound for another queue.
        """
        _known(queue)
        found = []
        for message in await poison.listed(self._queues, queue):
            body = message["body"]
            is_read = isinstance(body, dict)
            about = {name: body[name] for name in SHOWN if name in body} if is_read else {}
            found.append({"messageId": message["id"], "put": message["put"], "readable": is_read, "about": about})
        return found

    async def move(self, queue: str, how: Literal["redrive", "delete"], message_id: str | None) -> Moved:
        """Sends what a queue gave up once more, or deletes it: one message, or all, as far as the time allows.

        Raises ResourceNotFound for another queue.
        """
        _known(queue)
        until = self._runtime.now() + timedelta(seconds=SECONDS)
        command = poison.redrive if how == "redrive" else poison.drop
        return await command(self._queues, queue, message_id, has_time=lambda: self._runtime.now() < until)


def _known(queue: str) -> None:
    if queue not in INTERNAL_QUEUES:
        raise ResourceNotFound(f"there is no queue {queue}; the queues are {', '.join(INTERNAL_QUEUES)}")
