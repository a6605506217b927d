"""Edges of createTasks that are refused."""

from __future__ import annotations

import asyncio

import pytest

from shared.app.services import Services
from shared.base.bounds import ROWS_AT_A_TIME
from shared.base.errors import InputError, RequestConflict
from shared.queue.groups.rows import EDGES_WITH_MEMBER
from shared.store import keys
from shared.store.counting import Kind
from tests.simulator.situations import GROUP, A, B
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase


async def _refused(world: World, services: Services, dependent: str = A) -> None:
    with pytest.raises(InputError):
        await services.create_task(world.definition(dependent, dependencies=[B]))


@pytest.mark.parametrize("seed", range(20))
def test_refused_calls_write_no_edges(seed: int) -> None:
    """A dependency is looked for before an edge is written out of it: nothing is left in the partition of a task that
    does not exist, whichever calls meet."""
    world = World(Simulation.seeded(seed))
    world.run(_refused(world, world.services), _refused(world, world.process()))
    world.is_ordered = False
    assert world.rows(keys.TASKS) == []
    assert [row.key for row in world.rows(keys.GROUPS) if row.key.startswith(keys.UNBLOCKS)] == []


@pytest.mark.parametrize("count", [3, EDGES_WITH_MEMBER, EDGES_WITH_MEMBER + 1])
def test_refused_call_takes_back_the_edges_of_its_group_with_its_member(count: int) -> None:
    """One transaction, by the ETags of their insert; what does not fit into it stays, and names no task."""
    world = World()
    world.is_ordered = False

    async def story() -> None:
        required = [await world.create(taskGroupId=GROUP) for _ in range(count)]
        await world.create(A, payload={"another": "task"})
        with pytest.raises(RequestConflict):
            await world.create(A, taskGroupId=GROUP, dependencies=required)

    world.run(story())
    left = [row.key for row in world.rows(keys.GROUPS, GROUP) if A in row.key]
    assert len(left) == max(count - EDGES_WITH_MEMBER, 0)


def test_a_refused_call_with_many_dependencies_takes_them_back_some_at_a_time() -> None:
    """Thousands of requests at once would hold up every other call of the process."""
    at_once = most = 0

    async def counted(call: Call, phase: Phase) -> None:
        nonlocal at_once, most
        if call.kind is Kind.TABLE_WRITE and call.keys == (keys.dependent(A),):
            at_once += 1 if phase is Phase.BEFORE else -1
            most = max(most, at_once)
            await asyncio.sleep(0)

    world = World(None, counted)
    world.is_ordered = False

    async def story() -> list[str]:
        required = [await world.create() for _ in range(4 * ROWS_AT_A_TIME)]
        await world.create(A, payload={"another": "task"})
        with pytest.raises(RequestConflict):
            await world.create(A, dependencies=required)
        return required

    (required,) = world.run(story())
    assert not any(row.key == keys.dependent(A) for task_id in required for row in world.rows(keys.TASKS, task_id))
    assert 1 < most <= ROWS_AT_A_TIME
