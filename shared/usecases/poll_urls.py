"""Signed URLs with which workers poll the pending queues themselves (contract 15.3, design 4)."""

from __future__ import annotations

from collections import Counter, deque
from datetime import datetime, timedelta

from shared import remembered
from shared.concurrency import together
from shared.domain.priority import PRIORITIES
from shared.domain.protocol import SIGNED_URL_CLOCK_SKEW
from shared.frozen import dataclass
from shared.memo import Memo
from shared.runtime import Runtime
from shared.storage.interface import Access
from shared.storage.messages import pending_queue
from shared.storage.pools import PoolStore


@dataclass(frozen=True, kw_only=True, slots=True)
class PollUrl:
    """Where to poll the messages of one band, and where to delete them. The latter has placeholders."""

    poll: str
    delete: str


LIFE = timedelta(minutes=30)
"""Of the URLs. Who has one may poll until then, also after its worker was quarantined."""
_COUNTED = 10_000
"""Sets of URLs of a task queue that are counted."""


class PollUrls:
    """Hands out URLs."""

    def __init__(self, access: Access, pools: PoolStore, runtime: Runtime, *, hidden_for: int) -> None:
        """`hidden_for` seconds is a message hidden that was polled with one of the URLs."""
        self._access = access
        self._pools = pools
        self._now = runtime.now
        self._hidden_for = hidden_for
        self._given: Memo[str, deque[datetime]] = Memo(remembered.POLL_URLS)
        """By task queue: when the sets of URLs expire that this process has given out."""

    def waiting(self) -> Counter[str]:
        """By task queue, how many sets of URLs have not expired, which is how many workers may be polling."""
        now, found = self._now(), Counter[str]()
        for task_queue_id, expires in list(self._given.items()):
            while expires and expires[0] <= now:
                expires.popleft()
            if expires:
                found[task_queue_id] = len(expires)
            else:
                self._given.pop(task_queue_id)
        return found

    async def of_pool(self, task_queue_id: str) -> tuple[list[PollUrl], datetime]:
        """The seven bands, highest first, and when the URLs expire. Raises StorageUnavailable."""
        await self._pools.queues.ensure_queues(task_queue_id)
        now = self._now().replace(microsecond=0)
        expires = now + LIFE
        signed = await together(
            *(
                self._access.process_queue(
                    pending_queue(task_queue_id, band), start=now - SIGNED_URL_CLOCK_SKEW, expiry=expires
                )
                for band in PRIORITIES
            )
        )
        self._note(task_queue_id, expires)
        return [
            PollUrl(
                poll=f"{queue.url}/messages?visibilitytimeout={self._hidden_for}&{queue.sas}",
                delete=f"{queue.url}/messages/{{{{messageId}}}}?popreceipt={{{{popReceipt}}}}&{queue.sas}",
            )
            for queue in signed
        ], expires

    def _note(self, task_queue_id: str, expires: datetime) -> None:
        given = self._given.get(task_queue_id) or deque(maxlen=_COUNTED)
        given.append(expires)
        self._given[task_queue_id] = given
