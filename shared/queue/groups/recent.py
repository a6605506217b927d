"""The list of task groups, latest first (contract 2.5). It is one partition of the directory, so that a page is one
range query. A row is written ahead of its group, and counts only while the group's header names it. Others are orphans
of failed calls, which the expiry job removes."""

from __future__ import annotations

from datetime import datetime

from shared.base import bounds
from shared.base.concurrency import Lookups
from shared.base.frozen import dataclass
from shared.queue.groups.rows import Group
from shared.queue.groups.store import GroupStore
from shared.queue.tasks.definition import Definition
from shared.runtime import Runtime
from shared.store import keys
from shared.store.columns import Columns
from shared.store.interface import Delete, Row, Storage, Upsert
from shared.store.partitions import page_start, try_transact


@dataclass(frozen=True, kw_only=True, slots=True)
class CreatedGroup:
    """A task group as its first task describes it."""

    key: str
    task_group_id: str
    task_id: str
    """Id of the group's first task."""
    project_id: str
    """Project of the group's first task."""
    created: datetime
    """When the group's first task was accepted."""
    name: str
    owner: str
    source: str


CREATED_COLUMNS = Columns(CreatedGroup, without={"key"})
"""The columns of a row. They have the names of the answer's properties."""


RecentGroup = tuple[CreatedGroup, Group, bool]
"""A group as its first task described it, as it is now, and whether it has a single task."""


class RecentGroups:
    """Reads and writes the list of task groups."""

    def __init__(self, storage: Storage, groups: GroupStore, lookups: Lookups, runtime: Runtime) -> None:
        self._tables = storage.tables
        self._groups = groups
        self._lookups = lookups
        self._runtime = runtime

    def entry(self, definition: Definition) -> CreatedGroup:
        """Returns the row of a group whose first task is the given one, created now."""
        now, metadata = self._runtime.now(), definition.body["metadata"]
        return CreatedGroup(
            key=keys.created_group(now, self._runtime.slugid()),
            task_group_id=definition.task_group_id,
            task_id=definition.task_id,
            project_id=definition.body["projectId"],
            created=now,
            name=metadata["name"],
            owner=metadata["owner"],
            source=metadata["source"],
        )

    async def add(self, group: CreatedGroup) -> None:
        """Writes the row; what removes it is in the Expiry table already. Raises StorageUnavailable."""
        await self._tables.transact(keys.DIRECTORY, keys.GROUP, [Upsert(group.key, CREATED_COLUMNS.encode(group))])

    async def remove_group(self, key: str) -> None:
        """Removes the row, if it is there. Raises StorageUnavailable."""
        await try_transact(self._tables, keys.DIRECTORY, keys.GROUP, [Delete(key)])

    async def group_page(self, *, start: str, limit: int) -> tuple[list[RecentGroup], str | None]:
        """Returns a page of at most 100 groups, latest first, and the key at which the next one starts. Groups that
        never came to be are left out, so a page may be short. Raises InputError for a start outside of the listing,
        StorageUnavailable, ServiceUnavailable when too many lists are read."""
        first = page_start(start, keys.CREATED_GROUPS)
        if limit == 0:
            return [], None
        end, most = keys.CREATED_GROUPS[1], min(limit, bounds.PAGE_OF_READINGS)
        page = await self._tables.query(keys.DIRECTORY, keys.GROUP, start=first, end=end, limit=most)
        found = await self._lookups.each(self._find, page.rows)
        return [group for group in found if group is not None], page.resume

    async def _find(self, row: Row) -> RecentGroup | None:
        created = CREATED_COLUMNS.decode(row.values, key=row.key)
        header, is_single = await self._groups.header_and_whether_single(created.task_group_id)
        if header is None or header.listed != created.key:
            return None
        return created, header, is_single
