"""Polls for those who wait, while storage is slow or fails, or other processes take the work (contract 5.1)."""

from __future__ import annotations

import asyncio

import pytest

from shared.base.priority import PRIORITIES
from shared.queue.claims.polling import IDLE_AFTER
from shared.queue.tasks.rules import Resolved, Worker
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.simulator.claimer import ANOTHER, WAIT, a_world, calls_again, hears_soon
from tests.simulator.world import POOL, WORKER, World
from tests.twin.gate import Call, Phase


def a_worker(world: World) -> Worker:
    return Worker(worker_group="group", worker_id=world.slugid())


@pytest.mark.parametrize("idle", [2, 60])
def test_a_waiting_worker_is_told_at_once_of_a_retry_that_its_process_makes_pending(idle: float) -> None:

    async def take_time(call: Call, phase: Phase) -> None:
        if phase is Phase.BEFORE:
            await world.clock.sleep(0.01)

    world = a_world(take_time)
    mine = world.process(idle_poll_interval_seconds=idle)

    async def story() -> None:
        await mine.create_task(world.definition())
        (claim,) = await calls_again(world, WORKER, services=mine)
        quiet = asyncio.ensure_future(calls_again(world, ANOTHER, 120, services=mine))
        await world.clock.sleep(IDLE_AFTER + 11)
        began = world.clock.elapsed
        await mine.lifecycle.report_exception(claim.task.task_id, 0, Resolved.WORKER_SHUTDOWN)
        (again,) = await quiet
        assert again.run_id == 1
        assert world.clock.elapsed - began < 0.5

    world.run(story())


@pytest.mark.parametrize("idle", [2, 60])
@pytest.mark.parametrize("works", [5, 45, 58])
@pytest.mark.parametrize("told", [True, False])
def test_a_worker_that_got_its_task_in_another_process_hears_of_the_next_one_soon(
    works: float, told: bool, idle: float
) -> None:
    world = a_world()
    mine, second, other = (world.process(idle_poll_interval_seconds=idle) for _ in range(3))

    async def story() -> None:
        await other.create_task(world.definition())
        (claim,) = await calls_again(world, WORKER, services=mine)
        await mine.lifecycle.report(claim.task.task_id, 0, Resolved.COMPLETED)
        waiting = asyncio.ensure_future(mine.work.claim_work(POOL, WORKER, 1, 5))
        await world.clock.sleep(2.5)
        if told:
            await other.create_task(world.definition())
        assert await waiting == []
        if not told:
            await other.create_task(world.definition())
        (claim,) = await calls_again(world, WORKER, services=second)
        await world.clock.sleep(works)
        await second.lifecycle.report(claim.task.task_id, 0, Resolved.COMPLETED)
        await hears_soon(world, mine, other)

    world.run(story())


@pytest.mark.parametrize("by_overload", [False, True])
def test_the_last_waiter_is_answered_after_the_request_under_way_and_not_after_all_bands(by_overload: bool) -> None:
    slow: list[float] = []
    looks: list[float] = []

    async def be_slow(call: Call, phase: Phase) -> None:
        if slow and phase is Phase.BEFORE and call.kind is Kind.QUEUE_PEEK:
            looks.append(world.clock.elapsed)
            await world.clock.sleep(slow[0])

    world = a_world(be_slow)

    async def story() -> None:
        for band in PRIORITIES:
            await world.services.stores.pools.queues.ensure_band(POOL, band)
        began = world.clock.elapsed
        mine = [asyncio.ensure_future(world.services.work.claim_work(POOL, a_worker(world), 1, WAIT)) for _ in range(5)]
        await world.clock.sleep(WAIT - 1.5)
        slow.append(3)
        ends = began + WAIT
        if by_overload:
            await world.clock.sleep(1)
            world.services.end_polls()
            ends = world.clock.elapsed
        await asyncio.gather(*mine)
        assert world.clock.elapsed - ends <= slow[0] + 1
        assert sum(at > ends + 0.1 for at in looks) <= 1

    world.run(story())


def test_a_pool_had_work_though_the_look_failed_after_it_had_found_some() -> None:
    failing: list[bool] = []

    async def fail(call: Call, phase: Phase) -> None:
        if failing and phase is Phase.BEFORE and call.kind is Kind.QUEUE_GET and call.target.endswith("-7"):
            failing.clear()
            raise StorageUnavailable("no answer")

    world = a_world(fail)
    mine, other = world.process(idle_poll_interval_seconds=60), world.process()

    async def story() -> None:
        for band in (PRIORITIES[0], PRIORITIES[-1]):
            await world.services.stores.pools.queues.ensure_band(POOL, band)
        for _ in range(4):
            assert await mine.work.claim_work(POOL, WORKER, 1, WAIT) == []
        await other.create_task(world.definition(priority=PRIORITIES[0]))
        failing.append(True)
        (claim,) = await mine.work.claim_work(POOL, WORKER, 2, WAIT)
        assert not failing
        await world.clock.sleep(45)
        await mine.lifecycle.report(claim.task.task_id, 0, Resolved.COMPLETED)
        await hears_soon(world, mine, other)

    world.run(story())


def test_waits_do_not_fail_because_a_message_could_not_be_shown_again() -> None:
    """It becomes visible by itself."""
    slow: list[bool] = []

    async def trouble(call: Call, phase: Phase) -> None:
        if slow and call.target.startswith("pending-"):
            if phase is Phase.BEFORE and call.kind is Kind.QUEUE_GET:
                await world.clock.sleep(1)
            if call.kind is Kind.QUEUE_UPDATE and phase is Phase.BEFORE:
                raise StorageUnavailable("no answer")

    world = a_world(trouble)

    async def story() -> None:
        await world.services.stores.pools.queues.ensure_band(POOL, "lowest")
        waiting = asyncio.ensure_future(world.services.work.claim_work(POOL, ANOTHER, 1, WAIT))
        await world.clock.sleep(2.3)
        slow.append(True)
        await world.process().create_task(world.definition())
        leaving = asyncio.ensure_future(world.services.work.claim_work(POOL, WORKER, 1, 0.5))
        assert await leaving == []
        assert await waiting == []

    world.run(story())


@pytest.mark.parametrize("turns", range(12))
def test_a_cancelled_call_is_cancelled_though_its_message_could_not_be_shown_again(turns: int) -> None:
    slow: list[bool] = []

    async def trouble(call: Call, phase: Phase) -> None:
        if call.target.startswith("pending-"):
            if phase is Phase.AFTER and call.kind is Kind.QUEUE_GET:
                reached.set()
            if slow and call.kind is Kind.QUEUE_UPDATE and phase is Phase.BEFORE:
                raise StorageUnavailable("no answer")

    world = a_world(trouble)
    reached = asyncio.Event()

    async def story() -> None:
        await world.create()
        slow.append(True)
        leaving = asyncio.ensure_future(world.services.work._poller.take(POOL, 1, WAIT, asyncio.Event()))
        await reached.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        if leaving.cancel():
            with pytest.raises(asyncio.CancelledError):
                await leaving

    world.run(story())


def test_a_process_that_makes_a_run_pending_knows_that_its_task_queue_has_work() -> None:
    world = a_world()
    mine, second, other = world.process(idle_poll_interval_seconds=2), world.process(), world.process()

    async def story() -> None:
        until = world.clock.elapsed + IDLE_AFTER + 10
        while world.clock.elapsed < until:
            assert await mine.work.claim_work(POOL, WORKER, 1, WAIT) == []
        await mine.create_task(world.definition())
        assert len(await calls_again(world, ANOTHER, services=second)) == 1
        await world.clock.sleep(5)
        await hears_soon(world, mine, other)

    world.run(story())


@pytest.mark.parametrize("latency", [0.02, 0.2])
def test_a_wait_in_vain_is_answered_in_time_though_many_runs_have_lost_their_messages(latency: float) -> None:
    slow: list[bool] = []

    async def take_time(call: Call, phase: Phase) -> None:
        if slow and phase is Phase.BEFORE:
            await world.clock.sleep(latency)

    world = a_world(take_time)

    async def story() -> None:
        for _ in range(200):
            await world.create()
        poller = world.services.work._poller
        while messages := await poller.take(POOL, 32, 0, asyncio.Event()):
            for message in messages:
                await poller._messages.remove(message.handle)
        await world.clock.sleep(1200)
        slow.append(True)
        began = world.clock.elapsed
        assert await world.services.work.claim_work(POOL, WORKER, 1, WAIT) == []
        assert world.clock.elapsed - began < WAIT + 9

    world.run(story())
