"""How tasks join and leave groups: rows of the Groups table that are written before a task is committed (design 3, 5).

The transaction that adds a member also touches guard rows, and fails without them: the scheduler's guard row ("same
scheduler, not sealed"), and the active rows of the required tasks ("not settled yet")."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta

from shared.base.dates import format_date
from shared.base.errors import ServiceError
from shared.base.frozen import replace
from shared.queue.groups.rows import Edges, Group, encode_group, was_created
from shared.queue.groups.store import GroupChanged
from shared.queue.tasks.codec import MEMORY, PackedDefinition
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.known import KnownStatuses
from shared.store import interface as tables
from shared.store import keys
from shared.store.interface import Storage, TransactionRefused
from shared.store.partitions import try_transact

_UNKNOWN: Mapping[str, tables.Value] = {"definition": b""}
"""Marks a member row whose definition may be that of another call than the one that creates the task."""
_SMALL = 16_000
"""Bytes of a packed definition that a member row carries along, so that listing a group needs no read per task."""
_SMALL_IN_MEMORY = 256 * 1024
"""Bytes that such a definition may take once unpacked. A small packed one may be large: compression can shrink text to
a thousandth."""


class MemberExists(ServiceError):
    """The task has been added to the group before."""


class RequiredSettled(ServiceError):
    """One of the tasks that a new one waits for has no active row of its first generation any more."""


NO_EDGES = Edges()
Rows = Mapping[str, str]
"""The ETags of rows that a call has written, by their keys, to roll them back with."""

_ACTIVE_ROW = 2
"""Place of a new task's active row in the transaction that it joins its group with, right after its member row."""


class MemberStore:
    """Adds tasks to groups, and rolls back what a refused call has added."""

    def __init__(self, storage: Storage, known: KnownStatuses) -> None:
        """Makes the store. `known` learns the ETags of member rows that are written."""
        self._tables = storage.tables
        self._known = known

    async def join(
        self, definition: Definition, packed: PackedDefinition, group: Group, edges: Edges = NO_EDGES
    ) -> tuple[Rows, Group]:
        """Adds a new task as an active member, with edges out of tasks of its group, as of the group's number. If the
        group ends before the task, its expiration is raised in the same transaction.

        Returns what was written, and the group as it is then. Raises MemberExists, GroupChanged, RequiredSettled."""
        own = self._own_rows(definition, packed, edges)
        operations: list[tables.Operation] = [
            tables.Merge(keys.scheduler(definition.scheduler_id, group.number), {}),
            *own,
        ]
        raised = replace(group, expires=group_expires(definition)) if group.expires < definition.expires else None
        if raised is not None:
            operations.append(tables.Merge(keys.GROUP, {"expires": format_date(raised.expires)}, group.etag))
        guards = len(operations)
        operations += [tables.Merge(keys.active(task_id, 0), {}) for task_id in edges.guards]
        try:
            etags = await self._tables.transact(keys.GROUPS, definition.task_group_id, operations)
        except TransactionRefused as refused:
            if refused.index >= guards:
                raise RequiredSettled from refused
            # The guard is missing if the group is unknown, has another scheduler or another number, or is sealed.
            if refused.refusal is tables.Refusal.STALE or refused.index == 0 or refused.index > _ACTIVE_ROW:
                raise GroupChanged from refused
            raise MemberExists from refused
        now = group if raised is None else replace(raised, etag=etags[guards - 1])
        return self._written(definition, own, etags), now

    async def create_group(
        self, definition: Definition, packed: PackedDefinition, edges: Edges, listed: str
    ) -> tuple[Rows, Group]:
        """Does what `join` does, but creates the group with its first member. `listed` is the key of its row in the
        list of groups. A new group has no active rows that could guard the edges, so they are written without guards.
        Raises GroupChanged if there is a group, MemberExists."""
        group = Group(
            task_group_id=definition.task_group_id,
            scheduler_id=definition.scheduler_id,
            expires=group_expires(definition),
            sealed=None,
            number=0,
            listed=listed,
            etag="",
        )
        own = self._own_rows(definition, packed, edges)
        guards = tables.Create(keys.scheduler(definition.scheduler_id, 0), {}), tables.Create(keys.number(0), {})
        made = [
            tables.Create(keys.GROUP, encode_group(group)),
            *own,
            *guards,
            tables.Create(keys.DUE, {"resolution": ""}),
        ]
        try:
            etags = await self._tables.transact(keys.GROUPS, definition.task_group_id, made)
        except TransactionRefused as refused:
            if refused.index == 1:
                raise MemberExists from refused
            raise GroupChanged from refused
        return self._written(definition, own, etags), replace(group, etag=etags[0])

    def _own_rows(self, definition: Definition, packed: PackedDefinition, edges: Edges) -> list[tables.Operation]:
        """Returns the rows of a new task: member, active, and edges. In the transactions of `join` and `create_group`
        they follow the first operation."""
        return [
            tables.Create(keys.member(definition.task_id), _member_values(packed)),
            tables.Create(keys.active(definition.task_id, 0), {}),
            *_with_edges(definition, edges),
        ]

    def _written(self, definition: Definition, own: Sequence[tables.Operation], etags: Sequence[str]) -> Rows:
        self._known.saw_member(definition.task_id, etags[1])
        return {operation.key: etag for operation, etag in zip(own, etags[1 : 1 + len(own)], strict=True)}

    async def rewrite(
        self,
        definition: Definition,
        packed: PackedDefinition,
        number: int,
        exists: Callable[[], Awaitable[bool]],
        edges: Edges = NO_EDGES,
    ) -> None:
        """Rewrites the rows in its group of a task that is not committed yet, which gives them new ETags and a new
        time, so that they are not taken for orphans (design 2.2); those that are missing are written again.

        The call that added them may have had another definition, so a listing has to read the task's definition. If the
        member row shows a resolution or a rerun, a task of this id was created. `exists` then looks for it once more:
        if it is not there, it has expired, and its id is used again. Otherwise an active row that is written now would
        stay, and would guard edges that no handler follows.

        Raises GroupChanged, also if another call has changed the rows meanwhile, or has created the task."""
        key, active = keys.member(definition.task_id), keys.active(definition.task_id, 0)
        row = await self._tables.get(keys.GROUPS, definition.task_group_id, key)
        member: tables.Operation
        if row is None:
            member = tables.Create(key, _member_values(packed))
        elif not was_created(row):
            member = tables.Merge(key, _UNKNOWN, row.etag)
        elif not await exists():
            member = tables.Replace(key, _member_values(packed), row.etag)
        else:
            raise GroupChanged
        guard = tables.Merge(keys.scheduler(definition.scheduler_id, number), {})
        operations = [guard, member, tables.Upsert(active, {}), *_with_edges(definition, edges)]
        try:
            await self._tables.transact(keys.GROUPS, definition.task_group_id, operations)
        except TransactionRefused as refused:
            raise GroupChanged from refused

    async def leave(self, task_group_id: str, rows: Rows) -> None:
        """Rolls back the rows of a member whose task was refused, unless somebody has rewritten its active row
        since."""
        is_member = keys.MEMBERS[0]
        operations = [tables.Delete(key, None if key.startswith(is_member) else etag) for key, etag in rows.items()]
        await try_transact(self._tables, keys.GROUPS, task_group_id, operations)


def group_expires(definition: Definition) -> datetime:
    """Returns when a group expires: it outlives its tasks by an hour (contract 3.4)."""
    return definition.expires + timedelta(hours=1)


def _member_values(packed: PackedDefinition) -> dict[str, tables.Value]:
    small = len(packed.content) <= _SMALL and packed.memory <= _SMALL_IN_MEMORY
    return {"definition": packed.content, MEMORY: packed.memory} if small else {}


def _with_edges(definition: Definition, edges: Edges) -> list[tables.Operation]:
    """Adds the edges to the transaction. An edge may exist already, left by a call that died or was refused; its ETag
    tells whose it is."""
    return [tables.Upsert(keys.unblocks(task_id, definition.task_id), {}) for task_id in edges.first]
