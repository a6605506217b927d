"""Rows of a group that calls which died have left, and what becomes of them."""

from __future__ import annotations

from shared.queue.tasks.codec import pack_definition
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from tests.simulator.situations import GROUP
from tests.simulator.world import World


async def die_in_create(world: World, task_id: str, **changes: object) -> None:
    """A createTask that died after it had added its rows to the group."""
    definition = world.definition(task_id, **{"taskGroupId": GROUP, **changes})
    await world.services.create_task._membership.join(definition, await pack_definition(definition))


async def complete(world: World, *task_ids: str) -> None:
    """Claims and completes the first runs of these tasks."""
    await world.claim(len(task_ids))
    for task_id in task_ids:
        await world.services.lifecycle.report(task_id, 0, Resolved.COMPLETED)


def group_rows(world: World, task_id: str) -> list[str]:
    """The keys of the rows of GROUP that name the task."""
    return [row.key for row in world.rows(keys.GROUPS, GROUP) if task_id in row.key]


def announced(world: World) -> int:
    """How often taskGroupResolved was sent for GROUP."""
    return sum(body["taskGroupId"] == GROUP for body in world.topics.of("task-group-resolved"))
