"""createTask after a call that died: which rows of the group it completes, and which it must not (design 5)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.base.errors import RequestConflict, ServiceUnavailable
from shared.queue.tasks.codec import pack_definition
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import Delete, Operation
from tests.simulator.orphans import announced, complete, die_in_create, group_rows
from tests.simulator.running import VICTIM
from tests.simulator.situations import GROUP, A, C
from tests.simulator.world import World
from tests.twin.gate import Call, Phase, as_process, process_name


@pytest.mark.parametrize("gone", [("active",), ("member",), ("active", "member"), ()], ids=" and ".join)
@pytest.mark.parametrize("other", [False, True], ids=["the same definition", "another definition"])
def test_create_completes_the_rows_of_a_dead_call(gone: tuple[str, ...], other: bool) -> None:
    """Whatever is left of them: the call succeeds at the first try, and its task is counted and listed as itself."""
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await die_in_create(world, A, payload={"of": "the dead call"} if other else {})
        rows: dict[str, Operation] = {"active": Delete(keys.active(A, 0)), "member": Delete(keys.member(A))}
        for name in gone:
            await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [rows[name]])
        await world.create(A, taskGroupId=GROUP)
        assert group_rows(world, A) == [keys.active(A, 0), keys.member(A)]
        await complete(world, C, A)
        await world.drain(60)
        assert announced(world) == 1
        _, listed = await world.services.groups.list(GROUP, start="", limit=10)
        assert [(task.status["taskId"], task.task["payload"]) for task in listed.tasks] == [(A, {}), (C, {})]
        assert [task.status["state"] for task in listed.tasks] == ["completed", "completed"]

    world.run(story())


def test_repeat_of_a_dead_create_in_a_group_that_was_sealed_since_is_refused() -> None:
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await die_in_create(world, A)
        await world.services.groups.seal(await world.services.groups.existing(GROUP))
        for _ in range(2):
            with pytest.raises(RequestConflict, match="sealed"):
                await world.process().create_task(world.definition(A, taskGroupId=GROUP))
        assert A not in world.tasks()

    world.run(story())


def test_id_is_used_again_after_its_task_and_half_of_its_rows_have_gone() -> None:
    """The member row with the final status of the task that has expired is not taken for one of a new resolution."""
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await world.create(A, taskGroupId=GROUP)
        await complete(world, C, A)
        await world.drain(600)
        for row in world.rows(keys.TASKS, A):
            await world.memory.storage.tables.transact(keys.TASKS, A, [Delete(row.key)])
        later = format_date(world.clock.now() + timedelta(hours=5))
        await world.process().create_task(world.definition(A, taskGroupId=GROUP, deadline=later))
        _, listed = await world.process().groups.list(GROUP, start="", limit=10)
        assert [task.status["state"] for task in listed.tasks] == ["pending", "completed"]
        assert listed.tasks[0].task["deadline"] == later

    world.run(story())


def test_rows_of_a_task_that_was_resolved_since_it_was_looked_for_are_not_restored() -> None:
    """An active row put after the resolution was settled would stay, and hold up the group."""
    world = World()

    async def story() -> None:
        looked = world.clock.now()
        definition = world.definition(A, taskGroupId=GROUP)
        await world.services.create_task(definition)
        await complete(world, A)
        await world.drain(60)
        with pytest.raises(ServiceUnavailable):
            await world.services.create_task._membership.rewrite(definition, await pack_definition(definition), looked)
        assert group_rows(world, A) == [keys.member(A)]

    world.run(story())


def test_rows_are_not_rewritten_in_a_group_that_was_sealed_since_they_were_found() -> None:
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await die_in_create(world, A)
        definition = world.definition(A, taskGroupId=GROUP)
        await world.services.groups.seal(await world.services.groups.existing(GROUP))
        for gone in (None, keys.active(A, 0)):
            if gone is not None:
                await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [Delete(gone)])
            with pytest.raises(RequestConflict, match="sealed"):
                await world.services.create_task._membership.rewrite(
                    definition, await pack_definition(definition), world.clock.now()
                )

    world.run(story())


def test_rows_are_not_restored_of_a_task_that_is_created_and_resolved_meanwhile() -> None:
    """Of a call that died only the member row is left. A call that has just read it is overtaken by another one, and by
    the whole life of its task: an active row put then would stay."""
    has_read = 0

    async def overtake(call: Call, phase: Phase) -> None:
        nonlocal has_read
        if process_name() != VICTIM or phase is not Phase.AFTER:
            return
        if call.kind is Kind.TABLE_READ and call.target == keys.GROUPS:
            has_read += 1
            if has_read == 2:  # the header, then the member row
                await as_process("others", live())

    world = World(None, overtake)
    world.is_ordered = False
    definition = world.definition(A, taskGroupId=GROUP)

    async def live() -> None:
        await world.services.create_task(definition)
        await complete(world, A)
        await world.clock.sleep(3)
        await world.handle_visible()

    async def story() -> None:
        await die_in_create(world, A)
        active: list[Operation] = [Delete(keys.active(A, 0))]
        await world.account.connect().tables.transact(keys.GROUPS, GROUP, active)
        with pytest.raises(ServiceUnavailable):
            await as_process(VICTIM, world.process().create_task(definition))
        assert has_read == 2
        assert not [key for key in group_rows(world, A) if key.startswith(keys.ACTIVE[0])]

    world.run(story())
