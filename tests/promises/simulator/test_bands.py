"""The order in which claimWork looks at a pool's bands, and how those share who wait for the same pool."""

from __future__ import annotations

import asyncio

import pytest

from shared.app.services import Services
from shared.base.priority import PRIORITIES
from shared.queue.tasks.effects import SetRowPriority, row_of
from shared.queue.tasks.rules import Worker
from shared.store import keys
from tests.promises.simulator.running import done
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import POOL, WORKER, World, unordered


async def claimed(world: World, services: Services, count: int = 1) -> list[str]:
    return [claim.task.task_id for claim in await world.claim(count, services)]


def test_strictly_by_priority_and_within_one_the_first_first() -> None:
    async def script(world: World) -> None:
        ids = {band: [await world.create(priority=band) for _ in range(2)] for band in reversed(PRIORITIES)}
        await world.clock.sleep(3600)
        order = [(await claimed(world, world.services))[0] for _ in range(14)]
        assert order == [task_id for band in PRIORITIES for task_id in ids[band]]

    world = World()
    done(world, script(world))


@pytest.mark.parametrize("wait", [0, 20])
def test_many_who_call_at_once_get_nothing_of_a_band_before_all_of_the_one_above(wait: float) -> None:
    """Many who call at once get nothing of a band before all of the one above, which takes two requests."""
    world = unordered()

    async def script() -> None:
        above = [await world.create(priority="high") for _ in range(33)]
        await world.create(priority="low")
        counts = (32, 1)
        calls = [world.services.work.claim_work(POOL, worker(n), count, wait) for n, count in enumerate(counts)]
        claimed = [claim.task.task_id for claims in await asyncio.gather(*calls) for claim in claims]
        assert sorted(claimed) == sorted(above)

    done(world, script())


def test_a_band_that_starves_goes_first_where_the_setting_says_so() -> None:
    async def script(world: World) -> None:
        services = world.process(starvation_seconds=600.0)
        starving = await world.create(priority="low")
        await world.clock.sleep(60)
        waiting = await world.create(priority="lowest")
        fresh = [await world.create(priority="high") for _ in range(4)]
        await world.clock.sleep(30)
        assert await claimed(world, services) == [fresh[0]], "no task has waited for long"
        await world.clock.sleep(520)
        assert await claimed(world, services) == [starving]
        await world.clock.sleep(11)
        assert await claimed(world, services) == [fresh[1]], "the lowest has not waited for long enough"
        await world.clock.sleep(60)
        assert await claimed(world, services) == [waiting]
        assert await claimed(world, services) == [fresh[2]]

    world = World()
    done(world, script(world))


def worker(number: int) -> Worker:
    return Worker(worker_group="g", worker_id=f"w{number}")


def test_a_task_of_this_process_reaches_who_waits_at_once() -> None:
    world = World()

    async def create_later() -> None:
        await world.clock.sleep(40.5)  # the pool is looked at every 2 s by now
        await world.create()
        await world.clock.sleep(0.1)

    async def wait() -> float:
        start = world.clock.now()
        while not await world.services.work.claim_work(POOL, WORKER, 1, 20):
            pass
        return (world.clock.now() - start).total_seconds()

    _, seconds = world.run(create_later(), wait())
    assert seconds is not None and 40.5 <= seconds < 40.7


def test_change_of_priority_that_is_rolled_back_leaves_a_later_one_alone() -> None:
    world = unordered()

    async def story() -> None:
        await world.create(A)
        stores, row = world.services.stores, row_of(world.tasks()[A], 0)
        ahead = stores.write_ahead()
        await ahead.ensure([SetRowPriority(row=row, priority="high")])
        assert await stores.pools.set_priority(POOL, keys.pending(row), "low")
        await ahead.withdraw()
        ((found,), _) = await stores.pools.runs(POOL, 10)
        assert found.priority == "low"

    world.run(story())
