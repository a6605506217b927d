"""The Groups table: headers, members and active rows of task groups that are there (design 3).

How a task joins its group is in members.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from shared.base.dates import format_date, parse_date
from shared.base.errors import ServiceError
from shared.queue.groups.rows import (
    FINAL,
    HEADER_COLUMNS,
    OPENED,
    STATE,
    Active,
    Group,
    Member,
    active_values,
    decode_active,
    decode_group,
    decode_member,
)
from shared.queue.tasks.codec import compact
from shared.queue.tasks.known import KnownStatuses
from shared.queue.tasks.rules import Run, Task
from shared.store import keys
from shared.store.interface import Create, Delete, Merge, Operation, Row, Storage, TransactionRefused, Upsert, Value
from shared.store.partitions import PageReader, rows_of, try_transact

_HEAD_ROWS = 1 + 2 + 2
"""The header, a note for each kind of call on the whole group, and two members."""


class GroupChanged(ServiceError):
    """The group's header has changed since it was read."""


class GroupStore:
    """Reads and changes task groups."""

    def __init__(self, storage: Storage, known: KnownStatuses, now: Callable[[], datetime]) -> None:
        """`known` learns the ETags of member rows that are written."""
        self._tables = storage.tables
        self._known = known
        self._now = now

    async def header(self, task_group_id: str) -> Group | None:
        """The group's header."""
        row = await self._tables.get(keys.GROUPS, task_group_id, keys.GROUP)
        return None if row is None else decode_group(row)

    async def header_and_whether_single(self, task_group_id: str) -> tuple[Group | None, bool]:
        """The group's header, and whether it has one member: one request. A call that died may count as another."""
        start, end = keys.GROUP_TO_MEMBERS
        page = await self._tables.query(
            keys.GROUPS, task_group_id, start=start, end=end, limit=_HEAD_ROWS, select=HEADER_COLUMNS
        )
        header = next((decode_group(row) for row in page.rows if row.key == keys.GROUP), None)
        return header, sum(row.key >= keys.MEMBERS[0] for row in page.rows) == 1

    async def rewrite_member(self, task_group_id: str, task_id: str) -> None:
        """Changes nothing of a member row but its ETag, which vouches for the task's status (design 11)."""
        # Refused if there is no member row: then no listing shows the task.
        await try_transact(self._tables, keys.GROUPS, task_group_id, [Merge(keys.member(task_id), {})])

    async def add_active(self, task_group_id: str, task_id: str, generation: int) -> str | None:
        """Counts a task that is being opened again. The ETag if the row is new, None if it existed: rewritten.

        The member row is marked as well, so that listings and calls with dependents know from that row alone whether
        the last state in it is current.
        """
        key, values = keys.active(task_id, generation), active_values(self._now())
        member: Operation = Merge(keys.member(task_id), {_opened(generation): True})
        operation: Operation = Create(key, values)
        while True:
            try:
                etags = await self._tables.transact(keys.GROUPS, task_group_id, [operation, member])
            except TransactionRefused as refused:
                if refused.index == 0:
                    operation = Upsert(key, values)
                else:
                    member = _other_way(member, generation)
                continue
            return etags[0] if isinstance(operation, Create) else None

    async def remove_active(self, task_group_id: str, task_id: str, generation: int, etag: str) -> None:
        """Removes an active row if it is still as it was read or written."""
        await try_transact(self._tables, keys.GROUPS, task_group_id, [Delete(keys.active(task_id, generation), etag)])

    async def is_settled(self, task_group_id: str, task_id: str, generation: int) -> bool:
        """Whether the resolution of a task in this generation was settled: no active row of it counts any more."""
        row = await self._tables.get(keys.GROUPS, task_group_id, keys.member(task_id))
        return row is not None and _state(generation) in row.values

    async def remove_orphan(self, task_group_id: str, row: Active) -> None:
        """Removes the rows of a call that died, unless somebody has rewritten them since `row` was read.

        Both go in one transaction: a member row that is left alone would be in the way of that task id.
        """
        active = Delete(keys.active(row.task_id, row.generation), row.etag)
        try:
            await self._tables.transact(keys.GROUPS, task_group_id, [active, Delete(keys.member(row.task_id))])
        except TransactionRefused as refused:
            if refused.index == 1:
                await self.remove_active(task_group_id, row.task_id, row.generation, row.etag)

    async def settle(self, task: Task, run: Run) -> str | None:
        """Settles the resolution of a task by this run: deletes the active row of its generation, notes the state and
        the final status in its member row, and makes the group due for a check. Edges of the group may be read only
        afterwards (design 5).

        If the active row is gone, this was done before. The state is written once more, in case that row was removed
        for another reason. The task, as read, may have been opened again since: then its status is not final, and the
        resolution of a later generation will follow. A missing member row is created again, as only that leads the
        expiry job to the task. Without a header there is nothing to check. The active row of the first generation, on
        which new edges rely, is deleted with that of any later one: the first resolution may be handled after this one,
        and with another state.

        Returns the header's ETag if this has made the group due.
        """
        generation = run.generation
        values: dict[str, Value] = {_state(generation): run.state.value}
        if task.is_resolved and task.generation == generation:
            values[_final(generation)] = compact(task.as_json()).decode()
            if generation > 0:
                values[_final(generation - 1)] = ""
        if generation > 0:
            await self._settled_before(task, [Delete(keys.active(task.task_id, 0))])
        member: Operation = Merge(keys.member(task.task_id), values)
        header: list[Operation] = [Merge(keys.GROUP, {"due": due_of(task, generation)})]
        while True:
            operations = [Delete(keys.active(task.task_id, generation)), member, *header]
            try:
                etags = await self._tables.transact(keys.GROUPS, task.task_group_id, operations)
            except TransactionRefused as refused:
                if refused.index == 0:
                    if not await self._settled_before(task, [Merge(keys.member(task.task_id), values)]):
                        made = _other_way(Merge(keys.member(task.task_id), values), generation)
                        await self._settled_before(task, [Merge(keys.GROUP, {}), made])
                    return None
                if refused.index == 2:
                    header = []
                else:
                    member = _other_way(member, generation)
                continue
            return etags[2] if header else None

    async def _settled_before(self, task: Task, operations: Sequence[Operation]) -> bool:
        """Carries the operations out; False if a row is missing. That is as good: readers then go by the status row."""
        return await try_transact(self._tables, keys.GROUPS, task.task_group_id, operations) is not None

    async def active(self, task_group_id: str, *, limit: int) -> tuple[list[Active], Group | None]:
        """The first active rows; the header too, as it is after them, when there are fewer than `limit`.

        Not as of one moment: storage may answer a range in several parts.
        """
        start, end = keys.ACTIVE_AND_GROUP
        rows: Sequence[Row] = ()
        async for rows in rows_of(self._tables, keys.GROUPS, task_group_id, start=start, end=end, limit=limit):
            if rows:
                break
        group = next((decode_group(row) for row in rows if row.key == keys.GROUP), None)
        return [decode_active(row) for row in rows if row.key != keys.GROUP], group

    async def clear_due(self, group: Group) -> None:
        """Notes that the check that was due is done. Raises GroupChanged when the header has changed since."""
        try:
            await self._tables.transact(keys.GROUPS, group.task_group_id, [Merge(keys.GROUP, {"due": ""}, group.etag)])
        except TransactionRefused as refused:
            raise GroupChanged from refused

    async def seal(self, group: Group, now: datetime) -> None:
        """Seals the group: its scheduler's guard goes, so that no task can join. Raises GroupChanged."""
        operations: list[Operation] = [
            Merge(keys.GROUP, {"sealed": format_date(now)}, group.etag),
            Delete(keys.scheduler(group.scheduler_id)),
        ]
        try:
            await self._tables.transact(keys.GROUPS, group.task_group_id, operations)
        except TransactionRefused as refused:
            raise GroupChanged from refused

    async def note_job(self, task_group_id: str, kind: str, asked: datetime) -> None:
        """Notes the latest call of a kind on all tasks of the group: jobs of earlier ones have no more to do.

        Does nothing if the group has just been deleted: the note would stay for ever.
        """
        note = Upsert(keys.job(kind), {"asked": format_date(asked)})
        await try_transact(self._tables, keys.GROUPS, task_group_id, [Merge(keys.GROUP, {}), note])

    async def latest_job(self, task_group_id: str, kind: str) -> datetime | None:
        """When the latest call of a kind on all tasks of the group was made."""
        row = await self._tables.get(keys.GROUPS, task_group_id, keys.job(kind))
        return None if row is None else parse_date(str(row.values["asked"]))

    async def active_page(self, task_group_id: str, start: str | None) -> tuple[list[Active], str | None]:
        """A page of up to 1000 active rows, and where the next one starts."""
        page = await self._tables.query(keys.GROUPS, task_group_id, start=start or keys.ACTIVE[0], end=keys.ACTIVE[1])
        return [decode_active(row) for row in page.rows], page.resume

    async def members(self, task_group_id: str, start: str | None, limit: int) -> tuple[list[Member], str | None]:
        """A page of members in the order of taskId, and where the next one starts."""
        page = await self._tables.query(
            keys.GROUPS, task_group_id, start=start or keys.MEMBERS[0], end=keys.MEMBERS[1], limit=limit
        )
        return [decode_member(row) for row in page.rows], page.resume

    async def member_etags(self, task_group_id: str, start: str, limit: int) -> dict[str, str]:
        """The ETags of a page of member rows by taskId."""
        page = await self._tables.query(
            keys.GROUPS, task_group_id, start=start, end=keys.MEMBERS[1], limit=limit, select=()
        )
        return {row.key.partition("~")[2]: row.etag for row in page.rows}

    def all_members(self, task_group_id: str) -> PageReader[Row]:
        """The bare rows of all members."""
        start, end = keys.MEMBERS
        return rows_of(self._tables, keys.GROUPS, task_group_id, start=start, end=end, select=())


def due_of(task: Task, generation: int) -> str:
    """The value of `due` in a group's header until the group was checked after this task's resolution."""
    return f"{task.task_id}~{generation}~{task.life}"


def _other_way(member: Operation, generation: int) -> Operation:
    """The same write to a member row that turned out to be missing, or to exist: a Create for a Merge, and the reverse.
    A new row has the marks of all generations, as the one that it replaces."""
    assert isinstance(member, Merge | Create), "a member row is merged or made"
    if isinstance(member, Create):
        return Merge(member.key, member.values)
    return Create(member.key, {**{_opened(number): True for number in range(generation + 1)}, **member.values})


def _state(generation: int) -> str:
    """The property of a member row with the state in which the task was resolved in this generation."""
    return f"{STATE}{generation:04d}"


def _final(generation: int) -> str:
    """The property of a member row with the status in which the task was resolved in this generation.

    Each generation has its own, so that a late handler of an earlier one overwrites nothing newer.
    """
    return f"{FINAL}{generation:04d}"


def _opened(generation: int) -> str:
    """The property of a member row that says that the task may have been opened again, in this generation."""
    return f"{OPENED}{generation:04d}"
