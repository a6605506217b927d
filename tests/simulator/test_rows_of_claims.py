"""The index rows of a claim stand before its commit. Whatever becomes of it, they follow the state of the run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from shared.base.protocol import ORPHAN_AFTER
from shared.queue.tasks.effects import ChangePoolRows, PoolRow, ReturnRow, row_of
from shared.queue.tasks.rules import State
from shared.store import keys
from tests.simulator import invariants
from tests.simulator.claimer import ANOTHER, Once, a_world, is_commit, is_index_row
from tests.simulator.company import remove_worker
from tests.simulator.parties import Party, cancel, change_priority, claim
from tests.simulator.situations import A
from tests.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Killed, Phase, as_process
from tests.twin.reduction import explore_distinct

OVER = CLAIM_TIMEOUT.total_seconds() + 5
ROWS = {State.PENDING: ["pending"], State.RUNNING: ["claimed"]}


def _rows(world: World) -> list[str]:
    kinds = [row.key.partition("~")[0] for row in world.rows(keys.POOLS, keys.pool(POOL))]
    return [kind for kind in kinds if kind in ("pending", "claimed")]


def _die(world: World, gate: Once) -> None:
    async def story() -> None:
        await world.create(A)
        gate.is_armed = True
        await as_process("claimer", world.claim())

    world.simulation.outcomes(story())
    assert not gate.is_armed


@pytest.mark.parametrize(("at", "phase"), [(is_index_row, Phase.AFTER), (is_commit, Phase.BEFORE)])
def test_a_claim_that_dies_before_its_commit_hides_the_run_until_it_would_be_over(at: object, phase: Phase) -> None:
    gate = Once(is_index_row if at is is_index_row else is_commit, phase, Killed)
    world = a_world(gate)
    _die(world, gate)
    assert (world.tasks()[A].state, _rows(world)) == (State.PENDING, ["claimed"])
    world.run(world.drain(OVER))
    assert (world.tasks()[A].state, _rows(world)) == (State.PENDING, ["pending"])
    (claims,) = world.run(world.process().work.claim_work(POOL, ANOTHER, 1, 2.5))
    assert len(claims) == 1
    invariants.check_settled(world)


async def _cancel(world: World) -> None:
    services = world.process()
    await services.lifecycle.cancel(await services.lifecycle.existing(A))


async def _claim(world: World) -> None:
    await world.clock.sleep(OVER)
    assert await world.process().work.claim_work(POOL, ANOTHER, 1, 2.5)


@pytest.mark.parametrize("move_on", [_cancel, _claim])
def test_the_row_of_a_dead_claim_goes_though_others_have_moved_the_run_on(
    move_on: Callable[[World], Coroutine[Any, Any, None]],
) -> None:
    gate = Once(is_commit, Phase.BEFORE, Killed)
    world = a_world(gate)
    _die(world, gate)
    world.run(move_on(world))
    world.run(world.drain(OVER if move_on is _cancel else 5))
    assert _rows(world) == ROWS.get(world.tasks()[A].state, [])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(cancel(A)),
        pytest.param(remove_worker),
        pytest.param(change_priority(A, "high"), marks=pytest.mark.large),
        pytest.param(claim("other"), marks=pytest.mark.large),
    ],
    ids=["cancelTask", "workerRemoved", "changeTaskPriority", "claimWork"],
)
def test_a_claim_and_another_call_leave_the_rows_of_the_runs_state(other: Party) -> None:
    """In every order of their requests that makes a difference."""

    def scenario(simulation: Simulation) -> None:
        world = World(simulation)
        world.is_ordered = False
        world.run(world.create(A))
        world.is_ordered = True
        simulation.outcomes(
            as_process("claim", world.process().work.claim_work(POOL, WORKER, 1, 0.1)),
            as_process("other", other(world, world.process())),
        )
        world.is_ordered = False
        invariants.check(world)
        world.run(world.drain(60))
        task = world.tasks()[A]
        assert task.state is not State.RUNNING or "claimed" in _rows(world)
        world.run(world.drain(OVER))
        assert set(_rows(world)) == set(ROWS.get(world.tasks()[A].state, []))

    explore_distinct(scenario, in_order=True, limit=2000)


@pytest.mark.parametrize("way", ["written ahead", "after a retry", "given back"])
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
        elif way == "after a retry":
            await pools.change([ChangePoolRows(task_queue_id=POOL, remove=(claimed,), add=(pending,))], POOL)
        else:
            await pools.give_back(ReturnRow(task_queue_id=POOL, claimed=claimed, pending=pending))
        assert len(noted()) == 1
        assert noted() != before

    world.run(story())


def test_a_claim_without_a_row_gives_none_back() -> None:
    """Its transaction has not removed the row of the pending run, or another call has put that back."""
    world = a_world()

    async def story() -> None:
        await world.create(A)
        pending = row_of(world.tasks()[A], 0)
        await world.claim()
        never: PoolRow = replace(pending, state=State.RUNNING, started=pending.scheduled - ORPHAN_AFTER)
        await world.services.stores.pools.give_back(ReturnRow(task_queue_id=POOL, claimed=never, pending=pending))

    world.run(story())
    assert _rows(world) == ["claimed"]
