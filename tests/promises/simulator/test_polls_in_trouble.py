"""Polls for those who wait, while storage is slow or fails, or other processes take the work (contract 5.1)."""

from __future__ import annotations

import asyncio

import pytest

from shared.queue.claims.polling import IDLE_AFTER
from shared.queue.claims.telling import Series, Wait
from shared.queue.tasks.messages import PendingMessage
from shared.queue.tasks.rules import Resolved
from tests.parts.twin.gate import Call, Phase
from tests.promises.simulator.claimer import ANOTHER, calls_again
from tests.promises.simulator.world import POOL, WORKER, World, unordered


async def take(world: World, count: int, seconds: float) -> list[PendingMessage]:
    wait = Wait(Series(began=world.clock.now()))
    return await world.services.work._poller.take(POOL, count, seconds, asyncio.Event(), wait)


@pytest.mark.parametrize("idle", [2, 60])
def test_a_waiting_worker_is_told_at_once_of_a_retry_that_its_process_makes_pending(idle: float) -> None:

    async def take_time(call: Call, phase: Phase) -> None:
        if phase is Phase.BEFORE:
            await world.clock.sleep(0.01)

    world = unordered(take_time)
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
