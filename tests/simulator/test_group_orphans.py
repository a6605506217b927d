"""Rows of a group that name no task of it: of calls that died, or that named a task of another group and are refused.

The status row says which group a task is of. No call on a group, no check and no listing goes by a member or active
row alone, and such rows are neither in the way of the group nor of the task's id.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.domain.dates import format_date
from shared.domain.task import Resolved, State
from shared.errors import RequestConflict, ServiceUnavailable
from shared.storage import keys
from shared.storage.codec import pack_definition
from shared.storage.counting import Kind
from shared.storage.interface import Delete, Operation
from shared.usecases.group_jobs import GroupJob
from tests.simulator.running import VICTIM
from tests.simulator.scenarios import GROUP, A, C
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase, as_process, process_name

CANCEL = GroupJob(task_group_id=GROUP, kind="cancel")
RAISE = GroupJob(task_group_id=GROUP, kind="priority", new_priority="highest")


async def _die_in_create(world: World, task_id: str, **changes: object) -> None:
    """A createTask that died after it had added its rows to the group."""
    definition = world.definition(task_id, **{"taskGroupId": GROUP, **changes})
    await world.services.create_task._membership.join(definition, await pack_definition(definition))


async def _a_of_another_group(world: World) -> None:
    """C is in GROUP; A is in a group of its own, and a createTask that died has added it to GROUP."""
    await world.create(C, taskGroupId=GROUP)
    await world.create(A)
    await _die_in_create(world, A)


async def _complete(world: World, *task_ids: str) -> None:
    await world.claim(len(task_ids))
    for task_id in task_ids:
        await world.services.lifecycle.report(task_id, 0, Resolved.COMPLETED)


def _group_rows(world: World, task_id: str) -> list[str]:
    return [row.key for row in world.rows(keys.GROUPS, GROUP) if task_id in row.key]


def _announced(world: World) -> int:
    return sum(body["taskGroupId"] == GROUP for body in world.topics.of("task-group-resolved"))


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
        await _complete(world, C, A)
        await world.drain(60)
        assert _announced(world) == 0, "the call may be about to be refused"
        await world.drain(600)
        assert _announced(world) == 1
        assert _group_rows(world, A) == []

    world.run(story())


def test_deadline_of_a_dead_call_checks_the_group_that_it_named() -> None:
    """The task of that id is of another group, and its deadline is none of this message's business."""
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await world.create(A)
        await _complete(world, C)
        await world.drain(60)
        assert _announced(world) == 1
        await _die_in_create(world, A)
        put = world.clock.now()
        await world.clock.sleep(400)
        await world.services.timers.deadline_due(A, GROUP, "-", put)
        assert _group_rows(world, A) == []
        assert world.tasks()[A].state is State.PENDING

    world.run(story())


@pytest.mark.parametrize("gone", [("active",), ("member",), ("active", "member"), ()], ids=" and ".join)
@pytest.mark.parametrize("other", [False, True], ids=["the same definition", "another definition"])
def test_create_completes_the_rows_of_a_dead_call(gone: tuple[str, ...], other: bool) -> None:
    """Whatever is left of them: the call succeeds at the first try, and its task is counted and listed as itself."""
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await _die_in_create(world, A, payload={"of": "the dead call"} if other else {})
        rows: dict[str, Operation] = {"active": Delete(keys.active(A, 0)), "member": Delete(keys.member(A))}
        for name in gone:
            await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [rows[name]])
        await world.create(A, taskGroupId=GROUP)
        assert _group_rows(world, A) == [keys.active(A, 0), keys.member(A)]
        await _complete(world, C, A)
        await world.drain(60)
        assert _announced(world) == 1
        _, listed = await world.services.groups.list(GROUP, start="", limit=10)
        assert [(task.status["taskId"], task.task["payload"]) for task in listed.tasks] == [(A, {}), (C, {})]
        assert [task.status["state"] for task in listed.tasks] == ["completed", "completed"]

    world.run(story())


def test_check_removes_active_and_member_row_of_a_dead_call_together() -> None:
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await _die_in_create(world, A)
        await _complete(world, C)
        await world.drain(600)
        assert _announced(world) == 1
        assert _group_rows(world, A) == []
        await world.create(A, taskGroupId=GROUP)
        assert _group_rows(world, A) == [keys.active(A, 0), keys.member(A)]

    world.run(story())


def test_check_leaves_the_rows_of_a_call_that_was_repeated_meanwhile() -> None:
    """An orphan goes by the ETag that was read when it was old."""
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await _die_in_create(world, A)
        await world.clock.sleep(400)
        (orphan, _), _ = await world.services.stores.groups.active(GROUP, limit=5)
        await world.services.create_task._membership.rewrite(
            world.definition(A, taskGroupId=GROUP), await pack_definition(world.definition(A)), world.clock.now()
        )
        await world.services.stores.groups.remove_orphan(GROUP, orphan)
        assert _group_rows(world, A) == [keys.active(A, 0), keys.member(A)]

    world.run(story())


def test_more_orphans_than_one_check_removes() -> None:
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        for _ in range(150):
            await _die_in_create(world, world.slugid())
        await world.clock.sleep(400)
        await _complete(world, C)
        await world.drain(60)
        assert _announced(world) == 1
        assert [row.key for row in world.rows(keys.GROUPS, GROUP) if row.key.startswith("active~")] == []

    world.run(story())


def test_repeat_of_a_dead_create_in_a_group_that_was_sealed_since_is_refused() -> None:
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await _die_in_create(world, A)
        await world.services.groups.seal(await world.services.groups.known(GROUP))
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
        await _complete(world, C, A)
        await world.drain(600)
        for row in world.rows(keys.TASKS, A):
            await world.memory.storage.tables.transact(keys.TASKS, A, [Delete(row.key)])
        later = format_date(world.clock.now() + timedelta(hours=5))
        await world.process().create_task(world.definition(A, taskGroupId=GROUP, deadline=later))
        _, listed = await world.process().groups.list(GROUP, start="", limit=10)
        assert [task.status["state"] for task in listed.tasks] == ["pending", "completed"]
        assert listed.tasks[0].task["deadline"] == later

    world.run(story())


def test_listing_shows_a_rerun_task_as_it_is_whatever_was_written_when() -> None:
    """The member row alone says whether a final status is the latest: no row is read beside it."""
    world = World()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await _complete(world, A)
        await world.drain(60)
        services = world.services
        for run_id in (1, 2):
            await services.lifecycle.rerun(await services.lifecycle.known(A))
            assert await _states(world) == ["pending"]
            await world.claim()
            await services.lifecycle.report(A, run_id, Resolved.FAILED)
            assert await _states(world) == ["failed"]
            await world.drain(60)
            assert await _states(world) == ["failed"]
        (member,) = (await services.stores.groups.members(GROUP, None, 10))[0]
        assert member.final is not None
        assert len(member.final["runs"]) == 3

    world.run(story())


async def _states(world: World) -> list[str]:
    _, listed = await world.process().groups.list(GROUP, start="", limit=10)
    return [task.status["state"] for task in listed.tasks]


def test_late_handler_of_an_earlier_generation_stores_no_final_status() -> None:
    world = World()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await _complete(world, A)
        services = world.services
        await services.lifecycle.rerun(await services.lifecycle.known(A))
        await world.drain(60)  # only now comes the resolved message of the first generation
        (row,) = (row for row in world.rows(keys.GROUPS, GROUP) if row.key == keys.member(A))
        assert not any(name.startswith("final") for name in row.values)
        assert _group_rows(world, A) == [keys.active(A, 1), keys.member(A)]
        handle = world.tasks()[A].handles.deadline
        assert handle is not None
        assert handle.message_id in {message.message_id for message in world.memory.messages(handle.queue)}

    world.run(story())


def test_rows_of_a_task_that_was_resolved_since_it_was_looked_for_are_not_restored() -> None:
    """An active row put after the resolution was settled would stay, and hold up the group."""
    world = World()

    async def story() -> None:
        looked = world.clock.now()
        definition = world.definition(A, taskGroupId=GROUP)
        await world.services.create_task(definition)
        await _complete(world, A)
        await world.drain(60)
        with pytest.raises(ServiceUnavailable):
            await world.services.create_task._membership.rewrite(definition, await pack_definition(definition), looked)
        assert _group_rows(world, A) == [keys.member(A)]

    world.run(story())


def test_rows_are_not_rewritten_in_a_group_that_was_sealed_since_they_were_found() -> None:
    world = World()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await _die_in_create(world, A)
        definition = world.definition(A, taskGroupId=GROUP)
        await world.services.groups.seal(await world.services.groups.known(GROUP))
        for gone in (None, keys.active(A, 0)):
            if gone is not None:
                await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [Delete(gone)])
            with pytest.raises(RequestConflict, match="sealed"):
                await world.services.create_task._membership.rewrite(
                    definition, await pack_definition(definition), world.clock.now()
                )

    world.run(story())


@pytest.mark.parametrize("gone", [keys.member(A), keys.GROUP])
def test_resolution_settles_though_a_row_of_the_group_is_missing(gone: str) -> None:
    """A missing member or header is not taken for a resolution that was settled before."""
    world = World()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [Delete(gone)])
        await _complete(world, A)
        await world.drain(60)
        assert _group_rows(world, A) == [keys.member(A)]
        assert _announced(world) == (gone != keys.GROUP)

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
        await _complete(world, A)
        await world.clock.sleep(3)
        await world.handle_visible()

    async def story() -> None:
        await _die_in_create(world, A)
        active: list[Operation] = [Delete(keys.active(A, 0))]
        await world.account.connect().tables.transact(keys.GROUPS, GROUP, active)
        with pytest.raises(ServiceUnavailable):
            await as_process(VICTIM, world.process().create_task(definition))
        assert has_read == 2
        assert not [key for key in _group_rows(world, A) if key.startswith(keys.ACTIVE[0])]

    world.run(story())


def test_row_for_the_expiry_job_of_a_call_that_died_is_written_once_more() -> None:
    """The job may be about to delete it, as an orphan: it does so only if the row is as it was read."""
    written: list[str] = []

    async def note(call: Call, phase: Phase) -> None:
        if process_name() == VICTIM and phase is Phase.AFTER and call.kind is Kind.TABLE_WRITE:
            written.append(call.target)

    world = World(None, note)
    world.is_ordered = False
    definition = world.definition(A, taskGroupId=GROUP)

    async def story() -> None:
        await _die_in_create(world, A)
        await world.services.create_task._expiry.new_task(definition)
        await as_process(VICTIM, world.process().create_task(definition))
        until_commit = written[: written.index(keys.TASKS)]
        assert until_commit[-1] == keys.EXPIRY, until_commit

    world.run(story())
