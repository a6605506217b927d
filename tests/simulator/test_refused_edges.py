"""Edges that refused createTasks have written to tasks that do not exist."""

from __future__ import annotations

import asyncio

import pytest

from shared.errors import InputError, RequestConflict
from shared.services import Services
from shared.storage import keys
from shared.storage.counting import Kind
from shared.usecases.create import EDGES_AT_A_TIME
from tests.simulator.expiring import expire
from tests.simulator.scenarios import A, B, C
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase


async def _refused(world: World, services: Services, dependent: str = A) -> None:
    with pytest.raises(InputError):
        await services.create_task(world.definition(dependent, dependencies=[B]))


@pytest.mark.parametrize("seed", range(40))
def test_edges_of_refused_calls_that_met_are_deleted(seed: int) -> None:
    """Each keeps the other from removing the edge that both have written: the expiry job removes it."""
    world = World(Simulation.seeded(seed))
    world.run(_refused(world, world.services), _refused(world, world.process()))
    world.is_ordered = False
    world.run(expire(world, 24 * 4))
    assert world.rows(keys.TASKS) == []


def test_edge_that_a_new_task_relies_on_stays() -> None:
    """The expiry job finds the edges of a task that was created after the refusals."""
    world = World()
    world.is_ordered = False

    async def story() -> None:
        definition = world.definition(A, dependencies=[B])
        await world.services.stores.tasks.touch_edge(B, A)  # a call that died
        await _refused(world, world.services)
        await world.create(B)
        await world.services.create_task(definition)
        await expire(world, 3)

    world.run(story())
    assert [row.key for row in world.rows(keys.TASKS, B) if row.key == keys.dependent(A)]


def test_edge_of_a_call_that_died_is_deleted_after_a_refusal() -> None:
    world = World()
    world.is_ordered = False

    async def story() -> None:
        await world.services.stores.tasks.touch_edge(B, C)  # a call that died
        await _refused(world, world.services, C)
        await expire(world, 24 * 4)

    world.run(story())
    assert world.rows(keys.TASKS) == []


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
        required = [await world.create() for _ in range(4 * EDGES_AT_A_TIME)]
        await world.create(A, payload={"another": "task"})
        with pytest.raises(RequestConflict):
            await world.create(A, dependencies=required)
        return required

    (required,) = world.run(story())
    assert not any(row.key == keys.dependent(A) for task_id in required for row in world.rows(keys.TASKS, task_id))
    assert 1 < most <= EDGES_AT_A_TIME
