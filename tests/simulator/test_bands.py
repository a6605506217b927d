"""In which order claimWork looks at a pool's bands, and how those share who wait for the same pool."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from shared.app.assembly import assemble
from shared.app.services import Services
from shared.base.priority import PRIORITIES
from shared.queue.claims.polling import Starvation
from shared.queue.tasks.effects import PendingContent, SetRowPriority, row_of
from shared.queue.tasks.rules import Worker
from shared.runtime import Runtime
from shared.store import keys
from shared.store.counting import counting
from shared.store.interface import StorageUnavailable
from tests.simulator.claimer import calls_again
from tests.simulator.situations import A
from tests.simulator.world import POOL, WORKER, World, settings
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase

T = TypeVar("T")


def done(world: World, work: Coroutine[Any, Any, T]) -> T:
    (result,) = world.run(work)
    return result


def process(world: World, **changes: object) -> Services:
    """The services of a process with other settings."""
    runtime = Runtime(now=world.clock.now, slugid=world.slugid, jitter=lambda: 0.5, sleep=world.clock.sleep)
    return assemble(settings().model_copy(update=changes), runtime, world.memory.storage, world.topics)


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
    """They want more than one request to the queue takes."""
    world = World()
    world.is_ordered = False

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
        services = process(world, starvation_seconds=600.0)
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


def test_what_starves_is_looked_up_once_in_ten_seconds_and_never_without_the_setting() -> None:
    async def looks(world: World, patience: float) -> list[int]:
        runtime, pools = world.services.runtime, world.services.stores.pools
        starvation = Starvation(pools, runtime, timedelta(seconds=patience))
        counts: list[int] = []
        for _ in range(6):
            with counting() as operations:
                assert list(await starvation.order(POOL, ("high", "low"))) == ["high", "low"]
            counts.append(operations.total)
            await world.clock.sleep(4)
        return counts

    world = World()
    assert done(world, looks(world, 60)) == [1, 0, 0, 1, 0, 0]
    assert done(world, looks(world, 0)) == [0] * 6


def worker(number: int) -> Worker:
    return Worker(worker_group="g", worker_id=f"w{number}")


@pytest.mark.parametrize("seed", range(10))
def test_those_who_wait_share_what_comes(seed: int) -> None:
    world = World(Simulation.seeded(seed))

    async def create_later() -> list[str]:
        await world.clock.sleep(3.3)
        return [await world.create() for _ in range(3)]

    async def wait(number: int) -> list[str]:
        await world.clock.sleep(number / 10)
        return [claim.task.task_id for claim in await calls_again(world, worker(number))]

    ids, *found = world.run(create_later(), *(wait(number) for number in range(4)))
    assert sorted(task_id for each in found for task_id in each) == sorted(ids)
    assert sorted(len(each) for each in found) == [0, 1, 1, 1]


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


def test_trouble_reaches_everybody_who_waits() -> None:
    async def trouble(call: Call, phase: Phase) -> None:
        if phase is Phase.BEFORE and call.target.startswith("pending-"):
            raise StorageUnavailable("on purpose")

    world = World()
    done(world, world.create())
    world.memory.gate = trouble

    async def wait(number: int) -> str:
        try:
            await world.services.work.claim_work(POOL, worker(number), 1, 20)
        except StorageUnavailable as failure:
            return str(failure)
        return "no failure"

    assert world.run(wait(1), wait(2)) == ["on purpose"] * 2


def test_bands_that_come_into_use_are_known_to_other_processes_after_ten_seconds() -> None:
    async def script(world: World) -> None:
        assert await claimed(world, world.handlers) == []
        await world.create(priority="high")
        await world.clock.sleep(timedelta(seconds=10).total_seconds())
        assert len(await claimed(world, world.handlers)) == 1

    world = World()
    done(world, script(world))


def test_a_message_that_comes_to_nothing_costs_nobody_the_next_one() -> None:
    """It may be there before its task is."""
    world = World()

    async def create_slowly() -> str:
        hint_id, task_id = world.slugid(), world.slugid()
        await world.services.stores.pools.queues.ensure_band(POOL, "lowest")
        content = PendingContent(task_queue_id=POOL, task_id=task_id, run_id=0, hint_id=hint_id)
        await world.services.stores.messages.put_pending(content, "lowest", None)
        await world.clock.sleep(5)
        return await world.create()

    async def wait() -> list[str]:
        return [claim.task.task_id for claim in await calls_again(world, WORKER)]

    created, claimed = world.run(create_slowly(), wait())
    assert claimed == [created]


def test_row_that_was_touched_since_it_was_read_keeps_its_band() -> None:
    """The reconciler has read a status that a change of priority has overtaken."""
    world = World(Simulation.scripted([]))
    world.is_ordered = False

    async def story() -> None:
        await world.create(A)
        pools = world.services.stores.pools
        ((read,), _) = await pools.pending(POOL, 10)
        await world.services.lifecycle.change_priority(await world.services.lifecycle.existing(A), "high")
        await pools.set_priority(POOL, read.key, "lowest", read.etag)
        ((row,), _) = await pools.pending(POOL, 10)
        assert row.priority == "high"

    world.run(story())


def test_change_of_priority_that_is_rolled_back_leaves_a_later_one_alone() -> None:
    world = World(Simulation.scripted([]))
    world.is_ordered = False

    async def story() -> None:
        await world.create(A)
        stores, row = world.services.stores, row_of(world.tasks()[A], 0)
        ahead = stores.write_ahead()
        await ahead.ensure([SetRowPriority(task_queue_id=POOL, row=row, priority="high")])
        assert await stores.pools.set_priority(POOL, keys.pending(row), "low")
        await ahead.withdraw()
        ((found,), _) = await stores.pools.pending(POOL, 10)
        assert found.priority == "low"

    world.run(story())
