"""Index rows that are written late, by calls that are slow, hand back what they have claimed, or cannot write them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from shared.queue.tasks.effects import ChangePoolRows, PendingContent, row_of
from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from tests.simulator import races
from tests.simulator.claimer import Once, a_world, is_commit, is_index_row, quarantine
from tests.simulator.situations import A, Step, pending, retried, running
from tests.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Phase, as_process
from tests.twin.reduction import explore_distinct

LONG = 120.0
"""Seconds after which the reconciler looks into a row."""
HOUR = 3600.0


def _rows(world: World, task_id: str = A) -> list[tuple[str, int]]:
    """Kind and run of the task's index rows."""
    words = [row.key.split("~") for row in world.rows(keys.POOLS, keys.pool(POOL))]
    return [(kind, int(rest[2])) for kind, *rest in words if kind in ("pending", "claimed") and rest[1] == task_id]


@pytest.mark.parametrize(
    ("situation", "row"), [(pending, ("pending", 0)), (retried, ("pending", 1)), (races.lapsed, ("claimed", 0))]
)
def test_a_run_whose_claim_was_refused_has_its_row(situation: Step, row: tuple[str, int]) -> None:
    """Without it, nobody would see that its message is lost."""
    gate = Once(is_index_row)
    world = a_world(gate)
    claimer = world.process()

    async def story() -> None:
        await situation(world)
        gate.meanwhile, gate.is_armed = lambda: quarantine(world), True
        await world.services.workers.declare(POOL, WORKER, world.clock.now() + CLAIM_TIMEOUT)
        assert await as_process("claimer", claimer.work.claim_work(POOL, WORKER, 1, 1.5)) == []
        assert not gate.is_armed

    world.run(story())
    assert _rows(world) == [row]


@pytest.mark.parametrize("is_slow_before", ["its row", "its commit"])
def test_a_run_whose_claim_is_handed_back_while_the_reconciler_moves_its_row_has_its_row(is_slow_before: str) -> None:
    """The reconciler has seen the claim, which is about to be undone."""

    def scenario(simulation: Simulation) -> None:
        commits, returns = Once(is_commit, Phase.AFTER), Once(is_commit)
        world = World(simulation, commits, returns)
        world.is_ordered = False
        world.run(pending(world))
        is_slow = asyncio.Event()

        async def take_long() -> None:
            world.clock.advance(LONG)
            world.is_ordered = True
            is_slow.set()

        async def claim() -> None:
            """Its client goes as soon as it has committed."""
            call = asyncio.ensure_future(world.process().work.claim_work(POOL, WORKER, 1, 0.5))

            async def go() -> None:
                call.cancel()
                returns.meanwhile, returns.is_armed = take_long, is_slow_before == "its commit"
                if is_slow_before == "its row":
                    await take_long()

            commits.meanwhile, commits.is_armed = go, True
            with pytest.raises(asyncio.CancelledError):
                await call

        async def check() -> None:
            await is_slow.wait()
            await world.process().reconciler.check_pool(POOL)

        world.run(as_process("claimer", claim()), as_process("reconciler", check()))
        assert world.tasks()[A].state is State.PENDING
        assert _rows(world) == [("pending", 0)]

    explore_distinct(scenario, in_order=True)


async def _leave(world: World, state: State) -> None:
    """A was completed; a request that came late has left another index row of it."""
    await running(world)
    row = row_of(world.tasks()[A], 0)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.drain(60)
    left = replace(row, state=state, started=row.started if state is State.RUNNING else None)
    await world.services.stores.pools.change([ChangePoolRows(task_queue_id=POOL, add=(left,))], POOL)


def test_a_row_that_was_left_over_goes_after_the_deadline_of_its_task() -> None:
    """No message of a claim names it: then nothing else removes the row."""
    world = a_world()

    async def story() -> None:
        await _leave(world, State.RUNNING)
        assert _rows(world) == [("claimed", 0)]
        await world.drain(6 * HOUR)

    world.run(story())
    assert _rows(world) == []


def test_a_pending_row_that_was_left_over_goes_though_its_band_gives_no_evidence() -> None:
    """An older message stays visible where nobody polls, so no message of the band seems to be lost."""
    world = a_world()

    async def story() -> None:
        await _leave(world, State.PENDING)
        content = PendingContent(task_queue_id=POOL, task_id=A, run_id=1, hint_id="stale")
        await world.services.stores.messages.put_pending(content, "lowest", None)
        await world.drain(2 * HOUR)
        assert _rows(world) == [("pending", 0)]
        await world.drain(4 * HOUR)

    world.run(story())
    assert _rows(world) == []


def test_the_row_of_a_task_that_is_late_to_be_resolved_stays() -> None:
    world = a_world()

    async def story() -> None:
        await running(world)
        await world.clock.sleep(5 * HOUR)
        await world.process().reconciler.check_all()

    world.run(story())
    assert _rows(world) == [("claimed", 0)]
