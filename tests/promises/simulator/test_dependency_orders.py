"""Edges that are written while dependencies are resolved, and bits that are committed together (design 5)."""

from __future__ import annotations

import asyncio
import random

import pytest

from shared.base import bounds
from shared.queue.groups import rows as group_rows
from shared.queue.tasks import edges as group_edges
from shared.queue.tasks.internal_messages import ResolvedBody
from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from shared.store.counting import Kind
from tests.parts.twin.driver import Simulation
from tests.parts.twin.gate import Call, Fail, Phase, as_process, process_name
from tests.promises.simulator.depending import complete_tasks, create_tasks, handle
from tests.promises.simulator.running import VICTIM, Attempt, Harmed, finish
from tests.promises.simulator.scenarios import Scenario
from tests.promises.simulator.situations import GROUP, A, B, fixed
from tests.promises.simulator.topics import HANDLER
from tests.promises.simulator.world import World, unordered


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes transactions so small that a handful of edges needs several, and ranges are read rather than points."""
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
    """A task with many edges is created while all its dependencies are resolved, and some are run again."""
    world = World(Simulation.seeded(seed, yield_after=True), is_ordered=False)
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
    """A dependency that is handled right before its edge is written was seen: edges that do not fit beside the member
    row are written before the member rows are read."""
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

    world = unordered(handled_meanwhile)

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


def test_handler_returns_only_when_its_bit_is_committed() -> None:
    """A handler returns only when its bit is committed, even if another handler's commit of it fails."""
    world = unordered(
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
