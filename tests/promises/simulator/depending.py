"""Groups of tasks that depend on each other, and what is done with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.queue.tasks.internal_messages import ResolvedBody
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.counting import Operations, counting
from shared.store.interface import Upsert
from tests.promises.simulator.situations import GROUP
from tests.promises.simulator.world import World


async def create_tasks(world: World, count: int, **changes: Any) -> list[str]:
    """Creates `count` tasks of one group."""
    return [await world.create(**{"taskGroupId": GROUP, **changes}) for _ in range(count)]


async def write_edges(world: World, task_group_id: str, dependent: str, required: Sequence[str]) -> None:
    """Writes edges in a group, as a call leaves them that died or was refused."""
    edges = [Upsert(keys.unblocks(task_id, dependent), {}) for task_id in required]
    await world.account.connect().tables.transact(keys.GROUPS, task_group_id, edges)


async def complete_tasks(world: World, count: int, resolution: Resolved = Resolved.COMPLETED) -> None:
    """Claims and resolves `count` of the pending tasks."""
    while count > 0:
        claims = await world.claim(min(count, 32))
        assert claims, "there are so many"
        for claim in claims:
            await world.services.lifecycle.report(claim.task.task_id, claim.run_id, resolution)
        count -= len(claims)


async def rerun(world: World, task_id: str) -> None:
    """Gives a resolved task one more run."""
    await world.services.lifecycle.rerun(await world.services.lifecycle.existing(task_id))


async def handle(world: World, task_id: str, run_id: int = 0) -> None:
    """Handles the message of a resolution, as its function does."""
    message = ResolvedBody(task_id=task_id, run_id=run_id, put=world.clock.now())
    await world.services.resolution.resolved_due(message)


async def cost_of_create(world: World, **changes: Any) -> Operations:
    """Returns the requests of one createTask."""
    definition = world.definition(**{"taskGroupId": GROUP, **changes})
    with counting() as operations:
        await world.services.create_task(definition)
    return operations
