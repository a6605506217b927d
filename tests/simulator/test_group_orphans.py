"""Rows of a group that name no task of it: of calls that died, or that named a task of another group and are refused.

The status row says which group a task is of. No call on a group, no check and no listing goes by a member or active
row alone, and such rows are neither in the way of the group nor of the task's id.
"""

from __future__ import annotations

import pytest

from shared.base.errors import RequestConflict
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.codec import pack_definition
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.partitions import delete_unchanged
from tests.simulator.orphans import announced, complete, die_in_create, group_rows
from tests.simulator.situations import GROUP, A, C
from tests.simulator.world import World
from tests.twin.driver import Simulation

CANCEL = GroupJob(task_group_id=GROUP, kind="cancel")


RAISE = GroupJob(task_group_id=GROUP, kind="priority", new_priority="highest")


async def _a_of_another_group(world: World) -> None:
    """C is in GROUP; A is in a group of its own, and a createTask that died has added it to GROUP."""
    await world.create(C, taskGroupId=GROUP)
    await world.create(A)
    await die_in_create(world, A)


@pytest.mark.parametrize("job", [CANCEL, RAISE], ids=lambda job: job.kind)
def test_group_call_leaves_a_task_of_another_group_alone(job: GroupJob) -> None:
    world = World()

    async def story() -> None:
        await _a_of_another_group(world)
        assert await world.services.group_jobs.call(job) == [C]
        await world.drain(600)
        assert world.tasks()[A].state is State.PENDING
        assert world.tasks()[A].priority == "lowest"

    world.run(story())


@pytest.mark.parametrize("job", [CANCEL, RAISE], ids=lambda job: job.kind)
def test_group_call_beside_a_refused_create_leaves_its_task_alone(job: GroupJob) -> None:
    """Without any crash: the rows of a call that is about to be refused are there for a moment."""
    for seed in range(60):
        world = World(Simulation.seeded(seed))
        world.is_ordered = False
        world.run(world.create(C, taskGroupId=GROUP), world.create(A))
        world.is_ordered = True
        definition = world.definition(A, taskGroupId=GROUP)
        outcomes = world.simulation.outcomes(
            world.process().create_task(definition), world.process().group_jobs.call(job)
        )
        assert isinstance(outcomes[0], RequestConflict), seed
        assert outcomes[1] == [C], seed
        assert (world.tasks()[A].state, world.tasks()[A].priority) == (State.PENDING, "lowest"), seed


def test_task_of_another_group_is_not_listed() -> None:
    world = World()

    async def story() -> None:
        await _a_of_another_group(world)
        _, listed = await world.services.groups.list(GROUP, start="", limit=10)
        assert [task.status["taskId"] for task in listed.tasks] == [C]

    world.run(story())


def test_group_is_announced_though_a_dead_call_named_a_task_of_another_one() -> None:
    world = World()

    async def story() -> None:
        await _a_of_another_group(world)
        await complete(world, C, A)
        await world.drain(60)
        assert announced(world) == 0, "the call may be about to be refused"
        await world.drain(600)
        assert announced(world) == 1
        assert group_rows(world, A) == []

    world.run(story())


def test_deadline_of_a_dead_call_checks_the_group_that_it_named() -> None:
    """The task of that id is of another group, and its deadline is none of this message's business."""
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await world.create(A)
        await complete(world, C)
        await world.drain(60)
        assert announced(world) == 1
        await die_in_create(world, A)
        put = world.clock.now()
        await world.clock.sleep(400)
        await world.services.timers.deadline_due(A, GROUP, "-", put)
        assert group_rows(world, A) == []
        assert world.tasks()[A].state is State.PENDING

    world.run(story())


def test_check_removes_active_and_member_row_of_a_dead_call_together() -> None:
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await die_in_create(world, A)
        await complete(world, C)
        await world.drain(600)
        assert announced(world) == 1
        assert group_rows(world, A) == []
        await world.create(A, taskGroupId=GROUP)
        assert group_rows(world, A) == [keys.active(A, 0), keys.member(A)]

    world.run(story())


def test_check_removes_the_active_row_of_a_dead_rerun_alone() -> None:
    """The member row was there before that call: it leads the expiry job to what is left of the task, and a createTask
    may have just written it for a new task of this id."""
    world = World()

    async def story() -> None:
        for task_id in (A, C):
            await world.create(task_id, taskGroupId=GROUP)
        await complete(world, A)
        await world.drain(60)
        await world.services.stores.groups.add_active(GROUP, A, 1)
        await delete_unchanged(world.memory.storage.tables, keys.TASKS, world.rows(keys.TASKS, A))
        await complete(world, C)
        await world.drain(600)
        assert announced(world) == 1
        assert group_rows(world, A) == [keys.member(A)]

    world.run(story())


def test_check_leaves_the_rows_of_a_call_that_was_repeated_meanwhile() -> None:
    """An orphan goes by the ETag that was read when it was old."""
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await die_in_create(world, A)
        await world.clock.sleep(400)
        (orphan, _), _ = await world.services.stores.groups.active(GROUP, limit=5)
        await world.services.create_task._membership.rewrite(
            world.definition(A, taskGroupId=GROUP), await pack_definition(world.definition(A)), world.clock.now()
        )
        await world.services.stores.groups.remove_orphan(GROUP, orphan)
        assert group_rows(world, A) == [keys.active(A, 0), keys.member(A)]

    world.run(story())


def test_more_orphans_than_one_check_removes() -> None:
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        for _ in range(150):
            await die_in_create(world, world.slugid())
        await world.clock.sleep(400)
        await complete(world, C)
        await world.drain(60)
        assert announced(world) == 1
        assert [row.key for row in world.rows(keys.GROUPS, GROUP) if row.key.startswith("active~")] == []

    world.run(story())
