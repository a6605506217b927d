"""Listings of groups and of dependents, sealing, and lookups of many tasks (contract 2.4, 3.4, 13). Reading by a list
is limited to a few callers at a time (design 12)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.auth.audit import Entry, note_change
from shared.base import remembered
from shared.base.concurrency import Lookups, both
from shared.base.dates import format_date, parse_date
from shared.base.errors import ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.memo import Memo
from shared.base.priority import Priority
from shared.base.shares import CURRENT, Share
from shared.queue.events.rules import Exchange, GroupEvent
from shared.queue.groups.rows import Group, Member, group_event
from shared.queue.groups.store import GroupChanged
from shared.queue.tasks.definition import Definition, Json
from shared.queue.tasks.definitions import MemoryShare
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.known import GroupStatuses
from shared.queue.tasks.rows import Found, Loaded
from shared.queue.tasks.rules import Task
from shared.runtime import attempts
from shared.store import keys
from shared.store.partitions import page_start


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A task in an answer with others. It holds the definition, whose memory is released with it."""

    definition: Definition
    priority: Priority
    status: Json

    @classmethod
    def of(cls, loaded: Loaded) -> Listed:
        """Returns a task as it is now."""
        return cls(definition=loaded.definition, priority=loaded.task.priority, status=loaded.task.as_json())

    @property
    def task(self) -> Json:
        """The definition, with the task's present priority."""
        return self.definition.at_priority(self.priority)


Page = tuple[list[Listed], str | None]
"""Tasks, and the key at which the next page starts."""
_Found = tuple[Member, Found | None]
"""A member of a group, and its task if it had to be read."""


class Groups:
    """Reads and seals task groups."""

    def __init__(self, stores: Stores, statuses: GroupStatuses) -> None:
        self._stores = stores
        self._statuses = statuses
        self._lists: Memo[tuple[Share, str, str, int], tuple[Group, Page]] = Memo(remembered.GROUP_LISTS)

    async def existing(self, task_group_id: str) -> Group:
        """Returns the group's header. Raises ResourceNotFound."""
        group = await self._stores.groups.header(task_group_id)
        if group is None:
            raise ResourceNotFound(f"task group {task_group_id} does not exist")
        return group

    async def list(self, task_group_id: str, *, start: str, limit: int) -> tuple[Group, Page]:
        """Returns a page of the group in the order of taskId: resolved tasks from their member rows, others as known,
        or read. All of one share who ask for the same page at the same time have one reading of it (design 11). Raises
        ResourceNotFound, InputError for a start outside of the group, NoRoom."""
        first = page_start(start, keys.MEMBERS)
        if limit == 0:
            return await self.existing(task_group_id), ([], None)
        return await self._lists.read_anew(
            (CURRENT.get(), task_group_id, first, limit), lambda: self._list(task_group_id, first, limit)
        )

    async def _list(self, task_group_id: str, first: str, limit: int) -> tuple[Group, Page]:
        begun = self._statuses.present_moment()
        group, (members, resume) = await both(
            self.existing(task_group_id), self._stores.groups.members(task_group_id, first, limit)
        )
        known = await self._statuses.known_among(task_group_id, first, limit, begun, members)
        tasks, rest = await self._stores.tasks.definitions.fill(
            members, lambda each: self._find(task_group_id, each, known.get(each.task_id)), self._with_definition
        )
        return group, (tasks, resume if rest is None else keys.member(members[rest].task_id))

    async def seal(self, group: Group, entry: Entry | None = None) -> Group:
        """Seals the group for good; a repeat returns the first time and announces it again."""
        tried: set[datetime] = set()
        async for attempt in attempts(self._stores.runtime):
            if attempt:
                group = await self.existing(group.task_group_id)
            if group.sealed is None:
                now = self._stores.runtime.now()
                tried.add(parse_date(format_date(now)))
                try:
                    await self._stores.groups.seal(group, now)
                except GroupChanged:
                    continue
                note_change(entry, True)
                group = replace(group, sealed=now)
            elif group.sealed in tried:
                note_change(entry, True)  # the answer to our own write was lost
            # Sealing happens once: its repeats are the same event, and its time tells groups of one id apart.
            occasion = format_date(group.sealed or self._stores.runtime.now())
            await self._stores.announcer.announce_group(group_event(Exchange.TASK_GROUP_SEALED, group, occasion))
            return group
        raise ServiceUnavailable("the task group is contended; send the call again")

    async def announce_priority(self, group: Group, priority: Priority, affected: int) -> None:
        """Announces taskGroupPriorityChanged, also when no task was affected."""
        await self._stores.announcer.announce_group(
            GroupEvent(
                exchange=Exchange.TASK_GROUP_PRIORITY_CHANGED,
                task_group_id=group.task_group_id,
                scheduler_id=group.scheduler_id,
                occasion=self._stores.runtime.slugid(),
                new_priority=priority,
                tasks_affected=affected,
            )
        )

    async def _find(self, task_group_id: str, member: Member, known: Task | None) -> _Found | None:
        """Finds the task of a member row: in the row if it was resolved for good, else as it is known or read. A
        resolved row is never combined with another row, which may be of another time. Returns None if the task does not
        exist or belongs to another group: the call that wrote the row died, or is being refused."""
        if member.final is not None and member.definition is not None:
            return member, None
        if known is not None and (found := self._stores.tasks.as_known(known, member.definition)) is not None:
            return member, found
        task = await self._stores.tasks.find(member.task_id)
        if task is None or task.task.task_group_id != task_group_id:
            return None
        return member, task

    async def _with_definition(self, found: _Found, share: MemoryShare) -> Listed | None:
        member, task = found
        if task is not None:
            return Listed.of(await self._stores.tasks.unpacked(task, share))
        final, packed = member.final, member.definition
        assert final is not None, "the task was resolved for good"
        assert packed is not None, "its definition is in the row"
        definition = await self._stores.tasks.definitions.unpack(member.task_id, packed, share, keep=False)
        return Listed(definition=definition, priority=final["priority"], status=final)


@dataclass(eq=False, repr=False)
class Batches:
    """Reads many tasks, some in parallel; the unknown ones are left out."""

    _stores: Stores
    _lookups: Lookups

    async def definitions(self, task_ids: Sequence[str]) -> tuple[list[Listed], str | None]:
        """Returns tasks with their definitions, and the id of the first that had no room. Raises NoRoom."""
        wanted = list(dict.fromkeys(task_ids))
        found, rest = await self._stores.tasks.definitions.fill(wanted, self._stores.tasks.find, self._unpacked)
        return found, None if rest is None else wanted[rest]

    async def statuses(self, task_ids: Sequence[str]) -> list[tuple[str, Json]]:
        """Returns the statuses of tasks by id. Raises ServiceUnavailable when too many lists are read."""
        tasks = await self._lookups.each(self._stores.tasks.status, dict.fromkeys(task_ids))
        return [(task.task_id, task.as_json()) for task in tasks if task]

    async def dependents(self, task_id: str, *, start: str, limit: int) -> Page:
        """Returns a page of the tasks that wait, or waited, for this one, in the order of taskId. Raises
        ResourceNotFound, InputError for a start outside of the listing, NoRoom."""
        first = page_start(start, keys.DEPENDENTS)
        task = await self._stores.tasks.existing_status(task_id)
        if limit == 0:
            return ([], None)

        async def unpack(found: Found, share: MemoryShare) -> Listed | None:
            """Returns the task if its definition lists the other task: only then does the edge count (design 5)."""
            listed = await self._unpacked(found, share)
            return listed if listed is not None and task_id in listed.definition.dependency_index else None

        dependents, resume = await self._dependents(task, keys.dependent_of(first), limit)
        tasks, rest = await self._stores.tasks.definitions.fill(dependents, self._stores.tasks.find, unpack)
        return tasks, resume if rest is None else keys.dependent(dependents[rest])

    async def _dependents(self, task: Task, start: str, limit: int) -> tuple[list[str], str | None]:
        """Returns a page of the dependents that both kinds of edges name, in order and without duplicates, and where
        the next page starts. If one kind has more edges, the page ends at the last one read of that kind."""
        first, end = keys.dependent(start), keys.DEPENDENTS[1]
        (outside, _, more_outside), (inside, more_inside) = await both(
            self._stores.tasks.edges.task_edge_page(task.task_id, start=first, end=end, limit=limit),
            self._stores.edges.group_edge_page(
                task.task_group_id, task.task_id, start=keys.unblocks(task.task_id, start), limit=limit
            ),
        )
        ends = [edges[-1].dependent for edges, more in ((outside, more_outside), (inside, more_inside)) if more]
        found = sorted({edge.dependent for edge in (*outside, *inside)})
        page = [each for each in found if not ends or each <= min(ends)][:limit]
        is_over = not ends and len(page) == len(found)
        return page, None if is_over else f"{keys.dependent(page[-1])} "

    async def _unpacked(self, found: Found, share: MemoryShare) -> Listed | None:
        return Listed.of(await self._stores.tasks.unpacked(found, share))
