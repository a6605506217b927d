"""The expiry job's part for task groups."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.domain.dates import parse_date
from shared.domain.protocol import ROWS_COMPLETE_AFTER
from shared.runtime import Runtime, attempts
from shared.storage import keys
from shared.storage.expiry import Expiring, is_over
from shared.storage.groups import GroupStore
from shared.storage.interface import MAX_OPERATIONS, Row, Storage
from shared.storage.partitions import delete_together, rows_of, sweep
from shared.storage.recent_groups import RecentGroupStore
from shared.usecases.unsent_events import UnsentEvents


class GroupExpiry:
    """Handles the rows of the Expiry table that are about groups. Every step may be repeated."""

    def __init__(
        self,
        storage: Storage,
        groups: GroupStore,
        recent: RecentGroupStore,
        unsent_events: UnsentEvents,
        runtime: Runtime,
    ) -> None:
        self._tables = storage.tables
        self._groups = groups
        self._recent = recent
        self._unsent_events = unsent_events
        self._runtime = runtime
        self._now = runtime.now

    async def group(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes a group that has expired; returns its expiration if that was extended, or when to look again: also
        while its tasks are held back for their events.

        The header and the guard of its scheduler go first, in one transaction that holds only if no call has raised,
        sealed or joined the group since it was read. After that no task can join it: the next task of the group makes
        it anew, with young rows, which stay. All other rows go page by page. Raises OutOfTime.
        """
        (task_group_id,) = expiring.words
        async for _ in attempts(self._runtime):
            header = await self._tables.get(keys.GROUPS, task_group_id, keys.GROUP)
            if header is None:
                break
            expires = parse_date(str(header.values["expires"]))
            if not is_over(expires, self._now()):
                return expires
            if held_until := self._unsent_events.held_until(expires):
                return held_until
            if await delete_together(self._tables, keys.GROUPS, [header, *await self._guards(task_group_id)]):
                break
        else:
            return self._now()
        some_stay = await sweep(
            self._tables,
            keys.GROUPS,
            rows_of(self._tables, keys.GROUPS, task_group_id, select=()),
            is_over=self._is_settled,
            has_time=lambda: self._now() < until,
        )
        return self._now() if some_stay else None

    async def listed(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes a row of the list of groups once its group is gone, or does not name it: a call that died has left
        it. Returns when to look again while the group is there."""
        task_group_id, *key = expiring.words
        listed = "~".join(key)
        header = await self._groups.header(task_group_id)
        if header is not None and header.listed == listed:
            return max(header.expires, self._now())
        await self._recent.remove(listed)
        return None

    async def _guards(self, task_group_id: str) -> Sequence[Row]:
        """Of its scheduler: one, if it is not sealed."""
        start, end = keys.SCHEDULERS
        most = MAX_OPERATIONS - 1
        page = await self._tables.query(keys.GROUPS, task_group_id, start=start, end=end, limit=most, select=())
        return page.rows

    def _is_settled(self, row: Row) -> bool:
        """Whether it is no row of a call that makes the group just now."""
        return row.timestamp + ROWS_COMPLETE_AFTER <= self._now()
