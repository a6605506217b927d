"""The list of task groups, latest first: one row a group in the directory, written ahead of the group (contract 2.5).

The rows are in one partition, so that a page is one range query whenever its groups were created. A row counts only
while the header of its group names it: others are orphans of calls that created nothing, which the expiry job removes.
"""

from __future__ import annotations

from datetime import datetime

from shared.domain.dates import format_date, parse_date
from shared.domain.definition import Definition
from shared.frozen import dataclass
from shared.runtime import Runtime
from shared.storage import keys
from shared.storage.interface import Delete, Row, Storage, TransactionRefused, Upsert


@dataclass(frozen=True, kw_only=True, slots=True)
class CreatedGroup:
    """A task group as its first task describes it."""

    key: str
    task_group_id: str
    task_id: str
    """Its first task; "" for a group that was created before that was noted."""
    project_id: str
    """That of its first task; "" likewise."""
    created: datetime
    """When its first task was accepted."""
    name: str
    owner: str
    source: str


class RecentGroupStore:
    """Reads and writes the list of task groups."""

    def __init__(self, storage: Storage, runtime: Runtime) -> None:
        self._tables = storage.tables
        self._runtime = runtime

    def entry(self, definition: Definition) -> CreatedGroup:
        """The row of a group that this task founds now."""
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
        values = {
            "taskGroupId": group.task_group_id,
            "taskId": group.task_id,
            "projectId": group.project_id,
            "created": format_date(group.created),
            "name": group.name,
            "owner": group.owner,
            "source": group.source,
        }
        await self._tables.transact(keys.DIRECTORY, keys.GROUP, [Upsert(group.key, values)])

    async def remove(self, key: str) -> None:
        """Removes the row, if it is there. Raises StorageUnavailable."""
        try:
            await self._tables.transact(keys.DIRECTORY, keys.GROUP, [Delete(key)])
        except TransactionRefused:
            return

    async def page(self, start: str, limit: int) -> tuple[list[CreatedGroup], str | None]:
        """A page of rows, and where the next one starts. Raises StorageUnavailable."""
        page = await self._tables.query(
            keys.DIRECTORY, keys.GROUP, start=start, end=keys.CREATED_GROUPS[1], limit=limit
        )
        return [_decode(row) for row in page.rows], page.resume


def _decode(row: Row) -> CreatedGroup:
    values = row.values
    return CreatedGroup(
        key=row.key,
        task_group_id=str(values["taskGroupId"]),
        task_id=str(values.get("taskId", "")),
        project_id=str(values.get("projectId", "")),
        created=parse_date(str(values["created"])),
        name=str(values["name"]),
        owner=str(values["owner"]),
        source=str(values["source"]),
    )
