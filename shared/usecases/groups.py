"""Task groups, listing and sealing, and many tasks in one call (contract 2.4, 3.4, 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.concurrency import both, in_waves
from shared.domain.definition import Json
from shared.domain.events import Exchange, GroupEvent
from shared.domain.priority import Priority
from shared.domain.protocol import TRIES
from shared.errors import InputError, ResourceNotFound, ServiceUnavailable
from shared.storage import keys
from shared.storage.group_rows import Group, Member
from shared.storage.groups import GroupChanged
from shared.usecases.executor import Stores

READS = 32
"""Tasks read in parallel."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A task in a listing."""

    definition: Json
    status: Json


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedTasks:
    """A page of tasks, and the key at which the next one starts."""

    tasks: list[Listed]
    resume: str | None


class Groups:
    """Reads and seals task groups."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def known(self, task_group_id: str) -> Group:
        """The group's header. Raises ResourceNotFound."""
        group = await self._stores.groups.header(task_group_id)
        if group is None:
            raise ResourceNotFound(f"task group {task_group_id} does not exist")
        return group

    async def list(self, task_group_id: str, *, start: str, limit: int) -> tuple[Group, ListedTasks]:
        """A page of the group in the order of taskId: resolved tasks from their member rows, the others read.

        Raises ResourceNotFound, InputError for a start outside of the group.
        """
        first = page_start(start, keys.MEMBERS)
        if limit == 0:
            return await self.known(task_group_id), ListedTasks(tasks=[], resume=None)
        group, (members, resume) = await both(
            self.known(task_group_id), self._stores.groups.members(task_group_id, first, limit)
        )
        listed = await in_waves(READS, lambda member: self._listed(task_group_id, member), members)
        return group, ListedTasks(tasks=[each for each in listed if each is not None], resume=resume)

    async def seal(self, group: Group) -> Group:
        """Seals the group for good; a repeat answers the first time and announces it again."""
        for _ in range(TRIES):
            if group.sealed is None:
                now = self._stores.runtime.now()
                try:
                    await self._stores.groups.seal(group, now)
                except GroupChanged:
                    group = await self.known(group.task_group_id)
                    continue
                group = replace(group, sealed=now)
            await self._stores.announcer.announce_group(sealed_event(group))
            return group
        raise ServiceUnavailable("the task group is contended; send the call again")

    async def announce_priority(self, group: Group, priority: Priority, affected: int) -> None:
        """taskGroupPriorityChanged, also when no task was affected."""
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

    async def _listed(self, task_group_id: str, member: Member) -> Listed | None:
        """The member row says by itself whether the task was resolved for good: no other row may be read beside it.

        A member row may name a task that does not exist, or one of another group: of a call that died or is refused.
        """
        if member.final is not None and member.definition is not None:
            definition = member.definition.at_priority(member.final["priority"])
            return Listed(definition=definition, status=member.final)
        loaded = await self._stores.tasks.load(member.task_id)
        if loaded is None or loaded.task.task_group_id != task_group_id:
            return None
        return Listed(definition=loaded.definition.at_priority(loaded.task.priority), status=loaded.task.as_json())


def page_start(start: str, within: tuple[str, str]) -> str:
    """Where a page starts: at the first key, or at that of a token. Raises InputError for one of another listing."""
    if not start:
        return within[0]
    if not within[0] <= start < within[1]:
        raise InputError("invalid continuationToken")
    return start


def sealed_event(group: Group) -> GroupEvent:
    """taskGroupSealed: sealing happens once, so its repeats are the same event."""
    return GroupEvent(
        exchange=Exchange.TASK_GROUP_SEALED,
        task_group_id=group.task_group_id,
        scheduler_id=group.scheduler_id,
        occasion="sealed",
        expires=group.expires,
        sealed=group.sealed,
    )


class Batches:
    """Reads many tasks, some in parallel; the unknown ones are left out."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def definitions(self, task_ids: Sequence[str]) -> list[tuple[str, Json]]:
        """Definitions, with the priority that each task has by now."""
        loaded = await in_waves(READS, self._stores.tasks.load, dict.fromkeys(task_ids))
        return [(one.task.task_id, one.definition.at_priority(one.task.priority)) for one in loaded if one]

    async def statuses(self, task_ids: Sequence[str]) -> list[tuple[str, Json]]:
        """Statuses."""
        tasks = await in_waves(READS, self._stores.tasks.status, dict.fromkeys(task_ids))
        return [(task.task_id, task.as_json()) for task in tasks if task]

    async def dependents(self, task_id: str, *, start: str, limit: int) -> ListedTasks:
        """A page of the tasks that wait, or waited, for this one, in the order of taskId.

        Raises ResourceNotFound, InputError for a start outside of the listing.
        """
        first = page_start(start, keys.DEPENDENTS)
        if await self._stores.tasks.status(task_id) is None:
            raise ResourceNotFound(f"task {task_id} does not exist")
        if limit == 0:
            return ListedTasks(tasks=[], resume=None)
        edges, resume = await self._stores.tasks.edges(task_id, start=first, limit=limit)
        dependents = [edge.key.partition("~")[2] for edge in edges]
        listed = await in_waves(READS, lambda dependent: self._dependent(task_id, dependent), dependents)
        return ListedTasks(tasks=[each for each in listed if each is not None], resume=resume)

    async def _dependent(self, required: str, task_id: str) -> Listed | None:
        """An edge counts only if the dependent's definition lists the task (design 5)."""
        loaded = await self._stores.tasks.load(task_id)
        if loaded is None or required not in loaded.definition.dependency_index:
            return None
        definition = loaded.definition.at_priority(loaded.task.priority)
        return Listed(definition=definition, status=loaded.task.as_json())
