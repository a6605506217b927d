"""A pool is polled for waiting workers less often after half a minute without work (design 4)."""

from __future__ import annotations

import asyncio

import pytest

from shared.queue.claims.polling import BUSY_INTERVAL, IDLE_AFTER
from shared.queue.tasks.rules import Resolved, Worker
from shared.store.counting import Kind
from tests.parts.twin.gate import Call, Phase
from tests.promises.simulator.claimer import WAIT, calls_again, hears_soon
from tests.promises.simulator.world import POOL, WORKER, World, unordered

IDLE = 2.0
"""Seconds between two looks at an idle pool, which is the settings' default."""
LOOK = {Kind.QUEUE_GET, Kind.QUEUE_PEEK}
PERIOD = IDLE_AFTER * 2


class Looks:
    """Counts looks at the pool's queue, and when they were made."""

    def __init__(self) -> None:
        self.world = unordered(self)
        self._at: list[float] = []

    async def __call__(self, call: Call, phase: Phase) -> None:
        if phase is Phase.BEFORE and call.kind in LOOK and "-pending-" in f"-{call.target}":
            self._at.append(self.world.clock.elapsed)

    def between(self, first: float, last: float) -> int:
        """Returns how many looks there were from `first` to `last`, in seconds."""
        return sum(first <= at < last for at in self._at)


async def waits(world: World, seconds: float) -> None:
    """Lets a worker call as clients do for `seconds`, without work."""
    until, worker = world.clock.elapsed + seconds, Worker(worker_group="group", worker_id=world.slugid())
    while world.clock.elapsed < until:
        assert await world.services.work.claim_work(POOL, worker, 1, WAIT) == []
        await world.clock.sleep(0.05)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_pool_without_work_is_looked_at_less_often(workers: int) -> None:
    """A pool without work is looked at less often, also if a single worker calls again and again."""
    looks = Looks()
    world = looks.world

    async def story() -> None:
        await world.create()
        assert len(await calls_again(world, WORKER)) == 1
        began = world.clock.elapsed
        await asyncio.gather(*(waits(world, IDLE_AFTER + PERIOD) for _ in range(workers)))
        calls = workers * PERIOD / WAIT
        busy = looks.between(began, began + IDLE_AFTER)
        idle = looks.between(began + IDLE_AFTER + IDLE, began + IDLE_AFTER + PERIOD)
        assert abs(busy - IDLE_AFTER / BUSY_INTERVAL) <= 1 + calls
        assert abs(idle - (PERIOD - IDLE) / IDLE) <= 1 + calls

    world.run(story())


@pytest.mark.parametrize("works", [5, 45, 70])
def test_a_worker_that_has_just_done_a_task_hears_of_the_next_one_soon(works: float) -> None:
    """A worker that has just done a task hears of the next one soon, however long it has worked."""
    world = unordered()
    mine, other = world.process(idle_poll_interval_seconds=60), world.process()

    async def story() -> None:
        await world.create()
        (claim,) = await calls_again(world, WORKER, services=mine)
        await world.clock.sleep(works)
        await mine.lifecycle.report(claim.task.task_id, 0, Resolved.COMPLETED)
        await hears_soon(world, mine, other)

    world.run(story())
