"""The Groups table: header, guards, members and active rows of task groups (design 3).

The scheduler's guard row makes "same scheduler, not sealed" part of the transaction that adds a member.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from shared.domain.dates import format_date
from shared.domain.definition import Definition
from shared.domain.task import Task
from shared.storage import keys
from shared.storage.codec import PackedDefinition, compact
from shared.storage.group_rows import Active, Group, Joined, Member, decode_active, decode_group, decode_member
from shared.storage.interface import (
    Create,
    Delete,
    Merge,
    Operation,
    Refusal,
    Row,
    Storage,
    TransactionRefused,
    Upsert,
    Value,
)

_SMALL = 16_000
"""Bytes of a packed definition that a member row carries along, so that listing a group needs no read per task."""
_SMALL_IN_MEMORY = 256 * 1024
"""Bytes that it may then take in memory: what shrinks to a thousandth is no small definition."""


class GuardMissing(Exception):
    """The group is unknown, has another scheduler, or is sealed: its header tells which."""


class MemberExists(Exception):
    """The task has been added to the group before."""


class GroupExists(Exception):
    """Somebody else has just founded the group."""


class GroupChanged(Exception):
    """The group's header has changed since it was read."""


class GroupStore:
    """Reads and changes task groups."""

    def __init__(self, storage: Storage) -> None:
        self._tables = storage.tables

    async def header(self, task_group_id: str) -> Group | None:
        """The group's header."""
        row = await self._tables.get(keys.GROUPS, task_group_id, keys.GROUP)
        return None if row is None else decode_group(row)

    async def join(self, definition: Definition, packed: PackedDefinition, *, group: Group | None = None) -> Joined:
        """Adds a new task as an active member.

        With `group` its expiration is raised to `definition.expires` + 1 h in the same transaction.
        Raises GuardMissing, MemberExists, GroupChanged.
        """
        operations: list[Operation] = [
            Merge(keys.scheduler(definition.scheduler_id), {}),
            Create(keys.member(definition.task_id), _member_values(packed)),
            Create(keys.active(definition.task_id, 0), {}),
        ]
        if group is not None:
            operations.append(Merge(keys.GROUP, {"expires": group_expires(definition)}, group.etag))
        etags = await self._add(definition.task_group_id, operations)
        return Joined(member=etags[1], active=etags[2])

    async def found(self, definition: Definition, packed: PackedDefinition) -> Joined:
        """Makes the group with its first member. Raises GroupExists, MemberExists."""
        operations: list[Operation] = [
            Create(
                keys.GROUP,
                {"schedulerId": definition.scheduler_id, "expires": group_expires(definition), "sealed": "", "due": ""},
            ),
            Create(keys.member(definition.task_id), _member_values(packed)),
            Create(keys.active(definition.task_id, 0), {}),
            Create(keys.scheduler(definition.scheduler_id), {}),
        ]
        try:
            etags = await self._tables.transact(keys.GROUPS, definition.task_group_id, operations)
        except TransactionRefused as refused:
            if refused.index == 1:
                raise MemberExists from refused
            raise GroupExists from refused
        return Joined(member=etags[1], active=etags[2], founded=(etags[0], etags[3]))

    async def touch_member(self, definition: Definition) -> None:
        """Keeps the rows of a task whose commit is still to come: own content, new ETag, new time (design 2.2).

        Raises GuardMissing, GroupChanged when one of the rows is not there any more: the call that added them was
        refused, or the task has come and been resolved since it was looked for. An active row put now would stay.
        """
        operations: list[Operation] = [
            Merge(keys.scheduler(definition.scheduler_id), {}),
            Merge(keys.member(definition.task_id), {}),
            Merge(keys.active(definition.task_id, 0), {}),
        ]
        try:
            await self._tables.transact(keys.GROUPS, definition.task_group_id, operations)
        except TransactionRefused as refused:
            if refused.index == 0:
                raise GuardMissing from refused
            raise GroupChanged from refused

    async def leave(self, task_group_id: str, task_id: str, joined: Joined) -> None:
        """Takes back a member that was added and whose task was refused, unless somebody has touched it since."""
        operations = [Delete(keys.member(task_id), joined.member), Delete(keys.active(task_id, 0), joined.active)]
        try:
            await self._tables.transact(keys.GROUPS, task_group_id, operations)
        except TransactionRefused:
            return

    async def dissolve(self, definition: Definition, joined: Joined) -> bool:
        """As `leave`, and takes back the group that was founded with it. False: nothing, since somebody has joined it
        or changed it; whoever joins touches the scheduler's guard."""
        assert joined.founded is not None, "only who has founded a group can dissolve it"
        header, scheduler = joined.founded
        operations = [
            Delete(keys.GROUP, header),
            Delete(keys.member(definition.task_id), joined.member),
            Delete(keys.active(definition.task_id, 0), joined.active),
            Delete(keys.scheduler(definition.scheduler_id), scheduler),
        ]
        try:
            await self._tables.transact(keys.GROUPS, definition.task_group_id, operations)
        except TransactionRefused:
            return False
        return True

    async def add_active(self, task_group_id: str, task_id: str, generation: int) -> str | None:
        """Counts a task that is being opened again. The ETag if the row is new, None if it stood already: touched."""
        key = keys.active(task_id, generation)
        try:
            return (await self._tables.transact(keys.GROUPS, task_group_id, [Create(key, {})]))[0]
        except TransactionRefused:
            await self._tables.transact(keys.GROUPS, task_group_id, [Upsert(key, {})])
            return None

    async def remove_active(self, task_group_id: str, task_id: str, generation: int, etag: str) -> None:
        """Removes an active row if it is still as it was read or written."""
        try:
            await self._tables.transact(keys.GROUPS, task_group_id, [Delete(keys.active(task_id, generation), etag)])
        except TransactionRefused:
            return

    async def settle(self, task: Task, generation: int) -> None:
        """A task was resolved in this generation: its active row goes, its member row gets the final status, and the
        group is due for a check. Nothing happens when the row is gone: that was done before.

        The status is kept under its generation, so that a late handler of an earlier one overwrites nothing newer.
        """
        final = compact(task.as_json()).decode()
        operations: list[Operation] = [
            Delete(keys.active(task.task_id, generation)),
            Merge(keys.member(task.task_id), {f"final{generation:04d}": final}),
            Merge(keys.GROUP, {"due": f"{task.task_id}~{generation}"}),
        ]
        try:
            await self._tables.transact(keys.GROUPS, task.task_group_id, operations)
        except TransactionRefused as refused:
            if refused.refusal is not Refusal.MISSING:
                raise

    async def active(self, task_group_id: str, *, limit: int) -> tuple[list[Active], Group | None]:
        """The first active rows; the header too, of the same snapshot, when there are fewer than `limit`."""
        start, end = keys.ACTIVE_AND_GROUP
        rows: list[Row] = []
        while True:
            page = await self._tables.query(keys.GROUPS, task_group_id, start=start, end=end, limit=limit)
            rows.extend(page.rows)
            if rows or page.resume is None:
                break
            start = page.resume
        group = next((decode_group(row) for row in rows if row.key == keys.GROUP), None)
        return [decode_active(row) for row in rows if row.key != keys.GROUP], group

    async def clear_due(self, group: Group) -> None:
        """The check that was due is done, unless another one has become due."""
        try:
            await self._tables.transact(keys.GROUPS, group.task_group_id, [Merge(keys.GROUP, {"due": ""}, group.etag)])
        except TransactionRefused:
            return

    async def seal(self, group: Group, now: datetime) -> None:
        """Seals the group: its scheduler's guard goes, so that nobody can join. Raises GroupChanged."""
        operations: list[Operation] = [
            Merge(keys.GROUP, {"sealed": format_date(now)}, group.etag),
            Delete(keys.scheduler(group.scheduler_id)),
        ]
        try:
            await self._tables.transact(keys.GROUPS, group.task_group_id, operations)
        except TransactionRefused as refused:
            raise GroupChanged from refused

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

    async def count_members(self, task_group_id: str, start: str | None) -> tuple[int, str | None]:
        """How many members a page of the group has, and where the next page starts."""
        page = await self._tables.query(
            keys.GROUPS, task_group_id, start=start or keys.MEMBERS[0], end=keys.MEMBERS[1], select=()
        )
        return len(page.rows), page.resume

    async def _add(self, task_group_id: str, operations: Sequence[Operation]) -> list[str]:
        try:
            return await self._tables.transact(keys.GROUPS, task_group_id, operations)
        except TransactionRefused as refused:
            if refused.refusal is Refusal.STALE or refused.index > 2:
                raise GroupChanged from refused
            if refused.index == 0:
                raise GuardMissing from refused
            raise MemberExists from refused


def group_expires(definition: Definition) -> str:
    """A group outlives its tasks by an hour (contract 3.4)."""
    return format_date(definition.expires + timedelta(hours=1))


def _member_values(packed: PackedDefinition) -> dict[str, Value]:
    small = packed.spilled_to is None and len(packed.content) <= _SMALL and packed.memory <= _SMALL_IN_MEMORY
    return {"definition": packed.content} if small else {}
