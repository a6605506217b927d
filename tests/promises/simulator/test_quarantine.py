"""Quarantines: who waits in vain, for how long, and what is kept of them (contract 8)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.base.errors import ServiceUnavailable
from shared.store import keys
from tests.promises.simulator.registry import ANOTHER, DAY, HOUR, after, expire, poll, quarantine
from tests.promises.simulator.world import POOL, WORKER, World


def test_a_quarantined_worker_waits_in_vain(world: World) -> None:
    async def story() -> None:
        await poll(world)
        task_id = await world.create()
        answered = await quarantine(world, after(world, HOUR))
        assert answered.record.is_quarantined(world.clock.now())
        asked = world.clock.now()
        await poll(world)
        assert world.clock.now() - asked >= timedelta(seconds=0.5), "it must not ask again at once"
        read = await world.services.work.found_for_claim(task_id)
        with pytest.raises(ServiceUnavailable):
            await world.services.work.claim_task(read, 0, WORKER)
        assert await world.services.work.claim_work(POOL, ANOTHER, 1, 1.5), "the task was left to others"

    world.run(story())


def test_a_quarantine_that_a_process_has_not_heard_of_is_noticed_before_a_claim_is_handed_out(world: World) -> None:
    async def story() -> None:
        other = world.process()
        await poll(world, other)
        until = after(world, HOUR)
        await quarantine(world, until)
        task_id = await world.create()
        await world.clock.sleep(11)  # then it looks again which bands the pool uses
        assert await world.claim(1, other) == []
        worker = (await world.services.workers.find_worker(POOL, WORKER)).record
        assert worker.quarantine_until == until
        assert worker.recent_tasks == ()
        assert await other.work.claim_work(POOL, ANOTHER, 1, 1.5), "the run is pending as if nothing had been"
        assert len(world.tasks()[task_id].runs) == 1

    world.run(story())


def test_a_quarantined_worker_is_kept_until_the_quarantine_ends(world: World) -> None:
    async def story() -> None:
        await poll(world)
        await quarantine(world, after(world, 3 * DAY))
        for _ in range(2):
            await world.clock.sleep(1.3 * DAY)
            await poll(world, worker=ANOTHER)
            await expire(world)
            assert len((await world.services.workers.find_worker(POOL, WORKER)).history) == 1
        await world.clock.sleep(0.5 * DAY)
        await expire(world)
        left = [row.key for row in world.rows(keys.POOLS)]
        assert left == [keys.worker(ANOTHER.worker_group, ANOTHER.worker_id)], "the history goes with the worker"

    world.run(story())
