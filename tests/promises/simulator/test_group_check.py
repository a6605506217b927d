"""A group is announced when the last of its tasks is resolved, whatever rows dead calls have left behind."""

from typing import Any

import pytest

from shared.app.services import Services
from shared.base.protocol import ORPHAN_AFTER
from shared.queue.groups.rows import FINAL
from shared.queue.tasks.effects import PutResolved
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE, ResolvedBody
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.interface import Page
from tests.parts.twin.driver import Simulation
from tests.promises.simulator.situations import GROUP, A, C
from tests.promises.simulator.world import World, unordered

LEAVES = tuple(f"{letter * 8}Q{letter}C{letter * 10}A" for letter in "fghi")


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
        await world.services.lifecycle.rerun(await world.services.lifecycle.existing(A))
        await world.claim()
        await world.services.lifecycle.report(A, 1, Resolved.COMPLETED)

    world.run(rerun())
    world.run(world.drain(60))
    assert _announced(world) == 2


def test_a_row_of_a_generation_that_was_not_committed_is_an_orphan() -> None:
    world = World()
    world.run(_two_tasks(world))
    world.run(world.services.stores.groups.add_active(GROUP, A, 1))
    world.run(_complete(world, A), _complete(world, C))
    world.run(world.drain(60))
    assert _announced(world) == 0, "a rerun may be about to commit"
    world.run(world.drain(600))
    assert _announced(world) == 1


@pytest.mark.parametrize("late", [0, 10, 600])
def test_a_row_that_comes_after_its_generation_was_settled_is_an_orphan(late: float) -> None:
    """A row that comes after its generation was settled is an orphan, such as that of a rerun's first try or of a
    frozen process: nobody else will check."""
    world = World()
    world.run(_two_tasks(world))
    world.run(_complete(world, A))
    world.run(world.drain(30))

    async def story() -> None:
        await world.services.lifecycle.rerun(await world.services.lifecycle.existing(A))
        await world.claim()
        await world.services.lifecycle.report(A, 1, Resolved.COMPLETED)
        await world.drain(30)
        assert await world.services.stores.groups.add_active(GROUP, A, 1) is not None
        await world.drain(late)
        await _complete(world, C)
        await world.drain(30)

    world.run(story())
    assert _announced(world) == 1
    assert [row.key for row in world.rows(keys.GROUPS, GROUP) if row.key.startswith("active~")] == []


@pytest.mark.parametrize("earlier", [0, 1])
def test_an_earlier_resolution_that_is_handled_after_a_later_one_announces_nothing(earlier: int) -> None:
    """An earlier resolution that is handled late announces nothing, as the task was run again since."""
    world = unordered()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        for run_id in range(earlier + 2):
            assert await world.claim()
            await world.drain(600)  # or the active row of the earlier generation would be young
            await world.services.lifecycle.report(A, run_id, Resolved.COMPLETED)
            if run_id == earlier:
                await world.clock.sleep(2)
                (lost,) = await world.account.connect().queues.get_messages(RESOLVED_QUEUE, count=32, hidden_for=60)
                await world.account.connect().queues.delete_message(RESOLVED_QUEUE, lost.receipt)
            await world.drain(60)
            if run_id <= earlier:
                await world.services.lifecycle.rerun(await world.services.lifecycle.existing(A))
        assert _announced(world) == 1 + earlier
        await world.services.stores.messages.put_resolved(PutResolved(task_id=A, run_id=earlier))
        await world.drain(600)

    world.run(story())
    assert _announced(world) == 1 + earlier


def test_row_of_an_earlier_generation_is_an_orphan() -> None:
    """A row of an earlier generation is an orphan, as of a rerun that died while another one was committed."""
    world = World()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        for run_id in range(3):
            if run_id:
                await world.services.lifecycle.rerun(await world.services.lifecycle.existing(A))
            await world.claim()
            if run_id == 2:
                await world.services.stores.groups.add_active(GROUP, A, 1)
            await world.services.lifecycle.report(A, run_id, Resolved.COMPLETED)
            await world.drain(60)
        assert _announced(world) == 2, "the rerun of that row may be about to commit"
        await world.drain(600)
        assert _announced(world) == 3

    world.run(story())


def test_member_row_keeps_the_final_status_of_the_latest_generation_alone() -> None:
    """A member row keeps the final status of the latest generation alone, so that it does not fill up."""
    world = unordered()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        for generation in range(5):
            if generation:
                await world.services.lifecycle.rerun(await world.services.lifecycle.existing(A))
            assert await world.claim()
            await world.services.lifecycle.report(A, generation, Resolved.COMPLETED)
            await world.drain(60)

    world.run(story())
    (member,) = (row for row in world.rows(keys.GROUPS, GROUP) if row.key == keys.member(A))
    finals = {name: value for name, value in member.values.items() if name.startswith(FINAL)}
    assert [name for name, value in finals.items() if value] == [f"{FINAL}0004"]


def test_a_task_that_comes_while_the_rows_are_read_in_two_parts_keeps_the_group_unresolved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A group stays unresolved if a task joins while its rows are read in two parts, and a later one is settled."""
    world = World()
    early, late = "aaaaaaaaQaCaaaaaaaaaaA", "zzzzzzzzQzCzzzzzzzzzzA"
    query = world.memory.tables.query
    is_read_in_parts = True

    async def in_parts(table: str, partition: str, *, start: str, end: str, **options: Any) -> Page:
        nonlocal is_read_in_parts
        if is_read_in_parts and (start, end) == keys.ACTIVE_AND_GROUP:
            assert (await query(table, partition, start=start, end="active~m", **options)).rows == []
            is_read_in_parts = False
            await meanwhile()
            start = "active~m"
        return await query(table, partition, start=start, end=end, **options)

    async def meanwhile() -> None:
        await world.create(early, taskGroupId=GROUP)
        assert await world.claim()
        await world.services.lifecycle.report(late, 0, Resolved.COMPLETED)
        read = await world.services.stores.tasks.existing(late)
        await world.process().stores.groups.settle(read.task, read.task.last_run)

    async def story() -> None:
        await world.create(late, taskGroupId=GROUP)
        assert await world.claim()
        monkeypatch.setattr(world.memory.tables, "query", in_parts)
        await world.handlers.resolution._group_check.check(GROUP)
        assert _announced(world) == 0
        await world.services.lifecycle.report(early, 0, Resolved.COMPLETED)
        await world.drain(60)
        assert _announced(world) == 1

    world.run(story())


@pytest.mark.parametrize(("seconds", "messages"), [(-5, 1), (5, 2)])
def test_message_of_a_resolution_that_nobody_handles_is_put_again(seconds: float, messages: int) -> None:
    """A resolution's message that nobody handles is put again after five minutes, not sooner."""
    world = World()

    async def story() -> None:
        await _two_tasks(world)
        await _complete(world, A)
        await world.clock.sleep(ORPHAN_AFTER.total_seconds() + seconds)
        await world.handlers.resolution._group_check.check(GROUP)

    world.run(story())
    assert [body["taskId"] for body, _ in world.messages(RESOLVED_QUEUE)] == [A] * messages


@pytest.mark.parametrize("seed", range(12))
def test_last_tasks_of_a_group_that_are_handled_together_announce_it_once(seed: int) -> None:
    """The last tasks of a group that are handled together announce it once, although one process shares the look at the
    group while another one settles."""
    world = World(Simulation.seeded(seed, yield_after=True), is_ordered=False)

    async def story() -> None:
        for task_id in LEAVES:
            await world.create(task_id, taskGroupId=GROUP)
        assert len(await world.claim(4)) == 4
        for leaf in LEAVES:
            await _complete(world, leaf)

    async def handled(leaf: str, services: Services) -> None:
        await services.resolution.resolved_due(ResolvedBody(task_id=leaf, run_id=0, put=world.clock.now()))

    world.run(story())
    other = world.process()
    world.is_ordered = True
    world.run(*(handled(leaf, other if leaf == LEAVES[0] else world.handlers) for leaf in LEAVES))
    world.is_ordered = False
    assert _announced(world) == 1
    assert [row.values["resolution"] for row in world.rows(keys.GROUPS) if row.key == keys.DUE] == [""]
