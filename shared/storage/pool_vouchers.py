"""What a pool's index says of runs that may not have changed: rows that vouch for statuses seen before (design 11)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from shared.frozen import dataclass
from shared.storage import keys
from shared.storage.interface import Storage
from shared.storage.known import KnownStatuses, Moment
from shared.storage.partitions import rows_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Vouchers:
    """Index rows of a pool, of runs that were scheduled or claimed at a time or later."""

    since: datetime
    begun: Moment
    seen: Moment
    """A moment after the last of the reads."""
    pending: Mapping[tuple[str, int], str]
    """ETags of the rows of pending runs."""
    indexed: frozenset[str] | None
    """The tasks that have a row, of whatever state; None if that is not known."""
    is_complete: bool
    """False where there were more pages than could be read."""


class PoolVouchers:
    """Reads them, 1000 a request."""

    def __init__(self, storage: Storage, known: KnownStatuses) -> None:
        self._tables = storage.tables
        self._known = known

    async def read(self, task_queue_id: str, since: datetime, most: int, *, with_claimed: bool) -> Vouchers:
        """At most that many pages; with those of claimed runs, so that it is known which tasks have no row at all.

        Pending rows come before claimed ones: a run that is claimed in between is seen twice. One that becomes pending
        in between would be missed, but then the row of returns has another ETag afterwards.
        Raises StorageUnavailable.
        """
        begun = self._known.begin()
        first_pending, first_claimed = keys.indexed_since(since)
        returns = await self._returns(task_queue_id) if with_claimed else ""
        pending, left = await self._range(task_queue_id, first_pending, keys.PENDING[1], most)
        indexed: frozenset[str] | None = None
        if with_claimed and left > 0:
            claimed, left = await self._range(task_queue_id, first_claimed, keys.CLAIMED[1], left)
            if left > 0 and returns == await self._returns(task_queue_id):
                indexed = frozenset(task_id for task_id, _ in (*pending, *claimed))
        return Vouchers(
            since=since,
            begun=begun,
            seen=self._known.begin(),
            pending=pending,
            indexed=indexed,
            is_complete=left > 0,
        )

    async def _range(
        self, task_queue_id: str, start: str, end: str, most: int
    ) -> tuple[dict[tuple[str, int], str], int]:
        """ETags by run, and how many more pages could have been read; 0 where there are more."""
        found: dict[tuple[str, int], str] = {}
        pages = rows_of(self._tables, keys.POOLS, keys.pool(task_queue_id), start=start, end=end, select=())
        async for page in pages:
            most -= 1
            for row in page:
                _, _, task_id, run_id = row.key.split("~")
                found[task_id, int(run_id)] = row.etag
            if most == 0:
                break
        return found, most + 1 if pages.resume is None else 0

    async def _returns(self, task_queue_id: str) -> str:
        row = await self._tables.get(keys.POOLS, keys.pool(task_queue_id), keys.RETURNED)
        return "" if row is None else row.etag
