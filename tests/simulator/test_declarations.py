"""Task queues and provisioners as they are declared, also by many at once (contract 8)."""

from __future__ import annotations

import random
from datetime import datetime

from shared.queue.pools.directory import Declaration
from shared.queue.tasks.rules import Worker
from shared.store import keys
from shared.store.counting import Kind
from tests.simulator.registry import DAY, after, poll
from tests.simulator.world import POOL, WORKER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase, chain


def test_declared_expirations_only_move_forward(world: World) -> None:
    async def story() -> None:
        directory, workers = world.services.directory, world.services.workers
        until = after(world, 10 * DAY)
        assert (await workers.declare(POOL, WORKER, until)).record.expires == until
        earlier = Declaration(expires=after(world, DAY), description="some", stability="stable")
        entry = await directory.declare_task_queue(POOL, earlier)
        assert (entry.expires, entry.description, entry.stability) == (until, "some", "stable")
        assert (await workers.declare(POOL, WORKER, after(world, DAY))).record.expires == until
        entry = await directory.declare_task_queue(POOL, Declaration(stability="deprecated"))
        assert (entry.expires, entry.description, entry.stability) == (until, "some", "deprecated")
        assert (await directory.provisioner("provisioner")).expires == until
        await poll(world)
        assert (await directory.task_queue(POOL)).description == "some", "being seen leaves what was declared"

    world.run(story())


def test_a_fleet_that_starts_at_once_is_declared_without_a_refusal() -> None:
    """Fifty workers of a new pool, in four processes, each with its own expiration; each request takes a while."""
    chance = random.Random(1)
    simulation = Simulation.scripted([])

    async def slow(call: Call, phase: Phase) -> None:
        await simulation.clock.sleep(chance.uniform(0.0025, 0.005))

    world = World(simulation, slow)
    world.is_ordered = False
    processes = [world.process() for _ in range(4)]
    writes: list[str] = []

    async def count(call: Call, phase: Phase) -> None:
        if call.target == keys.DIRECTORY and call.kind is Kind.TABLE_WRITE and phase is Phase.BEFORE:
            writes.append(call.subject)

    world.memory.gate = chain(world.memory.gate, count)

    async def declare(number: int) -> datetime:
        await world.clock.sleep(number / 1000)
        until = after(world, DAY + number)
        worker = Worker(worker_group="group", worker_id=f"w{number}")
        known = await processes[number % 4].workers.declare(POOL, worker, until)
        assert known.record.expires == until
        return until

    declared = world.run(*(declare(number) for number in range(50)))
    (entry,) = world.run(world.services.directory.task_queue(POOL))
    assert entry.expires >= max(declared)
    (again,) = world.run(declare(7))
    assert again
    assert len(writes) <= 2 * 2 * 50, "two attempts each, of the pool and its provisioner, on the average"
