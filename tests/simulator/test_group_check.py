"""A group is announced when the last of its tasks is resolved, whatever rows dead calls have left behind."""

from shared.domain.task import Resolved
from tests.simulator.scenarios import GROUP, A, C
from tests.simulator.world import World


def _announced(world: World) -> int:
    return len(world.topics.of("task-group-resolved"))


async def _two_tasks(world: World) -> None:
    for task_id in (A, C):
        await world.create(task_id, taskGroupId=GROUP)
    assert len(await world.claim(2)) == 2


async def _complete(world: World, task_id: str) -> None:
    await world.services.lifecycle.report(task_id, 0, Resolved.COMPLETED)


def test_each_time_that_it_resolves() -> None:
    world = World()
    world.run(_two_tasks(world))
    world.run(_complete(world, A))
    world.run(world.drain(60))
    assert _announced(world) == 0
    world.run(_complete(world, C))
    world.run(world.drain(60))
    assert _announced(world) == 1

    async def rerun() -> None:
        await world.services.lifecycle.rerun(await world.services.lifecycle.known(A))
        await world.claim()
        await world.services.lifecycle.report(A, 1, Resolved.COMPLETED)

    world.run(rerun())
    world.run(world.drain(60))
    assert _announced(world) == 2


def test_a_row_of_a_generation_that_never_came_is_surplus() -> None:
    world = World()
    world.run(_two_tasks(world))
    world.run(world.services.stores.groups.add_active(GROUP, A, 1))
    world.run(_complete(world, A), _complete(world, C))
    world.run(world.drain(60))
    assert _announced(world) == 0, "a rerun may be about to commit"
    world.run(world.drain(600))
    assert _announced(world) == 1


def test_a_row_that_was_put_again_after_the_resolution_does_not_hold_the_group_up() -> None:
    world = World()
    world.run(_two_tasks(world))
    world.run(_complete(world, A))
    world.run(world.drain(60))
    world.run(world.services.stores.groups.add_active(GROUP, A, 0))
    world.run(world.drain(600))
    world.run(_complete(world, C))
    world.run(world.drain(60))
    assert _announced(world) == 1
