"""Workers that wait are counted, whichever way they wait (docs/observability.md)."""

from __future__ import annotations

import asyncio

from shared.queue.claims.poll_urls import LIFE
from shared.queue.tasks.rules import Worker
from shared.telemetry.instruments import WAITING_WORKERS
from tests.promises.simulator.world import POOL, World

WAITS = (*POOL.split("/"), "claimWork")
POLLS = (*POOL.split("/"), "pollTaskUrls")


def reported(world: World) -> dict[tuple[str, ...], float]:
    world.services.waiting_workers.report()
    return world.services.runtime.meter.values_of(WAITING_WORKERS)


def test_workers_that_wait_in_a_call_count_until_it_ends() -> None:
    world = World()

    async def script() -> None:
        workers = [Worker(worker_group="g", worker_id=f"w{number}") for number in range(3)]
        waits = [asyncio.ensure_future(world.services.work.claim_work(POOL, worker, 1, 20)) for worker in workers]
        await world.clock.sleep(1)
        assert reported(world) == {WAITS: 3}
        await world.create()
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        assert reported(world) == {WAITS: 2}, "one was told to call again"
        assert world.services.waiting_workers.of_task_queue(POOL) == {"claimWork": 2, "pollTaskUrls": 0}
        assert world.services.waiting_workers.of_task_queue("p/other") == {"claimWork": 0, "pollTaskUrls": 0}
        await asyncio.wait(waits)
        assert reported(world) == {WAITS: 0}, "exporters hear that there are none any more"
        assert reported(world) == {}

    world.run(script())


def test_sets_of_urls_count_until_they_expire() -> None:
    world = World()
    life = LIFE

    async def script() -> None:
        for _ in range(2):
            await world.services.poll_urls.of_pool(POOL)
        world.clock.advance(life.total_seconds() - 60)
        await world.services.poll_urls.of_pool(POOL)
        assert reported(world) == {POLLS: 3}
        world.clock.advance(60)
        assert reported(world) == {POLLS: 1}
        world.clock.advance(life.total_seconds())
        assert reported(world) == {POLLS: 0}
        assert reported(world) == {}

    world.run(script())
