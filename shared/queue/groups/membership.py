"""How tasks join and leave groups: rows of the Groups table that are written before a task is committed (design 3, 5).
The transaction that adds a member also touches guard rows, and fails without them: the scheduler's guard row ("same
scheduler, not sealed"), and the active rows of the required tasks ("not settled yet"). No read is relied on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from shared.base import remembered
from shared.base.concurrency import both
from shared.base.dates import format_date
from shared.base.errors import RequestConflict, ServiceError, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.memo import Memo
from shared.base.protocol import LATEST_COMMIT
from shared.queue.groups.recent import CreatedGroup, RecentGroups
from shared.queue.groups.rows import Edges, Group, encode_group, was_created
from shared.queue.groups.store import GroupChanged, GroupStore
from shared.queue.tasks.codec import MEMORY, PackedDefinition
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.known import KnownStatuses
from shared.runtime import Runtime, attempts
from shared.store import interface as tables
from shared.store import keys
from shared.store.expiring import ExpiryStore
from shared.store.interface import Storage, TransactionRefused
from shared.store.partitions import try_transact

MARGIN = timedelta(hours=1)
"""How far ahead a group's expiration is set, so that the next tasks need not move it again (contract 3.4). Also how
much earlier a task may expire than the sweep of its group that deletes it."""
NO_EDGES = Edges()
_UNKNOWN: Mapping[str, tables.Value] = {"definition": b""}
"""Marks a member row whose definition may be that of another call than the one that creates the task."""
_SMALL = 16_000
"""Bytes of a packed definition that a member row carries along, so that listing a group needs no read per task."""
_SMALL_IN_MEMORY = 256 * 1024
"""Bytes that such a definition may take once unpacked. A small one may be large: text may shrink to a thousandth."""
_ACTIVE_ROW = 2
"""Place of a new task's active row in the transaction that it joins its group with, right after its member row."""

Exists = Callable[[], Awaitable[object]]
"""Looks for the task of an id; returns None if there is none."""


class MemberExists(ServiceError):
    """The task has been added to the group before."""


@dataclass(frozen=True, slots=True)
class Place:
    """A new member's place in its group."""

    leave: Callable[[], Awaitable[None]]
    """Rolls back a member whose task was refused. The group stays, even if this call created it: an earlier try of the
    request that created the header could take effect late and restore it."""
    number: int
    """The number of the group as of which the task has joined it."""
    is_guarded: bool
    """Whether each required task in the group had its active row: then none is settled, and none need be read."""


@dataclass(eq=False, repr=False)
class Membership:
    """Adds tasks to groups, making a group with its first task, and rolls back what a refused call has added."""

    _storage: Storage
    _groups: GroupStore
    _known: KnownStatuses
    """Learns the ETags of member rows that are written."""
    _expiry: ExpiryStore
    _recent: RecentGroups
    _runtime: Runtime

    def __post_init__(self) -> None:
        self._tables = self._storage.tables
        self._sweeps: Memo[tuple[str, str], bool] = Memo(remembered.SWEEPS)
        """By group and hour: the sweeps that this process has scheduled."""

    async def join(self, definition: Definition, packed: PackedDefinition, edges: Edges = NO_EDGES) -> Place:
        """Adds the task as an active member, with its first edges out of tasks of its group. Its deletion is scheduled
        then. Raises MemberExists, RequestConflict (another scheduler, or sealed), ServiceUnavailable."""
        async for _ in attempts(self._runtime):
            group = await self._joinable(definition)
            try:
                if group is None:
                    return await self._create_group(definition, packed, edges)
                place, _ = await both(self._join(definition, packed, group, edges), self._schedule(definition, group))
                return place
            except GroupChanged:
                self._groups.forget(definition.task_group_id)
        raise ServiceUnavailable("the task group is contended; send the call again")

    async def _joinable(self, definition: Definition) -> Group | None:
        """Returns the group's header; None if there is no group. Raises RequestConflict."""
        group = self._groups.known(definition.task_group_id)
        if group is None or group.expires < definition.expires or _refusal(definition, group):
            group = await self._groups.header(definition.task_group_id)
        if group is not None and (refusal := _refusal(definition, group)):
            raise refusal
        return group

    async def _schedule(self, definition: Definition, group: Group) -> None:
        """Schedules the task's deletion. The sweep of the group at the group's expiration deletes all its tasks, so
        only a task that expires much earlier needs a sweep in an earlier hour. Without it, it would merely go late."""
        task_group_id, expires = definition.task_group_id, definition.expires
        if group.expires < expires:
            await self._expiry.group(task_group_id, _group_expires(definition))
        if group.expires - expires > MARGIN:
            sweep = task_group_id, self._expiry.bucket(expires)
            if sweep not in self._sweeps:
                await self._expiry.group(task_group_id, expires)
                self._sweeps[sweep] = True

    async def _join(self, definition: Definition, packed: PackedDefinition, group: Group, edges: Edges) -> Place:
        """Adds the task as of the group's number, with guards for the edges or, if one of the guard rows is missing,
        without. A group that ends before the task is raised with it. Raises MemberExists, GroupChanged."""
        own = _own_rows(definition, packed, edges)
        guard = tables.Merge(keys.scheduler(definition.scheduler_id, group.number), {})
        operations: list[tables.Operation] = [guard, *own]
        raised = replace(group, expires=_group_expires(definition)) if group.expires < definition.expires else None
        if raised is not None:
            operations.append(tables.Merge(keys.GROUP, {"expires": format_date(raised.expires)}, group.etag))
        guards = len(operations)
        operations += [tables.Merge(keys.active(task_id, 0), {}) for task_id in edges.guards]
        try:
            etags = await self._tables.transact(keys.GROUPS, definition.task_group_id, operations)
        except TransactionRefused as refused:
            if refused.index >= guards:
                return await self._join(definition, packed, group, replace(edges, guards=()))
            # The guard is missing if the group is unknown, has another scheduler or another number, or is sealed.
            if refused.refusal is tables.Refusal.STALE or refused.index == 0 or refused.index > _ACTIVE_ROW:
                raise GroupChanged from refused
            raise MemberExists from refused
        now = group if raised is None else replace(raised, etag=etags[guards - 1])
        return self._place(definition.task_id, now, own, etags, is_guarded=bool(edges.guards))

    async def _create_group(self, definition: Definition, packed: PackedDefinition, edges: Edges) -> Place:
        """Creates a group. Its deletion, and that of its row in the list, is scheduled first: rows that the expiry job
        does not know would stay for ever. If the process stood still, the job may have come to the end of these before
        the group was created: then it is done again. Raises GroupChanged, MemberExists, ServiceUnavailable."""
        entry, began = self._recent.entry(definition), self._runtime.now()
        await self._schedule_group(definition, entry)
        try:
            if self._is_late(began):
                raise ServiceUnavailable("the call took too long; send it again")
            place = await self._join_new(definition, packed, edges, entry.key)
        except (GroupChanged, MemberExists, ServiceUnavailable):
            # If the answer to the first attempt was lost, the group that exists may be the one that this call created.
            header = await self._groups.header(definition.task_group_id)
            if header is None or header.listed != entry.key:
                await self._recent.remove_group(entry.key)
            raise
        if self._is_late(began):
            await self._schedule_group(definition, entry)
        return place

    async def _schedule_group(self, definition: Definition, entry: CreatedGroup) -> None:
        await self._expiry.new_group(definition.task_group_id, _group_expires(definition), entry.key)
        await self._recent.add(entry)

    def _is_late(self, began: datetime) -> bool:
        return self._runtime.now() - began > LATEST_COMMIT

    async def _join_new(self, definition: Definition, packed: PackedDefinition, edges: Edges, listed: str) -> Place:
        """Creates the group with its first member. `listed` is the key of its row in the list of groups. A new group
        has no active rows that could guard the edges. Raises GroupChanged if there is a group, MemberExists."""
        group = Group(
            task_group_id=definition.task_group_id,
            scheduler_id=definition.scheduler_id,
            expires=_group_expires(definition),
            sealed=None,
            number=0,
            listed=listed,
            etag="",
        )
        own = _own_rows(definition, packed, edges)
        made = [
            tables.Create(keys.GROUP, encode_group(group)),
            *own,
            tables.Create(keys.scheduler(definition.scheduler_id, 0), {}),
            tables.Create(keys.number(0), {}),
            tables.Create(keys.DUE, {"resolution": ""}),
        ]
        try:
            etags = await self._tables.transact(keys.GROUPS, definition.task_group_id, made)
        except TransactionRefused as refused:
            raise (MemberExists if refused.index == 1 else GroupChanged) from refused
        return self._place(definition.task_id, replace(group, etag=etags[0]), own, etags, is_guarded=False)

    def _place(
        self, task_id: str, group: Group, own: Sequence[tables.Operation], etags: Sequence[str], *, is_guarded: bool
    ) -> Place:
        """Notes that the task has joined the group, which is `group` now, its `own` rows after the first operation."""
        self._groups.keep(group)
        self._known.saw_member(task_id, etags[1])
        written = {operation.key: etag for operation, etag in zip(own, etags[1 : 1 + len(own)], strict=True)}
        return Place(partial(self._leave, group.task_group_id, written), group.number, is_guarded)

    async def _leave(self, task_group_id: str, written: Mapping[str, str]) -> None:
        """Rolls back rows, given by key with the ETags of their writing, unless the active row has changed."""
        is_member = keys.MEMBERS[0]
        operations = [tables.Delete(key, None if key.startswith(is_member) else etag) for key, etag in written.items()]
        await try_transact(self._tables, keys.GROUPS, task_group_id, operations)

    async def rewrite(
        self, definition: Definition, packed: PackedDefinition, exists: Exists, edges: Edges = NO_EDGES
    ) -> int:
        """Rewrites the rows in its group of a task that is not committed yet, which an earlier call has added. They get
        new ETags and a new time, so that they are not taken for orphans (design 2.2); those that are missing are
        written again, and the first edges. Returns the number of the group as of which this holds. `exists` says
        whether there is such a task. Raises RequestConflict, ServiceUnavailable."""
        async for _ in attempts(self._runtime):
            group = await self._joinable(definition)
            if group is None:
                break
            try:
                await self._rewrite(definition, packed, group.number, exists, edges)
                return group.number
            except GroupChanged:
                self._groups.forget(definition.task_group_id)
        raise ServiceUnavailable("the task is being created by another call, or its group changes; send the call again")

    async def _rewrite(
        self, definition: Definition, packed: PackedDefinition, number: int, exists: Exists, edges: Edges
    ) -> None:
        """The call that added the rows may have had another definition, so a listing has to read the task's definition.
        If the member row shows a resolution or a rerun, a task of this id was created. `exists` then looks for it once
        more: if it is not there, it has expired, and its id is used again. Otherwise an active row that is written now
        would stay, and would guard edges that no handler follows.

        Raises GroupChanged, also if another call has changed the rows, or created the task."""
        key = keys.member(definition.task_id)
        row = await self._tables.get_row(keys.GROUPS, definition.task_group_id, key)
        member, active, *added = _own_rows(definition, packed, edges)
        if row is not None:
            if not was_created(row):
                member = tables.Merge(key, _UNKNOWN, row.etag)
            elif not await exists():
                member = tables.Replace(key, _member_values(packed), row.etag)
            else:
                raise GroupChanged
        guard = tables.Merge(keys.scheduler(definition.scheduler_id, number), {})
        try:
            operations = [guard, member, tables.Upsert(active.key, {}), *added]
            await self._tables.transact(keys.GROUPS, definition.task_group_id, operations)
        except TransactionRefused as refused:
            raise GroupChanged from refused


def _refusal(definition: Definition, header: Group) -> RequestConflict | None:
    """Returns why the task cannot join the group, if it cannot."""
    if header.scheduler_id != definition.scheduler_id:
        return RequestConflict(
            f"task group {header.task_group_id} has schedulerId {header.scheduler_id!r}, "
            f"not {definition.scheduler_id!r}"
        )
    return RequestConflict(f"task group {header.task_group_id} is sealed") if header.sealed is not None else None


def _group_expires(definition: Definition) -> datetime:
    """Returns when a group expires: it outlives its tasks by an hour (contract 3.4)."""
    return definition.expires + MARGIN


def _own_rows(definition: Definition, packed: PackedDefinition, edges: Edges) -> list[tables.Operation]:
    """Returns the rows of a new task: member, active, and edges. An edge may exist already, left by a call that died or
    was refused; its ETag tells whose it is."""
    return [
        tables.Create(keys.member(definition.task_id), _member_values(packed)),
        tables.Create(keys.active(definition.task_id, 0), {}),
        *(tables.Upsert(keys.unblocks(task_id, definition.task_id), {}) for task_id in edges.first),
    ]


def _member_values(packed: PackedDefinition) -> dict[str, tables.Value]:
    small = len(packed.content) <= _SMALL and packed.memory <= _SMALL_IN_MEMORY
    return {"definition": packed.content, MEMORY: packed.memory} if small else {}
