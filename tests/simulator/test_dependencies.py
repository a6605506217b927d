"""Edges of a group, what its member rows say of dependencies, and bits that are committed together (design 5)."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.dates import format_date
from shared.domain.task import Resolved, State
from shared.errors import InputError
from shared.storage import group_edges, group_rows, keys
from shared.storage.codec import TASK_COLUMNS, encode_task, pack_definition
from shared.storage.counting import Kind, Operations, counting
from shared.storage.group_rows import EDGES_WITH_MEMBER, MOST_GUARDED, Unsettled, settled_state
from shared.storage.interface import Delete, Merge, Row
from shared.storage.internal_messages import RESOLVED_QUEUE, ResolvedMessage
from shared.usecases import dependents
from shared.usecases.group_jobs import GroupJob
from tests.azurite.budget_table import figures
from tests.simulator.running import VICTIM, finish
from tests.simulator.scenarios import GROUP, OTHER_GROUP, A, B, C
from tests.simulator.world import HANDLER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Fail, Kill, Killed, Phase, as_process, process_name


def _world(*gates: Any) -> World:
    world = World(Simulation.scripted([]), *gates)
    world.is_ordered = False
    return world


async def _tasks(world: World, count: int, **changes: Any) -> list[str]:
    return [await world.create(**{"taskGroupId": GROUP, **changes}) for _ in range(count)]


async def _complete(world: World, count: int, resolution: Resolved = Resolved.COMPLETED) -> None:
    while count > 0:
        claims = await world.claim(min(count, 32))
        assert claims, "there are so many"
        for claim in claims:
            await world.services.lifecycle.report(claim.task.task_id, claim.run_id, resolution)
        count -= len(claims)


async def _rerun(world: World, task_id: str) -> None:
    await world.services.lifecycle.rerun(await world.services.lifecycle.known(task_id))


async def _handle(world: World, task_id: str, run_id: int = 0) -> None:
    message = ResolvedMessage(task_id=task_id, run_id=run_id, put=world.clock.now())
    await world.services.resolution.resolved_due(message)


async def _cost(world: World, **changes: Any) -> Operations:
    definition = world.definition(**{"taskGroupId": GROUP, **changes})
    with counting() as operations:
        await world.services.create_task(definition)
    return operations


# What createTask costs


@pytest.mark.parametrize("count", [1, 4, MOST_GUARDED])
def test_create_with_open_dependencies_makes_four_requests_in_two_round_trips(count: int) -> None:
    world = World(Simulation.rounds())

    async def story() -> None:
        required = await _tasks(world, count)
        operations = await _cost(world, dependencies=required)
        assert (operations.total, operations.depth) == (4, 2)

    world.run(story())


def test_create_with_one_resolved_dependency_looks_at_each() -> None:
    world = _world()

    async def story() -> None:
        required = await _tasks(world, 5)
        await _complete(world, 1)
        assert (await _cost(world, dependencies=required)).total == 4 + 1, "it is not settled yet: its status decides"
        await world.drain(90)
        assert (await _cost(world, dependencies=required)).total == 5 + 5
        (done,) = (task_id for task_id in required if world.tasks()[task_id].is_resolved)
        await _rerun(world, done)
        assert (await _cost(world, dependencies=required)).total == 5 + 5 + 1, "and at the status of what runs again"

    world.run(story())


def test_create_reads_dependencies_that_the_process_does_not_know_once() -> None:
    world = _world()

    async def story() -> None:
        required = await _tasks(world, 5)
        world.services = world.process()
        await world.create(taskGroupId=GROUP)
        assert (await _cost(world, dependencies=required)).total == 4 + 5
        assert (await _cost(world, dependencies=required)).total == 4
        assert (await _cost(world, dependencies=required, taskGroupId=OTHER_GROUP)).total >= 4 + 2 * 5

    world.run(story())


def test_new_task_is_pending_at_once_when_its_dependency_was_just_resolved() -> None:
    """By the same process, which knows so; another one finds the edge with its handler a moment later."""
    world = _world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        other = world.process()
        other.stores.known.note(world.tasks()[A])
        await _complete(world, 1)
        for task_id in (B, C):
            await world.create(task_id, taskGroupId=GROUP, dependencies=[A])
            assert world.tasks()[task_id].state is State.PENDING
        late = world.definition(taskGroupId=GROUP, dependencies=[A])
        assert (await other.create_task(late)).state is State.UNSCHEDULED
        await world.drain(5)
        assert world.tasks()[late.task_id].state is State.PENDING

    world.run(story())


def test_create_with_dependencies_of_another_group_costs_two_requests_each() -> None:
    world = _world()

    async def story() -> None:
        required = await _tasks(world, 3)
        await world.create(taskGroupId=OTHER_GROUP)
        assert (await _cost(world, dependencies=required, taskGroupId=OTHER_GROUP)).total == 4 + 2 * 3

    world.run(story())


@pytest.mark.parametrize("resolved", [0, 10, pytest.param(1000, marks=pytest.mark.large)])
def test_create_with_a_thousand_dependencies_makes_twenty_requests(resolved: int) -> None:
    world = _world()

    async def story() -> None:
        required = await _tasks(world, 1000)
        await _complete(world, resolved)
        if resolved:
            await world.drain(90)
        operations = await _cost(world, task_id=A, dependencies=required)
        assert operations.total <= 20
        task = world.tasks()[A]
        assert task.satisfied.bit_count() == resolved
        assert task.state is (State.PENDING if resolved == 1000 else State.UNSCHEDULED)

    world.run(story())


@pytest.mark.large
def test_create_with_ten_thousand_dependencies_makes_a_hundred_and_twenty_requests() -> None:
    world = _world()

    async def story() -> None:
        required = await _tasks(world, 10_000)
        most = figures("createTask … 10,000 dependencies").operations
        assert (await _cost(world, dependencies=required)).total <= most

    world.run(story())


# What a resolution costs


def test_leaf_of_a_dependent_costs_nine_requests_alone() -> None:
    world = _world()

    async def story() -> None:
        required = await _tasks(world, 3)
        await world.create(B, taskGroupId=GROUP, dependencies=required)
        await _complete(world, 1)
        (leaf,) = (task_id for task_id in required if world.tasks()[task_id].is_resolved)
        with counting() as operations:
            await _handle(world, leaf)
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
        leaves.extend(await _tasks(world, 100))
        await world.create(B, taskGroupId=GROUP, dependencies=leaves)
        await _complete(world, 100)

    world.run(story())
    handlers = [world.process() for _ in range(processes)]
    world.is_ordered = True

    async def handle(number: int, leaf: str) -> None:
        message = ResolvedMessage(task_id=leaf, run_id=0, put=world.clock.now())
        await handlers[number % processes].resolution.resolved_due(message)
        assert world.tasks()[B].satisfied >> number & 1, "a handler that returns has its bit committed"

    async def all_of_them() -> None:
        with counting() as operations:
            await asyncio.gather(*(handle(number, leaf) for number, leaf in enumerate(leaves)))
        assert operations.total <= (8 if processes == 1 else 7 + 2.5) * len(leaves)

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
        await _complete(world, 1)

    async def handled() -> None:
        with counting() as operations:
            await _handle(world, A)
        assert operations.total <= 7 + 3 * count + 1

    world.run(story())
    world.is_ordered = True
    world.run(handled())
    pending = [row for row in world.rows(keys.POOLS) if row.key.startswith("pending~")]
    assert len(pending) == count


# Orders


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions so small that a handful of edges needs several, and ranges rather than point reads."""
    monkeypatch.setattr(group_rows, "EDGES_WITH_MEMBER", 2)
    monkeypatch.setattr(group_rows, "MOST_GUARDED", 1)
    monkeypatch.setattr(group_edges, "MAX_OPERATIONS", 2)
    monkeypatch.setattr(group_edges, "_READS", 3)
    monkeypatch.setattr(group_edges, "_WORTHWHILE", 1)


async def _four_of_whom_one_has_ended(world: World) -> list[str]:
    required = await _tasks(world, 5)
    await _complete(world, 1)
    await world.drain(30)
    await _complete(world, 1)
    return required


@pytest.mark.parametrize("repeat", [True, False], ids=["repeated", "not repeated"])
@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_create_with_many_transactions_is_killed_at_every_request(
    phase: Phase, repeat: bool, few_at_once: None
) -> None:
    number = 1
    while True:
        kill = Kill(number=number, phase=phase, process=VICTIM)
        world = World(Simulation.scripted([]), kill)
        (required,) = world.run(_four_of_whom_one_has_ended(world))
        definition = world.definition(A, taskGroupId=GROUP, dependencies=required)
        (outcome,) = world.simulation.outcomes(world.victim(world.services.create_task(definition)))
        if repeat and outcome is not None:
            world.services = world.process()
            world.run(world.services.create_task(definition))
        finish(world, is_acknowledged=repeat)
        if not isinstance(outcome, Killed):
            assert number > 8, "several transactions and reads"
            break
        number += 1


@pytest.mark.parametrize("seed", range(25))
def test_create_with_many_transactions_beside_resolutions_of_all_its_dependencies(seed: int, few_at_once: None) -> None:
    """Some are run again meanwhile."""
    world = World(Simulation.seeded(seed, yield_after=True))
    world.is_ordered = False
    chance = random.Random(seed)
    required: list[str] = []

    async def story() -> None:
        required.extend(await _four_of_whom_one_has_ended(world))
        await world.claim(32)

    async def end(task_id: str) -> None:
        services = world.process()
        task = world.tasks()[task_id]
        if not task.is_resolved:
            await services.lifecycle.report(task_id, 0, Resolved.COMPLETED)
        if chance.random() < 0.3:
            await services.lifecycle.rerun(await services.lifecycle.known(task_id))
        await services.resolution.resolved_due(ResolvedMessage(task_id=task_id, run_id=0, put=world.clock.now()))

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
        await _complete(world, 1)
        await world.drain(5)

    world = _world(handled_meanwhile)

    async def story() -> None:
        nonlocal open_one
        required = await _tasks(world, 4)
        await _complete(world, 4)
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
    world = _world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await _complete(world, 1, Resolved.FAILED)
        await _rerun(world, A)
        await _complete(world, 1)
        await _handle(world, A, 1)
        await world.create(B, taskGroupId=GROUP, dependencies=[A])
        await _handle(world, A, 0)
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

    world = _world(held)

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        definition = world.definition(A, taskGroupId=GROUP, priority="high")
        await world.services.create_task._membership.join(definition, await pack_definition(definition))

        async def create_slowly() -> None:
            await world.process().create_task(definition)

        slow_calls.append(asyncio.create_task(as_process(VICTIM, create_slowly())))
        await has_looked.wait()
        await world.services.create_task(definition)
        await _complete(world, 1, Resolved.FAILED)
        await _rerun(world, A)
        await world.drain(5)
        await _complete(world, 1)
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
    world = _world(kill)

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
    world = _world(
        Fail(lambda call: call.kind is Kind.TABLE_WRITE and call.subject == B and process_name() == HANDLER, times=1)
    )

    async def story() -> None:
        first, second = await _tasks(world, 2)
        await world.create(B, taskGroupId=GROUP, dependencies=[first, second])
        await _complete(world, 2)
        outcomes = await asyncio.gather(
            *(as_process(HANDLER, _handle(world, task_id)) for task_id in (first, second)), return_exceptions=True
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
        read = await tasks.known(B)
        await as_process("other", tasks.commit(read, read.task))

    world = _world(overtake)

    async def story() -> None:
        first, _ = required = await _tasks(world, 2)
        await world.create(B, taskGroupId=GROUP, dependencies=required)
        await _complete(world, 2)
        started = world.clock.now()
        await as_process(HANDLER, _handle(world, first))
        assert world.tasks()[B].satisfied.bit_count() == 1
        assert lost == 9
        assert world.clock.now() - started < dependents.PATIENCE

    world.run(story())


def test_waiting_handler_that_is_cancelled_leaves_the_others_alone() -> None:
    at_work = asyncio.Event()

    async def noted(call: Call, phase: Phase) -> None:
        if phase is Phase.BEFORE and call.kind is Kind.TABLE_WRITE and call.subject == B and process_name() == HANDLER:
            at_work.set()

    world = _world(noted)

    async def story() -> None:
        leaves = await _tasks(world, 3)
        await world.create(B, taskGroupId=GROUP, dependencies=leaves)
        await _complete(world, 3)
        first, *others = (asyncio.create_task(as_process(HANDLER, _handle(world, leaf))) for leaf in leaves)
        await at_work.wait()
        first.cancel()
        await asyncio.gather(*others)
        assert world.tasks()[B].satisfied & 0b110 == 0b110
        assert world.services.resolution._dependents._queues == {}

    world.run(story())


# Member rows


def _member(**values: Any) -> Row:
    return Row(partition=GROUP, key=keys.member(A), values=values, etag="", timestamp=World().clock.now())


@pytest.mark.parametrize(
    ("row", "meaning"),
    [
        (None, Unsettled.UNKNOWN),
        (_member(definition=b"x"), Unsettled.OPEN),
        (_member(state0000="failed"), State.FAILED),
        (_member(state0000="failed", opened0001=True), Unsettled.UNKNOWN),
        (_member(state0000="failed", opened0001=True, state0001="completed"), State.COMPLETED),
        (_member(state0000="failed", opened0001=True, state0001="completed", opened0002=True), Unsettled.UNKNOWN),
        (_member(opened0001=True), Unsettled.UNKNOWN),
        (_member(opened0001=True, opened0002=True, state0001="failed"), Unsettled.UNKNOWN),
        (_member(opened0000=True, state0000="completed"), State.COMPLETED),
    ],
)
def test_state_in_a_member_row_counts_if_no_rerun_may_have_followed(
    row: Row | None, meaning: State | Unsettled
) -> None:
    assert settled_state(row) is meaning


@pytest.mark.parametrize("reruns", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("by_range", [False, True])
@pytest.mark.parametrize("gone", [False, True], ids=["member there", "member made again"])
def test_state_of_any_generation_is_found(reruns: int, by_range: bool, gone: bool) -> None:
    world = _world()

    async def story() -> None:
        others = await _tasks(world, 70 if by_range else 1)
        await world.create(A, taskGroupId=GROUP, priority="high")
        for number in range(reruns):
            await _complete(world, 1, Resolved.FAILED)
            await world.drain(30)
            await _rerun(world, A)
            if gone and number == reruns - 1:
                await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [Delete(keys.member(A))])
        await _complete(world, 1)
        await world.drain(90)
        await world.create(B, taskGroupId=GROUP, dependencies=[A, *others])
        assert world.tasks()[B].satisfied == 1

    world.run(story())


def test_dependency_that_runs_again_is_open() -> None:
    """Its member row has the state of before, and a mark."""
    world = _world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await _complete(world, 1)
        await world.drain(90)
        await _rerun(world, A)
        await world.create(B, taskGroupId=GROUP, dependencies=[A])
        assert world.tasks()[B].state is State.UNSCHEDULED
        slow = world.services.stores.groups
        await slow.add_active(GROUP, A, 1)  # another rerun, which has read the task before, and rewrites what it finds
        await _complete(world, 1, Resolved.FAILED)
        await world.drain(90)
        await _rerun(world, A)
        await slow.add_active(GROUP, A, 1)
        await world.create(C, taskGroupId=GROUP, dependencies=[A], requires="all-resolved")
        assert world.tasks()[C].state is State.UNSCHEDULED

    world.run(story())


def test_late_settling_of_an_earlier_generation_changes_no_later_state() -> None:
    world = _world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await _complete(world, 1, Resolved.FAILED)
        await _rerun(world, A)
        await _complete(world, 1)
        await _handle(world, A, 1)
        await _handle(world, A, 0)
        (row,) = (row for row in world.rows(keys.GROUPS, GROUP) if row.key == keys.member(A))
        assert (row.values["state0000"], row.values["state0001"]) == ("failed", "completed")
        assert settled_state(row) is State.COMPLETED

    world.run(story())


def test_state_of_an_earlier_generation_is_its_runs_and_not_the_tasks() -> None:
    """The handler may read the task when a rerun has ended in another way."""
    world = _world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await _complete(world, 1, Resolved.FAILED)
        await _rerun(world, A)
        await _complete(world, 1)
        await _handle(world, A, 0)
        (row,) = (row for row in world.rows(keys.GROUPS, GROUP) if row.key == keys.member(A))
        assert row.values["state0000"] == "failed"

    world.run(story())


def test_settling_again_writes_the_state_that_is_missing() -> None:
    """An active row that went another way is not taken for a resolution that was settled."""
    world = _world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await _complete(world, 1)
        await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [Delete(keys.active(A, 0))])
        await _handle(world, A)
        (row,) = (row for row in world.rows(keys.GROUPS, GROUP) if row.key == keys.member(A))
        assert settled_state(row) is State.COMPLETED

    world.run(story())


def test_columns_of_the_status_row_are_all_that_is_written() -> None:
    world = _world()
    world.run(world.create(A))
    assert set(encode_task(world.tasks()[A])) == set(TASK_COLUMNS)


# Memory


def test_caller_is_not_refused_on_the_word_of_the_memory() -> None:
    """An id that was used again after its task had expired is read again."""
    world = _world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP, expires=_later(world, 4), deadline=_later(world, 3))
        await world.clock.sleep(timedelta(hours=5).total_seconds())
        with pytest.raises(InputError, match="expire before"):
            await world.create(B, taskGroupId=OTHER_GROUP, dependencies=[A])
        for row in world.rows(keys.TASKS, A):
            await world.memory.storage.tables.transact(keys.TASKS, A, [Delete(row.key)])
        await world.process().create_task(world.definition(A, taskGroupId=OTHER_GROUP))
        await world.create(B, taskGroupId=OTHER_GROUP, dependencies=[A])
        edges = [row.key for row in world.rows(keys.GROUPS, OTHER_GROUP) if row.key.startswith(keys.UNBLOCKS)]
        assert edges == [keys.unblocks(A, B)], "its group is the one that it has now"

    world.run(story())


def test_group_of_a_task_is_told_by_its_status_and_not_by_a_member_row() -> None:
    """A call that died has added A to GROUP; A is of another group, and an edge in GROUP would not be followed."""
    world = _world()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await world.create(A, taskGroupId=OTHER_GROUP)
        dead = world.definition(A, taskGroupId=GROUP)
        await world.services.create_task._membership.join(dead, await pack_definition(dead))
        await world.process().create_task(world.definition(B, taskGroupId=GROUP, dependencies=[A], priority="low"))
        await world.services.lifecycle.cancel(await world.services.lifecycle.known(C))
        await _complete(world, 1)
        await world.drain(30)
        assert world.tasks()[B].state is State.PENDING

    world.run(story())


def _later(world: World, hours: int) -> str:
    return format_date(world.clock.now() + timedelta(hours=hours))


# Lists and groups


@dataclass
class _Listing:
    world: World
    found: list[str] = field(default_factory=list)

    async def walk(self, limit: int) -> list[list[str]]:
        pages: list[list[str]] = []
        start = ""
        while True:
            page = await self.world.services.batches.dependents(A, start=start, limit=limit)
            pages.append([task.status["taskId"] for task in page.tasks])
            if page.resume is None:
                return pages
            start = page.resume


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("inside", [0, 1, 3, 6])
def test_dependents_of_both_places_are_listed_in_order_and_once(limit: int, inside: int) -> None:
    world = _world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        chance = random.Random(inside)
        places = [GROUP] * inside + [OTHER_GROUP] * (6 - inside)
        chance.shuffle(places)
        made = [await world.create(taskGroupId=group, dependencies=[A]) for group in places]
        twice = made[0]
        await world.services.stores.tasks.rewrite_edge(A, twice)
        await world.services.stores.edges.add(GROUP, twice, [A])
        pages = await _Listing(world).walk(limit)
        assert [task_id for page in pages for task_id in page] == sorted(made)
        assert all(len(page) <= limit for page in pages)

    world.run(story())


def test_edges_go_with_their_group() -> None:
    world = _world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await world.create(B, taskGroupId=GROUP, dependencies=[A])
        await world.drain(timedelta(hours=4).total_seconds())
        for _ in range(24 * 4):
            await world.clock.sleep(3600)
            await world.services.expiration.run(600)

    world.run(story())
    assert world.rows(keys.GROUPS) == []
    assert world.messages(RESOLVED_QUEUE) == []


def test_repeated_create_writes_the_edges_that_the_call_before_has_not() -> None:
    """The first call has named others, and died: its edges name a task that does not wait for those."""
    world = _world()

    async def story() -> None:
        first, second = await _tasks(world, 2)
        dead = world.definition(B, taskGroupId=GROUP, dependencies=[first])
        edges = group_rows.Edges.of(B, [first], [])
        await world.services.create_task._membership.join(dead, await pack_definition(dead), edges)
        await world.create(B, taskGroupId=GROUP, dependencies=[second])
        await _complete(world, 2)
        await world.drain(30)
        assert world.tasks()[B].state is State.PENDING

    world.run(story())


def test_orphan_member_that_is_touched_by_a_group_check_keeps_no_guard() -> None:
    """A row of no task guards nothing: the dependency is looked for before an edge relies on its rows."""
    world = _world()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        dead = world.definition(A, taskGroupId=GROUP)
        await world.services.create_task._membership.join(dead, await pack_definition(dead))
        with pytest.raises(InputError, match="do not exist"):
            await world.create(B, taskGroupId=GROUP, dependencies=[A])
        await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [Merge(keys.active(A, 0), {})])

    world.run(story())


def test_edges_with_a_member_fit_into_a_transaction_with_all_that_may_be_beside_them() -> None:
    required = [f"{number:022d}" for number in range(EDGES_WITH_MEMBER + 1)]
    guarded = group_rows.Edges.of(A, required[:MOST_GUARDED], [])
    assert len(guarded.guards) == MOST_GUARDED
    assert len(guarded.first) + len(guarded.guards) + 4 == 100
    assert group_rows.Edges.of(A, required[: MOST_GUARDED + 1], []).guards == ()
    assert group_rows.Edges.of(A, required, required).rest == (required[-1],)
    assert group_rows.Edges.of(A, [A, B, C], [B]).guards == (C,)
