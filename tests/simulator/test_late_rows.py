"""Index rows that are written late, by calls that are slow, hand back what they have claimed, or cannot write them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from shared.domain import claim_ends, claims, transitions
from shared.domain.claim_ends import UndeliveredClaim
from shared.domain.claims import Worker
from shared.domain.effects import ChangePoolRows, Decision, row_of
from shared.domain.protocol import RESOLVED_DELAY
from shared.domain.task import Resolved, State
from shared.storage import keys
from shared.storage.internal_messages import RESOLVED_QUEUE
from shared.storage.tasks import Loaded
from shared.usecases.executor import Executor
from tests.simulator import races
from tests.simulator.claimer import Once, a_world, is_commit, is_index_row, quarantine
from tests.simulator.situations import A, Step, pending, retried, running
from tests.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World, resolved_message
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Fail, Phase, as_process
from tests.twin.reduction import explore_distinct

ANOTHER = Worker(worker_group="group", worker_id="another")
LONG = 120.0
"""Seconds after which the reconciler looks into a row."""
HOUR = 3600.0


def _rows(world: World, task_id: str = A) -> list[tuple[str, int]]:
    """Kind and run of the task's index rows."""
    words = [row.key.split("~") for row in world.rows(keys.POOLS, keys.pool(POOL))]
    return [(kind, int(rest[2])) for kind, *rest in words if kind in ("pending", "claimed") and rest[1] == task_id]


async def _follow(world: World) -> None:
    """What follows a resolution, once."""
    services = world.process()
    for body, _ in world.messages(RESOLVED_QUEUE):
        await services.resolution.resolved_due(resolved_message(body))
    world.clock.advance(RESOLVED_DELAY.total_seconds())
    queues = world.account.connect().queues
    for message in await queues.get(RESOLVED_QUEUE, count=32, hidden_for=60):
        await queues.delete(RESOLVED_QUEUE, message.receipt)


async def _cancel(world: World) -> None:
    services = world.process()
    await services.lifecycle.cancel(await services.lifecycle.known(A))
    await _follow(world)


async def _commit(world: World, decide: Callable[[Loaded], Decision]) -> ChangePoolRows:
    """Commits a decision about A; returns what is to be done to the index rows afterwards."""
    stores = world.process().stores
    read = await stores.tasks.known(A)
    _, decision = await Executor(stores).commit(read, lambda read, _: decide(read), stores.write_ahead())
    (move,) = decision.after[0]
    assert isinstance(move, ChangePoolRows)
    return move


async def _claim_run_1(world: World) -> ChangePoolRows:
    """claimTask of A's run 1, which has yet to write its rows."""
    now = world.clock.now()
    return await _commit(
        world, lambda read: claims.claim_by_task(read.task, 1, ANOTHER, now + CLAIM_TIMEOUT, now, "own")
    )


def test_a_claim_of_a_retry_leaves_no_row_when_its_run_is_resolved_before_the_rows_are_written() -> None:
    """It takes the row of the expired run away, not one of its own run, so no row that is missing tells it."""

    def scenario(simulation: Simulation) -> None:
        world = World(simulation)
        world.is_ordered = False
        world.run(races.lapsed(world))
        (move,) = world.run(_claim_run_1(world))
        world.is_ordered = True

        async def late() -> None:
            await world.process().stores.pools.change([move], POOL)

        world.run(as_process("late", late()), as_process("other", _cancel(world)))
        world.is_ordered = False
        world.run(world.drain(60))
        assert world.tasks()[A].is_resolved
        assert _rows(world) == []

    explore_distinct(scenario, in_order=True)


def test_the_timer_of_a_run_leaves_no_row_beside_that_of_its_retry() -> None:
    """It comes while the retry's claim has yet to move its row, which would find a pending row later and move it."""

    async def meet(world: World) -> None:
        """What each does once it has read the task: the timer, then the others."""
        world.is_ordered = False
        await retried(world)
        late, now = await _claim_run_1(world), world.clock.now()
        stores = [world.process().stores for _ in range(3)]
        read = await stores[0].tasks.known(A)
        (timed,) = claim_ends.expire(read.task, 0, now, now, "spare").after[0]
        over = transitions.report(read.task, 1, Resolved.COMPLETED, now).task
        assert isinstance(timed, ChangePoolRows) and over is not None

        async def report() -> None:
            """The commit, and what its handler does to the rows."""
            await stores[2].tasks.commit(read, over)
            resolved = ChangePoolRows(task_queue_id=POOL, remove=(row_of(over, 1),))
            await stores[2].pools.change([resolved], POOL)

        await stores[1].pools.change([timed], POOL)
        assert _rows(world) == [("claimed", 1)]
        world.is_ordered = True
        await asyncio.gather(as_process("late", stores[0].pools.change([late], POOL)), as_process("other", report()))

    def scenario(simulation: Simulation) -> None:
        world = World(simulation)
        world.run(meet(world))
        assert ("claimed", 1) not in _rows(world)

    explore_distinct(scenario, in_order=True)


@pytest.mark.parametrize("at", [is_commit, is_index_row], ids=["before its commit", "before its rows"])
@pytest.mark.parametrize(("situation", "run_id"), [(pending, 0), (retried, 1), (races.lapsed, 1)])
def test_a_run_whose_claim_was_handed_back_has_its_row(
    situation: Step, run_id: int, at: Callable[[Call], bool]
) -> None:
    """Without it, nobody would see that its message is lost."""
    gate = Once(at)
    world = a_world(gate)
    claimer = world.process()

    async def story() -> None:
        await situation(world)
        gate.meanwhile, gate.is_armed = lambda: quarantine(world), True
        await world.services.workers.declare(POOL, WORKER, world.clock.now() + CLAIM_TIMEOUT)
        assert await as_process("claimer", claimer.work.claim_work(POOL, WORKER, 1, 1.5)) == []
        assert not gate.is_armed

    world.run(story())
    assert world.tasks()[A].state is State.PENDING
    assert _rows(world) == [("pending", run_id)]


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


async def _interrupted(world: World) -> None:
    """A's run 0 was interrupted by a call that died before it moved the index row; run 1 is pending."""
    await running(world)
    now = world.clock.now()
    await _commit(
        world, lambda read: transitions.report_exception(read.task, 0, Resolved.WORKER_SHUTDOWN, now, "spare")
    )
    world.clock.advance(CLAIM_TIMEOUT.total_seconds() + 1)


@pytest.mark.parametrize("situation", [_interrupted, races.lapsed], ids=["interrupted", "lapsed"])
def test_a_run_whose_claim_is_handed_back_beside_the_timer_of_the_run_before_has_its_row(situation: Step) -> None:
    """The timer has seen the claim, and moves the row to it. The claim is handed back before any of its requests."""
    number, has_met = 0, True
    while has_met:
        number += 1
        gate = Once(_of_number(number))
        world = a_world(gate)
        world.run(situation(world))
        world.run(_hand_back_beside_the_timer(world, gate))
        has_met = not gate.is_armed
        if has_met:
            assert world.tasks()[A].state is State.PENDING
            rows = [row for row in _rows(world) if row[1] == 1]
            assert rows == [("pending", 1)], f"handed back before request {number} of the timer"
    assert number > 3


def _of_number(number: int) -> Callable[[Call], bool]:
    """Matches the request of that number, from 1 on."""
    numbers = itertools.count(1)
    return lambda call: next(numbers) == number


async def _hand_back_beside_the_timer(world: World, gate: Once) -> None:
    services = world.process()
    read, now = await services.stores.tasks.known(A), world.clock.now()
    committed, _ = await Executor(services.stores).commit(
        read,
        lambda read, _: claims.claim_by_task(read.task, 1, ANOTHER, now + CLAIM_TIMEOUT, now, "own"),
        services.stores.write_ahead(),
    )
    ((timed,),) = claim_ends.expire(committed.task, 0, now, now, "spare").after
    assert isinstance(timed, ChangePoolRows)
    gate.meanwhile = lambda: services.giving_back.take_back(UndeliveredClaim.of(committed.task))
    gate.is_armed = True
    await as_process("claimer", world.process().stores.pools.change([timed], POOL))


def test_a_claim_of_a_retry_whose_rows_could_not_be_written_gets_its_row() -> None:
    """From the claim message of the run before it: workerRemoved finds the run by its row."""
    fail = Fail(is_index_row, times=0)
    world = a_world(fail)

    async def story() -> None:
        await races.lapsed(world)
        fail.times = 1
        assert [claim.run_id for claim in await world.claim()] == [1]
        await world.drain(60)

    world.run(story())
    assert _rows(world) == [("claimed", 1)]


async def _two_slow_calls(world: World) -> tuple[ChangePoolRows, ChangePoolRows]:
    """A was interrupted and its retry claimed by claimTask; returns what both have yet to do to the index rows."""
    await running(world)
    now = world.clock.now()
    interrupted = await _commit(
        world, lambda read: transitions.report_exception(read.task, 0, Resolved.WORKER_SHUTDOWN, now, "spare")
    )
    return interrupted, await _claim_run_1(world)


def test_a_row_that_was_left_over_goes_after_the_deadline_of_its_task() -> None:
    """Two calls are so slow that their rows come when the run has been resolved: then nothing else removes the row."""
    world = a_world()

    async def story() -> None:
        interrupted, claimed = await _two_slow_calls(world)
        await world.services.lifecycle.report(A, 1, Resolved.COMPLETED)
        await _follow(world)
        for move in (interrupted, claimed):
            await world.services.stores.pools.change([move], POOL)
        assert _rows(world) == [("claimed", 1)]
        await world.drain(6 * HOUR)

    world.run(story())
    assert _rows(world) == []


def test_a_pending_row_that_was_left_over_goes_though_its_band_gives_no_evidence() -> None:
    """An older message stays visible where nobody polls, so no message of the band seems to be lost."""
    world = a_world()

    async def story() -> None:
        interrupted, _ = await _two_slow_calls(world)
        await world.services.lifecycle.report(A, 1, Resolved.COMPLETED)
        await _follow(world)
        await world.services.stores.messages.put_pending(POOL, "lowest", A, 1, "stale", None)
        await world.services.stores.pools.change([interrupted], POOL)
        await world.drain(2 * HOUR)
        assert _rows(world) == [("pending", 1)]
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
