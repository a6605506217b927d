"""Clients that hang up while they wait for work: the service is not told (docs/functions-host.md, contract 5.1).

Such a wait goes on, and nobody receives what it is given.
"""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest

from shared.domain.claims import Worker
from shared.domain.task import State
from shared.usecases.polling import FRESH
from shared.usecases.work import Claim
from tests.simulator import invariants
from tests.simulator.claimer import ANOTHER, WAIT, a_world
from tests.simulator.running import finish
from tests.simulator.world import POOL, WORKER, World

SOON = 2.5
"""Seconds until a pool that is not busy is looked at."""


def dead(number: int) -> Worker:
    return Worker(worker_group="dead", worker_id=f"w{number}")


async def hang_up(world: World, count: int) -> list[asyncio.Task[list[Claim]]]:
    """So many workers begin to wait, and never call again."""
    waits = []
    for _ in range(count):
        worker = Worker(worker_group="dead", worker_id=world.slugid())
        waits.append(asyncio.create_task(world.services.work.claim_work(POOL, worker, 1, WAIT)))
        await world.clock.sleep(0.05)
    return waits


async def live(world: World, count: int) -> list[str]:
    """A worker that calls again and again, until it has had so many tasks."""
    had: list[str] = []
    while len(had) < count:
        had += [claim.task.task_id for claim in await world.services.work.claim_work(POOL, WORKER, 1, WAIT)]
        await world.clock.sleep(0.05)
    return had


def test_work_goes_to_whom_came_last() -> None:
    world = a_world()

    async def story() -> None:
        first = asyncio.ensure_future(world.services.work.claim_work(POOL, WORKER, 1, WAIT))
        await world.clock.sleep(1)
        second = asyncio.ensure_future(world.services.work.claim_work(POOL, ANOTHER, 1, WAIT))
        await world.clock.sleep(1)
        task_id = await world.create()
        assert [claim.task.task_id for claim in await second] == [task_id]
        assert not first.done()
        another = await world.create()
        assert [claim.task.task_id for claim in await first] == [another]

    world.run(story())


def test_a_worker_that_got_less_than_it_asked_for_is_answered_though_another_came_later() -> None:
    """It came first, has a task of a high band, and the later one takes the rest."""
    world = a_world()

    async def story() -> None:
        await world.create()
        waits = [
            asyncio.ensure_future(world.services.work.claim_work(POOL, worker, 3, WAIT)) for worker in (WORKER, ANOTHER)
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        (task,) = world.tasks().values()
        assert task.state is State.RUNNING
        await world.create()
        answers = await asyncio.gather(*waits)
        assert sorted(len(answer) for answer in answers) == [1, 1]

    world.run(story())


@pytest.mark.parametrize(("older", "count"), [(0, 1), (0, 6), (4, 1), (2, 6)])
def test_nothing_is_lost_to_clients_that_hung_up_while_a_worker_waits(older: int, count: int) -> None:
    """Once those that came before the worker have been asked to call again, and then the worker itself."""
    world = a_world()

    async def story() -> None:
        waits = await hang_up(world, older)
        working = asyncio.ensure_future(live(world, count))
        await world.clock.sleep(1)
        waits += await hang_up(world, count)
        await world.clock.sleep(FRESH + SOON * (older + 1))
        for _ in range(count):
            await world.create()
            await world.clock.sleep(0.1)
        assert len(await working) == count
        assert not any(await asyncio.gather(*waits))

    world.run(story())
    assert all(len(task.runs) == 1 for task in world.tasks().values())


@pytest.mark.parametrize("seed", range(3))
def test_workers_that_take_turns_leave_little_to_one_that_hung_up(seed: int) -> None:
    """Of tasks at any time within a wait, only those are lost that come before a live worker called again."""
    world, chance = a_world(), random.Random(seed)
    lost: list[float] = []

    async def story() -> None:
        for number in range(12):
            working = asyncio.ensure_future(live(world, 1))
            await world.clock.sleep(chance.uniform(0, 3))
            hung_up = asyncio.ensure_future(world.services.work.claim_work(POOL, dead(number), 1, WAIT))
            after = chance.uniform(0.1, 15)
            await world.clock.sleep(after)
            await world.create()
            if await hung_up:
                lost.append(after)
                await world.create()
            await working

    world.run(story())
    assert all(after < FRESH + SOON for after in lost), lost


def test_idle_workers_are_not_asked_more_often_than_one_of_them_calls_anyway() -> None:
    """What it costs that somebody has called lately: a call in FRESH seconds, however many wait."""
    world = a_world()
    calls = 0

    async def idle(number: int) -> None:
        nonlocal calls
        await world.clock.sleep(number * 1.7)
        while world.clock.elapsed < 100:
            calls += 1
            await world.services.work.claim_work(POOL, dead(number), 1, WAIT)

    world.run(*(idle(number) for number in range(3)))
    assert calls <= 3 + 120 / FRESH


def test_a_worker_with_room_for_more_keeps_the_run_that_it_has_not_renewed() -> None:
    """Its next call does not say that it has not received the claim: it has room for two, and renews only later."""
    world = a_world()

    async def story() -> None:
        first = await world.create()
        (claim,) = await world.services.work.claim_work(POOL, WORKER, 1, WAIT)
        assert claim.task.task_id == first
        again = asyncio.ensure_future(world.services.work.claim_work(POOL, WORKER, 1, WAIT))
        other = asyncio.ensure_future(world.services.work.claim_work(POOL, ANOTHER, 1, WAIT))
        await world.clock.sleep(3)
        assert world.tasks()[first].state is State.RUNNING
        second, third = await world.create(), await world.create()
        claimed = {claim.task.task_id for claims in (await again, await other) for claim in claims}
        assert claimed == {second, third}
        reclaimed = await world.services.work.reclaim_task(first, 0)
        assert reclaimed.taken_until > claim.taken_until - timedelta(seconds=1)
        assert [len(task.runs) for task in world.tasks().values()] == [1, 1, 1]

    world.run(story())
    invariants.check(world)
    finish(world, is_acknowledged=False)
