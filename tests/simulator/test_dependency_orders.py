"""Edges that are written while dependencies are resolved, and bits that are committed together (design 5)."""

from __future__ import annotations

import asyncio
import random

import pytest

from shared.base import bounds
from shared.queue.groups import rows as group_rows
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks import dependents
from shared.queue.tasks import edges as group_edges
from shared.queue.tasks.codec import pack_definition
from shared.queue.tasks.internal_messages import ResolvedBody
from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from shared.store.counting import Kind
from tests.simulator.depending import a_world, complete_tasks, create_tasks, fail_and_complete_again, handle, rerun
from tests.simulator.running import VICTIM, Attempt, Harmed, finish
from tests.simulator.scenarios import Scenario
from tests.simulator.situations import GROUP, A, B, C, fixed
from tests.simulator.world import HANDLER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Fail, Kill, Killed, Phase, as_process, process_name


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions so small that a handful of edges needs several, and ranges rather than point reads."""
    monkeypatch.setattr(group_rows, "EDGES_WITH_MEMBER", 2)
    monkeypatch.setattr(group_rows, "MOST_GUARDED", 1)
    monkeypatch.setattr(group_edges, "MAX_OPERATIONS", 2)
    monkeypatch.setattr(bounds, "ROWS_AT_A_TIME", 3)
    monkeypatch.setattr(group_edges, "_WORTHWHILE", 1)


async def _four_of_whom_one_has_ended(world: World) -> None:
    await create_tasks(world, 5)
    await complete_tasks(world, 1)
    await world.drain(30)
    await complete_tasks(world, 1)


async def _create_waiting_for_all(world: World) -> None:
    required = [task_id for task_id in world.history.definitions if task_id != A]
    await world.create(A, taskGroupId=GROUP, dependencies=required, **fixed(world))


def test_create_with_many_transactions_is_killed_at_every_request(few_at_once: None) -> None:
    create = Scenario("create", _four_of_whom_one_has_ended, _create_waiting_for_all, is_idempotent=True)
    harmed = Harmed(create, Attempt.finish)
    assert len(harmed.calls) > 8, "several transactions and reads"
    harmed.die()
    harmed.repeat()


@pytest.mark.parametrize("seed", range(25))
def test_create_with_many_transactions_beside_resolutions_of_all_its_dependencies(seed: int, few_at_once: None) -> None:
    """Some are run again meanwhile."""
    world = World(Simulation.seeded(seed, yield_after=True))
    world.is_ordered = False
    chance = random.Random(seed)
    required: list[str] = []

    async def story() -> None:
        await _four_of_whom_one_has_ended(world)
        required.extend(world.history.definitions)
        await world.claim(32)

    async def end(task_id: str) -> None:
        services = world.process()
        task = world.tasks()[task_id]
        if not task.is_resolved:
            await services.lifecycle.report(task_id, 0, Resolved.COMPLETED)
        if chance.random() < 0.3:
            await services.lifecycle.rerun(await services.lifecycle.existing(task_id))
        await services.resolution.resolved_due(ResolvedBody(task_id=task_id, run_id=0, put=world.clock.now()))

    world.run(story())
    world.is_ordered = True
    creator = world.services if chance.random() < 0.5 else world.process()
    definition = world.definition(A, taskGroupId=GROUP, dependencies=required)
    world.run(creator.create_task(definition), *(end(task_id) for task_id in required))
    world.is_ordered = False
    finish(world, is_acknowledged=True, settles=False)


def test_dependency_that_is_handled_right_before_its_edge_is_written_was_seen(few_at_once: None) -> None:
    """The edges that do not fit beside the member row are written before the member rows are read."""
    open_one = ""
    is_over = False

    async def handled_meanwhile(call: Call, phase: Phase) -> None:
        nonlocal is_over
        is_edge = keys.unblocks(open_one, A) in call.keys and call.kind is Kind.TABLE_WRITE
        if phase is Phase.BEFORE and process_name() == VICTIM and is_edge and not is_over:
            is_over = True
            await as_process("other", complete())

    async def complete() -> None:
        await complete_tasks(world, 1)
        await world.drain(5)

    world = a_world(handled_meanwhile)

    async def story() -> None:
        nonlocal open_one
        required = await create_tasks(world, 4)
        await complete_tasks(world, 4)
        await world.drain(120)
        open_one = await world.create(taskGroupId=GROUP)
        definition = world.definition(A, taskGroupId=GROUP, dependencies=[*required, open_one])
        await world.victim(world.services.create_task(definition))
        assert is_over, "the edge is written"
        await world.drain(5)
        assert world.tasks()[A].state is State.PENDING

    world.run(story())


def test_new_dependent_of_a_rerun_whose_first_resolution_is_handled_last() -> None:
    """Its own active row would still be there, and let a new edge pass that nobody follows with the right state."""
    world = a_world()

    async def story() -> None:
        await fail_and_complete_again(world)
        await handle(world, A, 1)
        await world.create(B, taskGroupId=GROUP, dependencies=[A])
        await handle(world, A, 0)
        assert world.tasks()[B].state is State.PENDING

    world.run(story())


def test_slow_call_to_create_a_task_that_was_settled_since_does_not_bring_its_guard_back() -> None:
    """It has found the member row and no task; then the task was created, has failed and was run again."""
    has_looked, settles = asyncio.Event(), asyncio.Event()
    slow_calls: list[asyncio.Task[None]] = []

    async def held(call: Call, phase: Phase) -> None:
        if process_name() == VICTIM and (call.subject, phase) == (A, Phase.AFTER) and not settles.is_set():
            has_looked.set()
            await settles.wait()
        if process_name() == HANDLER and phase is Phase.BEFORE and keys.active(A, 1) in call.keys:
            settles.set()
            await asyncio.gather(*slow_calls, return_exceptions=True)

    world = a_world(held)

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        definition = world.definition(A, taskGroupId=GROUP, priority="high")
        await world.services.create_task._membership.join(definition, await pack_definition(definition))

        async def create_slowly() -> None:
            await world.process().create_task(definition)

        slow_calls.append(asyncio.create_task(as_process(VICTIM, create_slowly())))
        await has_looked.wait()
        await world.services.create_task(definition)
        await complete_tasks(world, 1, Resolved.FAILED)
        await rerun(world, A)
        await world.drain(5)
        await complete_tasks(world, 1)
        await world.drain(5)
        assert settles.is_set(), "the handler of the rerun was held up"
        await world.clock.sleep(61)
        await world.create(B, taskGroupId=GROUP, dependencies=[A])
        await world.drain(60)
        assert world.tasks()[B].state is State.PENDING

    world.run(story())


def test_guard_does_not_make_a_task_look_younger_to_a_job_on_its_group() -> None:
    """A call on a whole group that died goes on with the tasks of its time, whatever has come to wait for them."""
    kill = Kill(number=4, process=VICTIM)
    world = a_world(kill)

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await world.clock.sleep(60)

    async def cancel() -> None:
        await world.services.group_jobs.call(GroupJob(task_group_id=GROUP, kind="cancel"))

    world.run(story())
    (outcome,) = world.simulation.outcomes(world.victim(cancel()))
    assert isinstance(outcome, Killed)

    async def later() -> None:
        await world.clock.sleep(5)
        await world.create(B, taskGroupId=GROUP, dependencies=[A])
        await world.drain(600)
        assert world.tasks()[A].last_run.reason_resolved is Resolved.CANCELED
        assert not world.tasks()[B].is_resolved, "it came after the call"

    world.run(later())


def test_handler_returns_only_when_its_bit_is_committed() -> None:
    """While the commit of another handler of the process is under way, and when that one fails."""
    world = a_world(
        Fail(lambda call: call.kind is Kind.TABLE_WRITE and call.subject == B and process_name() == HANDLER, times=1)
    )

    async def story() -> None:
        first, second = await create_tasks(world, 2)
        await world.create(B, taskGroupId=GROUP, dependencies=[first, second])
        await complete_tasks(world, 2)
        outcomes = await asyncio.gather(
            *(as_process(HANDLER, handle(world, task_id)) for task_id in (first, second)), return_exceptions=True
        )
        bits = [world.tasks()[B].satisfied >> number & 1 for number in (0, 1)]
        assert [outcome is None for outcome in outcomes] == [bool(bit) for bit in bits]
        assert not all(bits)
        await world.drain(700)
        assert world.tasks()[B].state is State.PENDING

    world.run(story())


def test_lost_races_are_tried_again_for_as_long_as_patience_lasts() -> None:
    """The message has been received: to put it again would cost more."""
    lost = 0

    async def overtake(call: Call, phase: Phase) -> None:
        nonlocal lost
        is_commit = call.kind is Kind.TABLE_WRITE and call.subject == B and keys.TASK_STATUS in call.keys
        if phase is not Phase.BEFORE or process_name() != HANDLER or not is_commit or lost == 9:
            return
        lost += 1
        tasks = world.services.stores.tasks
        read = await tasks.existing(B)
        await as_process("other", tasks.commit(read, read.task))

    world = a_world(overtake)

    async def story() -> None:
        first, _ = required = await create_tasks(world, 2)
        await world.create(B, taskGroupId=GROUP, dependencies=required)
        await complete_tasks(world, 2)
        started = world.clock.now()
        await as_process(HANDLER, handle(world, first))
        assert world.tasks()[B].satisfied.bit_count() == 1
        assert lost == 9
        assert world.clock.now() - started < dependents.TRIED_FOR

    world.run(story())


def test_waiting_handler_that_is_cancelled_leaves_the_others_alone() -> None:
    at_work = asyncio.Event()

    async def noted(call: Call, phase: Phase) -> None:
        if phase is Phase.BEFORE and call.kind is Kind.TABLE_WRITE and call.subject == B and process_name() == HANDLER:
            at_work.set()

    world = a_world(noted)

    async def story() -> None:
        leaves = await create_tasks(world, 3)
        await world.create(B, taskGroupId=GROUP, dependencies=leaves)
        await complete_tasks(world, 3)
        first, *others = (asyncio.create_task(as_process(HANDLER, handle(world, leaf))) for leaf in leaves)
        await at_work.wait()
        first.cancel()
        await asyncio.gather(*others)
        assert world.tasks()[B].satisfied & 0b110 == 0b110
        assert world.services.resolution._dependents._queues == {}

    world.run(story())
