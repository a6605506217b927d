"""What edges cost: requests of createTask with dependencies, and of resolutions of those (design 5, 6)."""

from __future__ import annotations

import asyncio

import pytest

from shared.queue.tasks.internal_messages import ResolvedBody
from shared.queue.tasks.rules import State
from shared.store.counting import counting
from tests.azurite.budget_table import figures
from tests.simulator.depending import a_world, complete_tasks, cost_of_create, create_tasks
from tests.simulator.situations import GROUP, A, B
from tests.simulator.world import World
from tests.twin.driver import Simulation

# What createTask costs


@pytest.mark.parametrize("resolved", [0, 10, pytest.param(1000, marks=pytest.mark.large)])
def test_create_with_a_thousand_dependencies_makes_twenty_requests(resolved: int) -> None:
    world = a_world()

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
    world = a_world()

    async def story() -> None:
        required = await create_tasks(world, 10_000)
        most = figures("createTask … 10,000 dependencies").operations
        assert (await cost_of_create(world, dependencies=required)).total <= most

    world.run(story())


# What a resolution costs


@pytest.mark.parametrize("processes", [1, 10])
def test_leaves_that_are_resolved_together_commit_their_bits_together(processes: int) -> None:
    """In bursts on as many processes; the bit of each is committed when its handler returns."""
    world = World(Simulation.seeded(1, yield_after=True))
    world.is_ordered = False
    leaves: list[str] = []

    async def story() -> None:
        leaves.extend(await create_tasks(world, 100))
        await world.create(B, taskGroupId=GROUP, dependencies=leaves)
        await complete_tasks(world, 100)

    world.run(story())
    handlers = [world.process() for _ in range(processes)]
    world.is_ordered = True

    async def handle(number: int, leaf: str) -> None:
        message = ResolvedBody(task_id=leaf, run_id=0, put=world.clock.now())
        await handlers[number % processes].resolution.resolved_due(message)
        assert world.tasks()[B].satisfied >> number & 1, "a handler that returns has its bit committed"

    async def all_of_them() -> None:
        with counting() as operations:
            await asyncio.gather(*(handle(number, leaf) for number, leaf in enumerate(leaves)))
        assert operations.total <= (6 if processes == 1 else 8.5) * len(leaves)

    world.run(all_of_them())
    assert world.tasks()[B].state is State.PENDING
