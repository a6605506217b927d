"""Lists a group, and compares with what its tasks' statuses say."""

from __future__ import annotations

from typing import Any

from shared.app.services import Services
from shared.queue.tasks import known
from tests.promises.simulator.situations import GROUP
from tests.promises.simulator.world import World

A_SECOND = known.FRESH.total_seconds() + 0.001


async def listed(services: Services, limit: int = 1000) -> dict[str, Any]:
    """Returns the statuses in all pages of the group."""
    found: dict[str, Any] = {}
    start: str | None = ""
    while start is not None:
        _, (tasks, start) = await services.groups.list(GROUP, start=start, limit=limit)
        found |= {each.status["taskId"]: each.status for each in tasks}
    return found


def truth(world: World) -> dict[str, Any]:
    """Returns what the status rows say, without a request."""
    return {task_id: task.as_json() for task_id, task in world.tasks().items()}


async def create(world: World, services: Services, **changes: Any) -> str:
    """Calls createTask, in the group, by one of the processes."""
    definition = world.definition(taskGroupId=GROUP, **changes)
    await services.create_task(definition)
    return definition.task_id
