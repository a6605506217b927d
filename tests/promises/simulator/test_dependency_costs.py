"""The costs of edges: requests of createTask with dependencies, and of their resolutions (design 5, 6)."""

from __future__ import annotations

import pytest

from shared.queue.tasks.rules import State
from tests.promises.azurite.budget_table import figures
from tests.promises.simulator.depending import complete_tasks, cost_of_create, create_tasks
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import unordered


@pytest.mark.parametrize("resolved", [0, 10, pytest.param(1000, marks=pytest.mark.large)])
def test_create_with_a_thousand_dependencies_makes_twenty_requests(resolved: int) -> None:
    world = unordered()

    async def story() -> None:
        required = await create_tasks(world, 1000)
        await complete_tasks(world, resolved)
        if resolved:
            await world.drain(90)
        operations = await cost_of_create(world, task_id=A, dependencies=required)
        assert operations.total <= 20
        task = world.tasks()[A]
        assert task.satisfied.bit_count() == resolved
        assert task.state is (State.PENDING if resolved == 1000 else State.UNSCHEDULED)

    world.run(story())


@pytest.mark.large
def test_create_with_ten_thousand_dependencies_makes_a_hundred_and_twenty_requests() -> None:
    world = unordered()

    async def story() -> None:
        required = await create_tasks(world, 10_000)
        most = figures("createTask … 10,000 dependencies").operations
        assert (await cost_of_create(world, dependencies=required)).total <= most

    world.run(story())
