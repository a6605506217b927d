"""The index row of a slow or dead claim follows the state of the run, whichever call moves the row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from shared.domain.effects import ChangePoolRows, row_of
from shared.domain.protocol import RESOLVED_DELAY
from shared.domain.task import Resolved, State
from shared.storage import keys
from shared.storage.counting import Kind
from shared.storage.internal_messages import RESOLVED_QUEUE
from tests.simulator.situations import A
from tests.simulator.world import POOL, World
from tests.twin.driver import Simulation
from tests.twin.gate import Kill, Phase, as_process
from tests.twin.reduction import explore_distinct

LONG = 120.0
"""Seconds after which the reconciler looks into a row."""

ROWS = {State.PENDING: ["pending"], State.RUNNING: ["claimed"]}


async def _complete(world: World) -> None:
    """With what follows a resolution, once."""
    services = world.process()
    await services.lifecycle.report(A, 0, Resolved.COMPLETED)
    ((body, _),) = world.messages(RESOLVED_QUEUE)
    await world.resolved_due_here(body)
    world.clock.advance(RESOLVED_DELAY.total_seconds())
    queues = world.account.connect().queues
    (message,) = await queues.get(RESOLVED_QUEUE, hidden_for=60)
    await queues.delete(RESOLVED_QUEUE, message.receipt)


async def _cancel(world: World) -> None:
    services = world.process()
    await services.lifecycle.cancel(await services.lifecycle.known(A))


async def _end_for_a_retry(world: World) -> None:
    await world.process().lifecycle.report_exception(A, 0, Resolved.WORKER_SHUTDOWN)


async def _renew(world: World) -> None:
    await world.process().work.reclaim_task(A, 0)


def _commit_of_a_claim() -> int:
    """Which of its requests commits it."""
    world = World(None, count := Kill(process="victim"))
    world.run(world.create(A))
    world.run(world.victim(world.claim()))
    (number,) = (
        n for n, call in enumerate(count.calls, 1) if (call.kind, call.target) == (Kind.TABLE_WRITE, keys.TASKS)
    )
    return number


def _claimed_in(world: World) -> Callable[[], Awaitable[None]]:
    """A is claimed, and its index row is still that of the pending run; returns the request that moves it."""
    world.is_ordered = False
    world.run(world.create(A))
    pending = row_of(world.tasks()[A], 0)
    world.simulation.outcomes(world.victim(world.claim()))
    assert _rows(world) == ["pending"]
    task = world.tasks()[A]
    assert task.state is State.RUNNING
    world.clock.advance(LONG)
    moved = ChangePoolRows(task_queue_id=POOL, remove=(pending,), add=(row_of(task, 0),))

    async def move_row() -> None:
        await world.process().stores.pools.change([moved], POOL)

    world.is_ordered = True
    return move_row


def _moved_as_it_should(world: World) -> None:
    world.is_ordered = False
    world.run(world.drain(60))
    assert _rows(world) == ROWS.get(world.tasks()[A].state, [])


MOVES = pytest.mark.parametrize("move_on", [_complete, _cancel, _end_for_a_retry, _renew])


@MOVES
@pytest.mark.parametrize("is_moved_before", [False, True], ids=["", "after the reconciler has moved it"])
def test_a_claim_that_moves_its_row_late_leaves_none_of_another_state(
    move_on: Callable[[World], Awaitable[None]], is_moved_before: bool
) -> None:
    """The first answer of claimTask was lost, say: the worker repeats it and reports while that call moves its row."""
    commit = _commit_of_a_claim()

    def scenario(simulation: Simulation) -> None:
        world = World(simulation, Kill(number=commit, phase=Phase.AFTER, process="victim"))
        move_row = _claimed_in(world)
        if is_moved_before:
            world.run(world.process().reconciler.check_pool(POOL))
            assert _rows(world) == ["claimed"]
        world.run(as_process("late", move_row()), as_process("other", move_on(world)))
        _moved_as_it_should(world)

    explore_distinct(scenario, in_order=True)


@MOVES
def test_a_run_that_moves_on_while_its_row_is_moved_has_the_rows_of_its_state(
    move_on: Callable[[World], Awaitable[None]],
) -> None:
    commit = _commit_of_a_claim()

    def scenario(simulation: Simulation) -> None:
        world = World(simulation, Kill(number=commit, phase=Phase.AFTER, process="victim"))
        _claimed_in(world)
        checked = as_process("reconciler", world.process().reconciler.check_pool(POOL))
        world.run(checked, as_process("other", move_on(world)))
        _moved_as_it_should(world)

    explore_distinct(scenario, in_order=True)


def test_the_row_of_a_claim_that_died_is_moved() -> None:
    world = World(None, Kill(number=_commit_of_a_claim(), phase=Phase.AFTER, process="victim"))
    world.run(world.create(A))
    world.simulation.outcomes(world.victim(world.claim()))
    world.clock.advance(LONG)
    world.run(world.handlers.reconciler.check_pool(POOL))
    assert _rows(world) == ["claimed"]


def _rows(world: World) -> list[str]:
    kinds = [row.key.partition("~")[0] for row in world.rows(keys.POOLS, keys.pool(POOL))]
    return [kind for kind in kinds if kind in ("pending", "claimed")]


@pytest.mark.parametrize("way", ["written ahead", "in place of a claim", "moved back"])
def test_rows_of_runs_that_are_pending_again_are_noted_in_their_pool(way: str) -> None:
    """A listing that reads the index in parts knows by that that it may have missed one (design 11)."""
    world = World()
    world.is_ordered = False

    async def story() -> None:
        pools = world.services.stores.pools
        await world.create(A)
        pending = row_of(world.tasks()[A], 0)
        await world.claim()
        claimed = row_of(world.tasks()[A], 0)

        def noted() -> list[str]:
            return [row.etag for row in world.rows(keys.POOLS) if row.key == keys.RETURNED]

        before = noted()
        if way == "written ahead":
            await pools.add_pending(POOL, replace(pending, run_id=1))
        elif way == "in place of a claim":
            await pools.change([ChangePoolRows(task_queue_id=POOL, remove=(claimed,), add=(pending,))], POOL)
        else:
            await pools.move_back(POOL, claimed, pending)
        assert len(noted()) == 1
        assert noted() != before

    world.run(story())
