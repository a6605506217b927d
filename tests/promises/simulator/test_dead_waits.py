"""Clients that hang up while they wait for work: the service is not told (docs/functions-host.md, contract 5.1).

Such a wait goes on, and nobody receives what it is given. So it is given nothing.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from shared.app.services import Services
from shared.queue.claims.polling import CALLS_AGAIN
from shared.queue.claims.work import Claim
from shared.queue.tasks.rules import State, Worker
from tests.promises.simulator.claimer import WAIT
from tests.promises.simulator.clients import KINDS, Client
from tests.promises.simulator.world import POOL, World, unordered


def a_worker(world: World) -> Worker:
    return Worker(worker_group="group", worker_id=world.slugid())


def hang_up(world: World, *processes: Services) -> list[asyncio.Task[list[Claim]]]:
    """Lets a new worker begin to wait in each of these processes, and never call again."""
    return [asyncio.ensure_future(each.work.claim_work(POOL, a_worker(world), 1, WAIT)) for each in processes]


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_no_task_is_lost_to_clients_that_hung_up(seed: int, processes: int) -> None:
    """No task is lost to clients that hung up, whatever the order and length of waits."""
    world, chance = unordered(), random.Random(seed)
    services = [world.process() for _ in range(processes)]

    async def story() -> None:
        for _ in range(8):
            dead = [chance.choice(services) for _ in range(chance.choice((1, 2, 6)))]
            tasks, is_first, kind = chance.choice((1, 3)), chance.random() < 0.5, chance.choice(list(KINDS.values()))
            where = [chance.choice(services)] if chance.random() < 0.5 else services
            waits: list[asyncio.Task[list[Claim]]] = []
            if not is_first:
                waits += hang_up(world, *dead)
                await world.clock.sleep(chance.uniform(0, 10))
            working = asyncio.ensure_future(Client(world, kind, where, chance).work(tasks))
            await world.clock.sleep(chance.uniform(0.01, 10))
            if is_first:
                waits += hang_up(world, *dead)
            await world.clock.sleep(chance.uniform(0.01, 10))
            for _ in range(tasks):
                await chance.choice(services).create_task(world.definition())
                await world.clock.sleep(chance.uniform(0, 2))
            await working
            assert not any(await asyncio.gather(*waits))

    world.run(story())
    assert all(len(task.runs) == 1 and task.state is State.RUNNING for task in world.tasks().values())


def test_as_many_are_told_as_there_are_tasks_and_more_only_where_nobody_calls() -> None:
    """As many workers are told as there are tasks, and more only if nobody calls: otherwise one task would have all
    workers of a large pool call at once."""
    world = unordered()

    def waiting() -> int:
        return world.services.waiting_workers.of_task_queue(POOL)["claimWork"]

    async def story() -> None:
        waits = hang_up(world, *[world.services] * 15)
        await world.clock.sleep(1)
        await world.create()
        await world.clock.sleep(CALLS_AGAIN / 2)
        assert waiting() == 14
        await world.create()
        await world.clock.sleep(CALLS_AGAIN / 4)
        assert waiting() == 13
        await world.clock.sleep(CALLS_AGAIN + 0.3)
        assert waiting() == 13 - 2 * 2
        assert len(await world.claim(2)) == 2
        await world.clock.sleep(3 * CALLS_AGAIN)
        assert waiting() == 9, "somebody came"
        assert not any(await asyncio.gather(*waits))

    world.run(story())
