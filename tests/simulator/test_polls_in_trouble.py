"""Polls for those who wait, while storage is slow or fails, or other processes take the work (contract 5.1)."""

from __future__ import annotations

import asyncio

import pytest

from shared.base.priority import PRIORITIES
from shared.queue.claims.polling import IDLE_AFTER
from shared.queue.claims.telling import Series, Wait
from shared.queue.tasks.messages import PendingMessage
from shared.queue.tasks.rules import Resolved, Worker
from shared.store.counting import Kind
from tests.simulator.claimer import ANOTHER, WAIT, a_world, calls_again
from tests.simulator.world import POOL, WORKER, World
from tests.twin.gate import Call, Phase


def a_worker(world: World) -> Worker:
    return Worker(worker_group="group", worker_id=world.slugid())


async def take(world: World, count: int, seconds: float) -> list[PendingMessage]:
    wait = Wait(Series(began=world.clock.now()))
    return await world.services.work._poller.take(POOL, count, seconds, asyncio.Event(), wait)


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
        while messages := await take(world, 32, 0):
            for message in messages:
                await world.services.stores.messages.remove(message.handle)
        await world.clock.sleep(1200)
        slow.append(True)
        began = world.clock.elapsed
        assert await world.services.work.claim_work(POOL, WORKER, 1, WAIT) == []
        assert world.clock.elapsed - began < WAIT + 9

    world.run(story())
