"""The expiry job's part for task groups."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.domain.dates import parse_date
from shared.domain.protocol import EXPIRY_GRACE_PERIOD, ROWS_COMPLETE_AFTER
from shared.runtime import Runtime, attempts
from shared.storage import keys
from shared.storage.expiry import Expiring
from shared.storage.groups import GroupStore
from shared.storage.interface import Row, Storage
from shared.storage.partitions import delete_together, delete_unchanged, read_all
from shared.storage.recent_groups import RecentGroupStore


class GroupExpiry:
    """Handles the rows of the Expiry table that are about groups. Every step may be repeated."""

    def __init__(self, storage: Storage, groups: GroupStore, recent: RecentGroupStore, runtime: Runtime) -> None:
        self._storage = storage
        self._groups = groups
        self._recent = recent
        self._runtime = runtime
        self._now = runtime.now

    async def group(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes a group that has expired; returns its expiration if that was extended.

        The header and the guard of its scheduler go first, in one transaction that holds only if no call has raised,
        sealed or joined the group since it was read. After that no task can join it: the next task of the group makes
        it anew, with young rows, which stay.
        """
        (task_group_id,) = expiring.words
        async for _ in attempts(self._runtime):
            header = await self._storage.tables.get(keys.GROUPS, task_group_id, keys.GROUP)
            if header is not None:
                expires = parse_date(str(header.values["expires"]))
                if expires + EXPIRY_GRACE_PERIOD > self._now():
                    return expires
            rows = await read_all(self._storage, keys.GROUPS, task_group_id, ())
            if header is not None:
                guards = [row for row in rows if row.key.startswith(keys.SCHEDULERS)]
                if not await delete_together(self._storage, keys.GROUPS, task_group_id, [header, *guards]):
                    continue
                gone = {header.key, *(row.key for row in guards)}
                rows = [row for row in rows if row.key not in gone]
            return await self._delete_rest(task_group_id, rows)
        return self._now()

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

    async def _delete_rest(self, task_group_id: str, rows: Sequence[Row]) -> datetime | None:
        """Members of a group without a header; a young row may be of a call that makes the group just now."""
        old = [row for row in rows if row.timestamp + ROWS_COMPLETE_AFTER <= self._now()]
        await delete_unchanged(self._storage, keys.GROUPS, task_group_id, old)
        return None if len(old) == len(rows) else self._now()
