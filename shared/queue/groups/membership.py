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
from shared.base.protocol import ORPHAN_AFTER
from shared.queue.groups.members import NO_EDGES, GroupExists, GuardMissing, MemberExists, MemberStore, RequiredSettled
from shared.queue.groups.recent import RecentGroupStore
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
    is_guarded: bool
    """Whether each required task in the group had its active row: then none of them has been settled, and none need be
    read."""


class Membership:
    """Adds tasks to groups, making a group with its first task."""

    def __init__(
        self, groups: GroupStore, members: MemberStore, expiry: ExpiryStore, recent: RecentGroupStore, runtime: Runtime
    ) -> None:
        self._groups = groups
        self._members = members
        self._expiry = expiry
        self._recent = recent
        self._runtime = runtime
        self._expires: Memo[str, datetime] = Memo(remembered.GROUPS)
        """By group: its expiration as this process knows it, which never becomes earlier."""
        self._sweeps: Memo[tuple[str, str], bool] = Memo(remembered.SWEEPS)
        """By group and hour: the sweeps that this process has scheduled."""

    async def join(self, definition: Definition, packed: PackedDefinition, edges: Edges = NO_EDGES) -> Place:
        """Adds the task as an active member, with its first edges out of tasks of its group. What will delete it, once
        it has expired, is scheduled then.

        Raises MemberExists, RequestConflict (another scheduler, or sealed), ServiceUnavailable.
        """
        async for _ in attempts(self._runtime):
            known = self._expires.get(definition.task_group_id)
            try:
                if known is not None and known >= definition.expires:
                    return await self._join_known(definition, packed, edges, known)
                return await self._join_or_create(definition, packed, edges)
            except GuardMissing:
                self._expires.pop(definition.task_group_id)
            except (GroupExists, GroupChanged):
                continue
        raise ServiceUnavailable("the task group is contended; send the call again")

    async def rewrite(
        self, definition: Definition, packed: PackedDefinition, looked: datetime, edges: Edges = NO_EDGES
    ) -> None:
        """Rewrites the rows that an earlier call has added, so that they are not taken for orphans. Adds those that are
        missing, and the first edges.

        `looked` is when the task was looked for and not found, or earlier. Raises RequestConflict, ServiceUnavailable.
        """
        try:
            try:
                await self._members.touch_member(definition, edges)
            except GroupChanged:
                await self._members.restore_member(definition, packed, looked - ORPHAN_AFTER, edges)
        except GuardMissing:
            _refuse(definition, await self._groups.header(definition.task_group_id))
            raise ServiceUnavailable("the task group has just changed; send the call again") from None
        except GroupChanged:
            raise ServiceUnavailable("the task is being created by another call; send the call again") from None

    async def _join_known(
        self,
        definition: Definition,
        packed: PackedDefinition,
        edges: Edges,
        expires: datetime,
        *,
        raised: Group | None = None,
    ) -> Place:
        """Joins a group whose expiration is known. `raised` is the group's header, if this task has to move the
        expiration.
        """
        place, _ = await both(
            self._join(definition, packed, edges, group=raised),
            self._schedule(definition, expires, is_raised=raised is not None),
        )
        return place

    async def _schedule(self, definition: Definition, group_expires: datetime, *, is_raised: bool) -> None:
        """Schedules the task's deletion. The sweep of the group at the group's expiration deletes all its tasks, so
        only a task that expires much earlier needs a sweep in an earlier hour. Without that sweep it would merely be
        deleted late.
        """
        task_group_id, expires = definition.task_group_id, definition.expires
        if is_raised:
            await self._expiry.group(task_group_id, group_expires)
        if group_expires - expires > MARGIN:
            sweep = task_group_id, self._expiry.bucket(expires)
            if sweep not in self._sweeps:
                await self._expiry.group(task_group_id, expires)
                self._sweeps[sweep] = True

    async def _join(
        self, definition: Definition, packed: PackedDefinition, edges: Edges, *, group: Group | None = None
    ) -> Place:
        """Joins with guards for the edges or, if one of the guard rows is missing, without."""
        try:
            rows = await self._members.join(definition, packed, edges, group=group)
        except RequiredSettled:
            edges = replace(edges, guards=())
            rows = await self._members.join(definition, packed, edges, group=group)
        return Place(partial(self._members.leave, definition.task_group_id, rows), is_guarded=bool(edges.guards))

    async def _join_or_create(self, definition: Definition, packed: PackedDefinition, edges: Edges) -> Place:
        header = await self._groups.header(definition.task_group_id)
        expires = definition.expires + MARGIN
        if header is None:
            return await self._create_group(definition, packed, edges, expires)
        _refuse(definition, header)
        is_raised = header.expires < definition.expires
        known = expires if is_raised else header.expires
        place = await self._join_known(definition, packed, edges, known, raised=header if is_raised else None)
        self._expires[definition.task_group_id] = known
        return place

    async def _create_group(
        self, definition: Definition, packed: PackedDefinition, edges: Edges, expires: datetime
    ) -> Place:
        """Creates a group. Its deletion, and that of its row in the list of groups, is scheduled first: rows that the
        expiry job does not know would stay for ever. Raises GroupExists, MemberExists.
        """
        entry = self._recent.entry(definition)
        await self._expiry.new_group(definition.task_group_id, expires, entry.key)
        await self._recent.add(entry)
        try:
            rows = await self._members.create_group(definition, packed, edges, entry.key)
        except (GroupExists, MemberExists):
            # If the answer to the first attempt was lost, the group that exists may be the one that this call created.
            header = await self._groups.header(definition.task_group_id)
            if header is None or header.listed != entry.key:
                await self._recent.remove(entry.key)
            raise
        self._expires[definition.task_group_id] = expires
        return Place(partial(self._members.leave, definition.task_group_id, rows), is_guarded=False)


def _refuse(definition: Definition, header: Group | None) -> None:
    if header is None:
        return
    if header.scheduler_id != definition.scheduler_id:
        raise RequestConflict(
            f"task group {header.task_group_id} has schedulerId {header.scheduler_id!r}, "
            f"not {definition.scheduler_id!r}"
        )
    if header.sealed is not None:
        raise RequestConflict(f"task group {header.task_group_id} is sealed")
