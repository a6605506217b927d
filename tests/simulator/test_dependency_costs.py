"""What edges cost: requests of createTask with dependencies, and of resolutions of those (design 5, 6)."""

from __future__ import annotations

import asyncio

import pytest

from shared.queue.groups.rows import MOST_GUARDED
from shared.queue.tasks.internal_messages import ResolvedBody
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.counting import counting
from tests.azurite.budget_table import figures
from tests.simulator.depending import a_world, complete_tasks, cost_of_create, create_tasks, handle, rerun
from tests.simulator.situations import GROUP, OTHER_GROUP, A, B, C
from tests.simulator.world import World
from tests.twin.driver import Simulation

# What createTask costs


@pytest.mark.parametrize("count", [1, 4, MOST_GUARDED])
def test_create_with_open_dependencies_makes_three_requests_in_two_round_trips(count: int) -> None:
    world = World(Simulation.rounds())

    async def story() -> None:
        required = await create_tasks(world, count)
        operations = await cost_of_create(world, dependencies=required)
        assert (operations.total, operations.depth) == (3, 2)

    world.run(story())


def test_create_with_one_resolved_dependency_looks_at_each() -> None:
    world = a_world()

    async def story() -> None:
        required = await create_tasks(world, 5)
        await complete_tasks(world, 1)
        assert (await cost_of_create(world, dependencies=required)).total == 3 + 1, (
            "it is not settled yet: its status decides"
        )
        await world.drain(90)
        assert (await cost_of_create(world, dependencies=required)).total == 4 + 5
        (done,) = (task_id for task_id in required if world.tasks()[task_id].is_resolved)
        await rerun(world, done)
        assert (await cost_of_create(world, dependencies=required)).total == 4 + 5 + 1, (
            "and at the status of what runs again"
        )

    world.run(story())


def test_create_reads_dependencies_that_the_process_does_not_know_once() -> None:
    world = a_world()

    async def story() -> None:
        required = await create_tasks(world, 5)
        world.services = world.process()
        await world.create(taskGroupId=GROUP)
        assert (await cost_of_create(world, dependencies=required)).total == 3 + 5
        assert (await cost_of_create(world, dependencies=required)).total == 3
        assert (await cost_of_create(world, dependencies=required, taskGroupId=OTHER_GROUP)).total >= 3 + 2 * 5

    world.run(story())


def test_new_task_is_pending_at_once_when_its_dependency_was_just_resolved() -> None:
    """By the same process, which knows so; another one finds the edge with its handler a moment later."""
    world = a_world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        other = world.process()
        other.stores.known.note(world.tasks()[A])
        await complete_tasks(world, 1)
        for task_id in (B, C):
            await world.create(task_id, taskGroupId=GROUP, dependencies=[A])
            assert world.tasks()[task_id].state is State.PENDING
        late = world.definition(taskGroupId=GROUP, dependencies=[A])
        assert (await other.create_task(late)).state is State.UNSCHEDULED
        await world.drain(5)
        assert world.tasks()[late.task_id].state is State.PENDING

    world.run(story())


def test_create_with_dependencies_of_another_group_costs_two_requests_each() -> None:
    world = a_world()

    async def story() -> None:
        required = await create_tasks(world, 3)
        await world.create(taskGroupId=OTHER_GROUP)
        assert (await cost_of_create(world, dependencies=required, taskGroupId=OTHER_GROUP)).total == 3 + 2 * 3

    world.run(story())


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


def test_leaf_of_a_dependent_costs_nine_requests_alone() -> None:
    world = a_world()

    async def story() -> None:
        required = await create_tasks(world, 3)
        await world.create(B, taskGroupId=GROUP, dependencies=required)
        await complete_tasks(world, 1)
        (leaf,) = (task_id for task_id in required if world.tasks()[task_id].is_resolved)
        with counting() as operations:
            await handle(world, leaf)
        assert operations.total <= 7 + 2
        assert world.tasks()[B].satisfied.bit_count() == 1

    world.run(story())


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


@pytest.mark.parametrize("count", [1, 8, 100])
def test_dependent_that_becomes_free_costs_three_requests_and_its_share_of_a_transaction(count: int) -> None:
    world = World(Simulation.seeded(3))
    world.is_ordered = False

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        for _ in range(count):
            await world.create(taskGroupId=GROUP, dependencies=[A])
        await complete_tasks(world, 1)

    async def handled() -> None:
        with counting() as operations:
            await handle(world, A)
        assert operations.total <= 7 + 3 * count + 1

    world.run(story())
    world.is_ordered = True
    world.run(handled())
    pending = [row for row in world.rows(keys.POOLS) if row.key.startswith("pending~")]
    assert len(pending) == count
