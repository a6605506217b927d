"""The job of a call on a whole group that died, or ran out of time, undoes nothing that was acknowledged since."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Literal

import pytest

from shared.base.bounds import TASKS_AT_A_TIME
from shared.queue.groups import jobs as group_jobs
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.internal_messages import GROUP_QUEUE, GroupJobBody
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.parts.twin.gate import Call, Killed, Phase, process_name
from tests.promises.simulator.running import VICTIM
from tests.promises.simulator.situations import GROUP, OTHER_GROUP, A, B, C
from tests.promises.simulator.world import World, unordered

CANCEL = GroupJob(task_group_id=GROUP, kind="cancel")


def _priority(priority: Any) -> GroupJob:
    return GroupJob(task_group_id=GROUP, kind="priority", new_priority=priority)


async def _dies_before_its_job_is_removed(call: Call, phase: Phase) -> None:
    is_removal = call.kind is Kind.QUEUE_DELETE and call.target == GROUP_QUEUE
    if process_name() == VICTIM and phase is Phase.BEFORE and is_removal:
        raise Killed("here")


def _world_after(job: GroupJob, priority: str = "medium") -> World:
    """Returns a world in which a call on the group of A and C has died right before it removed its job."""
    world = unordered(_dies_before_its_job_is_removed)
    for task_id in (A, C):
        world.run(world.create(task_id, taskGroupId=GROUP, priority=priority))
    (outcome,) = world.simulation.outcomes(world.victim(world.services.group_jobs.call(job)))
    assert isinstance(outcome, Killed)
    assert len(world.messages(GROUP_QUEUE)) == 1
    return world


def _later(world: World, *steps: Callable[[World], Coroutine[Any, Any, object]]) -> None:
    """Makes other calls, ten seconds apart, before the job is due; then runs the job."""

    async def story() -> None:
        for step in steps:
            await world.clock.sleep(10)
            await step(world)
        await world.drain(120)

    world.run(story())
    assert world.messages(GROUP_QUEUE) == []


def _call(job: GroupJob) -> Callable[[World], Coroutine[Any, Any, object]]:
    return lambda world: world.process().group_jobs.call(job)


async def _left(world: World, job: GroupJob) -> GroupJobBody:
    """Returns the job of a call that died before it changed a task."""
    return await world.process().group_jobs._counted(job)


async def _rerun_a(world: World) -> None:
    await world.process().lifecycle.rerun(await world.services.lifecycle.existing(A))


async def _create_b(world: World) -> None:
    await world.create(B, taskGroupId=GROUP, priority="medium")


async def _raise_a(world: World) -> None:
    await world.process().lifecycle.change_priority(await world.services.lifecycle.existing(A), "high")


def test_later_priority_of_the_group_stays() -> None:
    world = _world_after(_priority("very-low"))
    _later(world, _call(_priority("highest")))
    assert {task.priority for task in world.tasks().values()} == {"highest"}


@pytest.mark.parametrize("state", [State.PENDING, State.RUNNING, State.UNSCHEDULED])
@pytest.mark.parametrize("later", ["medium", "highest"])
def test_later_priority_of_the_group_stays_whatever_the_job_of_an_earlier_call_does(state: State, later: str) -> None:
    """A later priority of the group stays, whatever the job of an earlier call does that died before it changed a task.
    The later one asks for what the task has already, or not."""
    world = unordered()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP, priority="medium", dependencies=[A] * (state is State.UNSCHEDULED))
        if state is State.RUNNING:
            assert await world.claim()
        earlier = await _left(world, _priority("very-low"))
        changed = await world.process().group_jobs.call(_priority(later))
        assert changed == ([] if later == "medium" else [A])
        await world.services.group_jobs.job_due(earlier)

    world.run(story())
    assert world.tasks()[A].priority == later
    assert len(world.topics.of("task-priority-changed")) == (later != "medium")


def test_later_priority_of_the_group_replaces_what_the_job_of_an_earlier_call_has_just_set() -> None:
    """A later priority of the group replaces the one that an earlier call's job sets after the later call was made."""
    world = unordered()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP, priority="medium")
        ((listed, *_), _) = await world.services.stores.groups.active_page(GROUP, None)
        jobs = world.services.group_jobs
        earlier, later = await _left(world, _priority("very-low")), await _left(world, _priority("highest"))
        assert await jobs._change_task(earlier, listed)
        assert await jobs._change_task(later, listed)

    world.run(story())
    assert world.tasks()[A].priority == "highest"


def test_later_priority_of_one_task_stays() -> None:
    world = _world_after(_priority("very-low"))
    _later(world, _raise_a)
    assert {task_id: task.priority for task_id, task in world.tasks().items()} == {A: "high", C: "very-low"}


def test_priority_of_a_task_that_was_created_since_stays() -> None:
    world = _world_after(_priority("very-low"))
    _later(world, _create_b)
    assert world.tasks()[B].priority == "medium"


def test_what_was_rerun_or_created_since_a_cancellation_is_not_cancelled() -> None:
    world = _world_after(CANCEL)
    _later(world, _rerun_a, _create_b)
    states = {task_id: task.state for task_id, task in world.tasks().items()}
    assert states == {A: State.PENDING, B: State.PENDING, C: State.EXCEPTION}


@pytest.mark.parametrize("is_running", [False, True])
@pytest.mark.parametrize("knows", ["all", "the group", "nothing"])
def test_a_rerun_of_a_task_that_the_job_of_a_cancellation_has_yet_to_come_to_keeps_it_open(
    knows: str, is_running: bool
) -> None:
    """A rerun keeps a task open that the job of an acknowledged cancellation has yet to come to."""
    world = unordered()

    async def story() -> None:
        for task_id in (A, C):
            await world.create(task_id, taskGroupId=GROUP)
        if is_running:
            assert await world.claim(2)
        left = await _left(world, CANCEL)
        process = world.services if knows == "all" else world.process()
        if knows == "the group":
            await process.stores.groups.header(GROUP)
        task = await process.lifecycle.rerun(await process.lifecycle.existing(A))
        assert (task.state, len(task.runs)) == (State.RUNNING if is_running else State.PENDING, 1)
        await world.services.group_jobs.job_due(left)
        states = {task_id: task.state for task_id, task in world.tasks().items()}
        assert states == {A: task.state, C: State.EXCEPTION}
        await world.services.group_jobs.job_due(await _left(world, CANCEL))
        assert world.tasks()[A].state is State.EXCEPTION, "a later call cancels it"

    world.run(story())


@pytest.mark.parametrize("job", [CANCEL, _priority("highest")], ids=lambda job: job.kind)
def test_job_does_what_a_call_that_died_at_once_has_left(job: GroupJob) -> None:
    """The job of a call that died at once changes every task that was there when the call was made."""
    world = unordered()

    async def story() -> None:
        for task_id in (A, C):
            await world.create(task_id, taskGroupId=GROUP)
        await world.services.group_jobs.job_due(await _left(world, job))

    world.run(story())
    for task in world.tasks().values():
        assert (task.state is State.EXCEPTION) if job is CANCEL else task.priority == "highest"


def test_job_is_not_done_in_a_later_group_of_the_same_id() -> None:
    world = unordered()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        left = await _left(world, CANCEL)
        await world.services.group_jobs.job_due(left.model_copy(update={"listed": "of an earlier one"}))
        await world.services.group_jobs.job_due(left.model_copy(update={"task_group_id": OTHER_GROUP}))

    world.run(story())
    assert world.tasks()[A].state is State.PENDING


@pytest.mark.parametrize("count", [33, 101])
def test_call_reaches_every_task_of_a_group(count: int) -> None:
    world = unordered()

    async def story() -> None:
        for _ in range(count):
            await world.create(taskGroupId=GROUP)
        assert len(await world.services.group_jobs.call(CANCEL)) == count
        assert await world.services.group_jobs.size(GROUP) == count

    world.run(story())
    assert {task.state for task in world.tasks().values()} == {State.EXCEPTION}


def test_call_that_runs_out_of_time_leaves_the_rest_to_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_jobs, "CALL_SECONDS", -1.0)
    world = unordered()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        assert await world.services.group_jobs.call(CANCEL) == []
        await world.drain(120)

    world.run(story())
    assert world.tasks()[A].state is State.EXCEPTION
    assert world.messages(GROUP_QUEUE) == []


def test_job_that_runs_out_of_time_goes_on_as_of_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    world = unordered()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        left = await _left(world, CANCEL)
        with monkeypatch.context() as patch:
            patch.setattr(group_jobs, "JOB_SECONDS", -1.0)
            await world.handlers.group_jobs.job_due(left)
        assert world.tasks()[A].state is State.PENDING
        await world.create(B, taskGroupId=GROUP)
        await world.drain(120)

    world.run(story())
    assert {task_id: task.state for task_id, task in world.tasks().items()} == {A: State.EXCEPTION, B: State.PENDING}


@pytest.mark.parametrize("kind", ["cancel", "priority"])
@pytest.mark.parametrize("error", [StorageUnavailable, KeyError])
@pytest.mark.parametrize("broken", [0, TASKS_AT_A_TIME + 7], ids=["the first", "the last"])
def test_a_task_that_fails_keeps_no_other_from_its_change(
    broken: int, error: type[Exception], kind: Literal["cancel", "priority"]
) -> None:
    """A task that fails keeps no other from its change, and the job comes again until it is changed, too."""
    victims: list[str] = []

    async def fail(call: Call, phase: Phase) -> None:
        is_read = phase is Phase.BEFORE and call.kind is Kind.TABLE_READ and call.target == keys.TASKS
        if is_read and call.subject in victims:
            raise error

    world = World(None, fail)
    job = GroupJob(task_group_id=GROUP, kind=kind, new_priority="high" if kind == "priority" else None)

    def left() -> list[str]:
        return [
            each.task_id
            for each in world.tasks().values()
            if not each.is_resolved and each.priority != job.new_priority
        ]

    async def story() -> None:
        created = sorted([await world.create(taskGroupId=GROUP) for _ in range(TASKS_AT_A_TIME + 8)])
        victims.append(created[broken])
        with pytest.raises(error):
            await world.services.group_jobs.call(job)
        assert left() == victims
        unharmed, victims[:] = victims[:], []
        assert left() == unharmed
        await world.drain(3600)
        assert left() == []

    world.run(story())
