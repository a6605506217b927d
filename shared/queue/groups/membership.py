"""Joining a task group: its scheduler and its seal are conditions of the transaction, not of a read (design 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

from shared.base import remembered
from shared.base.concurrency import both
from shared.base.errors import RequestConflict, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.memo import Memo
from shared.base.protocol import LATEST_COMMIT
from shared.queue.groups import members
from shared.queue.groups.members import NO_EDGES, MemberExists, MemberStore, Rows
from shared.queue.groups.recent import CreatedGroup, RecentGroupStore
from shared.queue.groups.rows import Edges, Group
from shared.queue.groups.store import GroupChanged, GroupStore
from shared.queue.tasks.codec import PackedDefinition
from shared.queue.tasks.definition import Definition
from shared.runtime import Runtime, attempts
from shared.store.expiring import ExpiryStore

MARGIN = timedelta(hours=1)
"""How far ahead a group's expiration is set, so that the next tasks need not move it again (contract 3.4). Also how
much earlier a task may expire than the sweep of its group that deletes it."""

Leave = Callable[[], Awaitable[None]]
"""Rolls back a member whose task was refused. The group stays, even if this call created it: an earlier try of the
request that created the header could take effect late and restore it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A new member's place in its group."""

    leave: Leave
    number: int
    """The number of the group as of which the task has joined it."""
    is_guarded: bool
    """Whether each required task in the group had its active row: then none of them has been settled, and none need be
    read."""


@dataclass(eq=False, repr=False)
class Membership:
    """Adds tasks to groups, making a group with its first task."""

    _groups: GroupStore
    _members: MemberStore
    _expiry: ExpiryStore
    _recent: RecentGroupStore
    _runtime: Runtime

    def __post_init__(self) -> None:
        self._sweeps: Memo[tuple[str, str], bool] = Memo(remembered.SWEEPS)
        """By group and hour: the sweeps that this process has scheduled."""

    async def join(self, definition: Definition, packed: PackedDefinition, edges: Edges = NO_EDGES) -> Place:
        """Adds the task as an active member, with its first edges out of tasks of its group. What will delete it, once
        it has expired, is scheduled then.

        Raises MemberExists, RequestConflict (another scheduler, or sealed), ServiceUnavailable."""
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

    async def rewrite(
        self,
        definition: Definition,
        packed: PackedDefinition,
        exists: Callable[[], Awaitable[bool]],
        edges: Edges = NO_EDGES,
    ) -> int:
        """Rewrites the rows that an earlier call has added, so that they are not taken for orphans. Adds those that are
        missing, and the first edges. Returns the number of the group as of which this holds.

        `exists` looks whether there is a task of this id. Raises RequestConflict, ServiceUnavailable."""
        async for _ in attempts(self._runtime):
            group = await self._joinable(definition)
            if group is None:
                break
            try:
                await self._members.rewrite(definition, packed, group.number, exists, edges)
                return group.number
            except GroupChanged:
                self._groups.forget(definition.task_group_id)
        raise ServiceUnavailable("the task is being created by another call, or its group changes; send the call again")

    async def _schedule(self, definition: Definition, group: Group) -> None:
        """Schedules the task's deletion. The sweep of the group at the group's expiration deletes all its tasks, so
        only a task that expires much earlier needs a sweep in an earlier hour. Without that sweep it would merely be
        deleted late."""
        task_group_id, expires = definition.task_group_id, definition.expires
        if group.expires < expires:
            await self._expiry.group(task_group_id, members.group_expires(definition))
        if group.expires - expires > MARGIN:
            sweep = task_group_id, self._expiry.bucket(expires)
            if sweep not in self._sweeps:
                await self._expiry.group(task_group_id, expires)
                self._sweeps[sweep] = True

    async def _join(self, definition: Definition, packed: PackedDefinition, group: Group, edges: Edges) -> Place:
        """Joins with guards for the edges or, if one of the guard rows is missing, without."""
        try:
            rows, group = await self._members.join(definition, packed, group, edges)
        except members.RequiredSettled:
            edges = replace(edges, guards=())
            rows, group = await self._members.join(definition, packed, group, edges)
        return self._place(group, rows, is_guarded=bool(edges.guards))

    def _place(self, group: Group, rows: Rows, *, is_guarded: bool) -> Place:
        self._groups.keep(group)
        return Place(partial(self._members.leave, group.task_group_id, rows), group.number, is_guarded)

    async def _create_group(self, definition: Definition, packed: PackedDefinition, edges: Edges) -> Place:
        """Creates a group. Its deletion, and that of its row in the list of groups, is scheduled first: rows that the
        expiry job does not know would stay for ever. If the process stood still, the job may have come to the end of
        these before the group was created: then they are scheduled again.

        Raises GroupChanged, MemberExists, ServiceUnavailable."""
        entry, began = self._recent.entry(definition), self._runtime.now()
        await self._schedule_group(definition, entry)
        try:
            if self._is_late(began):
                raise ServiceUnavailable("the call took too long; send it again")
            rows, group = await self._members.create_group(definition, packed, edges, entry.key)
        except (GroupChanged, MemberExists, ServiceUnavailable):
            # If the answer to the first attempt was lost, the group that exists may be the one that this call created.
            header = await self._groups.header(definition.task_group_id)
            if header is None or header.listed != entry.key:
                await self._recent.remove(entry.key)
            raise
        if self._is_late(began):
            await self._schedule_group(definition, entry)
        return self._place(group, rows, is_guarded=False)

    async def _schedule_group(self, definition: Definition, entry: CreatedGroup) -> None:
        await self._expiry.new_group(definition.task_group_id, members.group_expires(definition), entry.key)
        await self._recent.add(entry)

    def _is_late(self, began: datetime) -> bool:
        return self._runtime.now() - began > LATEST_COMMIT


def _refusal(definition: Definition, header: Group) -> RequestConflict | None:
    """Returns why the task cannot join the group, if it cannot."""
    if header.scheduler_id != definition.scheduler_id:
        return RequestConflict(
            f"task group {header.task_group_id} has schedulerId {header.scheduler_id!r}, "
            f"not {definition.scheduler_id!r}"
        )
    return RequestConflict(f"task group {header.task_group_id} is sealed") if header.sealed is not None else None
