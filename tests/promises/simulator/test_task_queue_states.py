"""The list of task queues has their workers and how long runs have waited, a minute late at most."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.base.remembered import WORKER_COUNTS
from shared.queue.pools.states import CurrentTaskQueue
from shared.store.counting import counting
from tests.promises.simulator.world import POOL, WORKER, World, unordered


@pytest.fixture
def world() -> World:
    return unordered()


async def state_of(world: World) -> CurrentTaskQueue:
    (state,), _ = await world.services.task_queue_states.state_page(start="", limit=10)
    return state


def test_workers_and_those_in_quarantine_are_counted(world: World) -> None:
    async def story() -> None:
        await world.create()
        counts = (await state_of(world)).workers
        assert (counts.known, counts.quarantined) == (0, 0)
        await world.claim()
        until = world.clock.now() + timedelta(days=2)
        await world.services.workers.quarantine(POOL, WORKER, until, client_id="me", info="broken")
        await world.clock.sleep(WORKER_COUNTS.fresh.total_seconds())
        counts = (await state_of(world)).workers
        assert (counts.known, counts.quarantined) == (1, 1)
        with counting() as operations:
            await state_of(world)
        assert operations.total == 2, "the directory, and the index of the task queue"
        await world.clock.sleep(timedelta(hours=30).total_seconds())
        counts = (await state_of(world)).workers
        assert (counts.known, counts.quarantined) == (1, 1), "it has expired, and its quarantine has not"
        await world.clock.sleep(timedelta(hours=30).total_seconds())
        await world.create()
        counts = (await state_of(world)).workers
        assert (counts.known, counts.quarantined) == (0, 0)

    world.run(story())
