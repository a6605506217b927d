"""The expiry job's part for task groups (design 3)."""

from __future__ import annotations

from datetime import datetime

from shared.domain.dates import parse_date
from shared.domain.protocol import ROWS_COMPLETE_AFTER
from shared.runtime import Runtime
from shared.storage import keys
from shared.storage.expiry import Expiring, is_over
from shared.storage.groups import GroupStore
from shared.storage.interface import MAX_OPERATIONS, Row, Storage
from shared.storage.partitions import delete_together, rows_of, sweep
from shared.storage.recent_groups import RecentGroupStore
from shared.usecases.member_expiry import MemberExpiry
from shared.usecases.unsent_events import UnsentEvents

DEATHS = 2
"""How often the process has died of a group, at last of it alone, before its tasks are tried apart."""


class GroupExpiry:
    """Handles the rows of the Expiry table that are about groups. Every step may be repeated."""

    def __init__(
        self,
        storage: Storage,
        groups: GroupStore,
        recent: RecentGroupStore,
        members: MemberExpiry,
        unsent_events: UnsentEvents,
        runtime: Runtime,
    ) -> None:
        self._tables = storage.tables
        self._groups = groups
        self._recent = recent
        self._members = members
        self._unsent_events = unsent_events
        self._now = runtime.now

    async def group(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Sweeps a group: deletes its tasks that have expired, and the group once it has expired and has no member any
        more. Returns when to look again: at the group's expiration at the latest, None if it is gone.

        Header, notes and the guard of the scheduler go in one transaction that holds only if no call has raised, sealed
        or joined the group since they were read. After that no task can join it: the next task of the group makes it
        anew, with young rows, which stay. All other rows go page by page. Raises OutOfTime.
        """
        (task_group_id,) = expiring.words
        start = expiring.resume if (expiring.resume or "").startswith(keys.MEMBERS[0]) else None
        later = await self._members.sweep(task_group_id, start, until, is_apart=expiring.deaths >= DEATHS)
        if start is not None:
            later = self._now()  # nobody remembers who has stayed among those before
        first, end = keys.GROUP_AND_MEMBERS
        rows: list[Row] = []
        async for page in rows_of(
            self._tables, keys.GROUPS, task_group_id, start=first, end=end, limit=MAX_OPERATIONS, select=("expires",)
        ):
            rows += page
            if has_members := any(_is_member(row) for row in page):
                break
        header = next((row for row in rows if row.key == keys.GROUP), None)
        expires = self._now() if header is None else parse_date(str(header.values["expires"]))
        if header is not None and not is_over(expires, self._now()):
            return min(later, expires) if later and has_members else expires
        if has_members:
            return later or self._now()
        if header is not None:
            if held_until := self._unsent_events.held_until(expires):
                return held_until
            if not await delete_together(self._tables, keys.GROUPS, rows):
                return self._now()
        some_stay = await sweep(
            self._tables,
            keys.GROUPS,
            rows_of(self._tables, keys.GROUPS, task_group_id, select=()),
            is_over=lambda row: self._is_settled(row) and not _is_member(row),
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

    def _is_settled(self, row: Row) -> bool:
        """Whether it is no row of a call that makes the group just now."""
        return row.timestamp + ROWS_COMPLETE_AFTER <= self._now()


def _is_member(row: Row) -> bool:
    return row.key.startswith(keys.MEMBERS[0])
