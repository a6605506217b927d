"""Days of expiry, compressed, under load and faults: what should be gone is gone, and nothing else."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from shared.base.dates import format_date
from shared.base.errors import ApiError
from shared.queue.tasks.rules import Resolved
from shared.store.interface import StorageUnavailable
from tests.simulator.deletions import members
from tests.simulator.expiring import DAY, HOUR, JOB, expire, left, scheduled
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase, RandomFaults, as_process, process_name

HOURS = 60
PER_HOUR = 5


class Load:
    """Creates and finishes tasks, whose ids and groups it uses again and again."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._ids = [world.slugid() for _ in range(PER_HOUR * 8)]
        self._groups = [world.slugid() for _ in range(6)]
        self.expires: dict[str, datetime] = {}
        self.payloads: dict[str, str] = {}

    async def an_hour(self) -> None:
        """Some tasks, one after the other; each is claimed and reported."""
        world, chance = self._world, self._chance
        for _ in range(PER_HOUR):
            await world.clock.sleep(chance.uniform(0, 300))
            task_id, now = chance.choice(self._ids), world.clock.now()
            expires = now + timedelta(hours=chance.uniform(1, 12))
            payload = world.slugid()
            wanted = {
                "taskGroupId": chance.choice(self._groups),
                "deadline": format_date(now + timedelta(minutes=50)),
                "expires": format_date(expires),
                "payload": {"which": payload},
            }
            try:
                await world.create(task_id, **wanted)
            except (ApiError, StorageUnavailable):
                continue  # its id is in use
            self.expires[task_id], self.payloads[task_id] = expires, payload
            for claim in await world.claim():
                await world.services.lifecycle.report(claim.task.task_id, claim.run_id, Resolved.COMPLETED)


async def check(world: World, load: Load) -> None:
    """What was acknowledged and has not expired is there, as another process sees it, in its group."""
    tasks, other = world.tasks(), world.process()
    for task_id, expires in load.expires.items():
        if expires <= world.clock.now():
            continue
        assert task_id in tasks, "a task that has not expired is gone"
        assert task_id in members(world, tasks[task_id].task_group_id)
        for services in (world.services, other):
            loaded = await services.stores.tasks.load(task_id)
            assert loaded is not None
            assert loaded.definition.body["payload"]["which"] == load.payloads[task_id]


@pytest.mark.large
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
def test_days_of_expiry_under_load_and_faults(seed: int) -> None:
    """The job fails, loses answers and sends requests again all the time."""
    chance = random.Random(seed)
    faults = RandomFaults(chance, refused=0.03, lost=0.02, resent=0.05)

    async def of_the_job(call: Call, phase: Phase) -> None:
        if process_name() == JOB:
            await faults(call, phase)

    world = World(Simulation.seeded(seed, yield_after=True), of_the_job)
    load = Load(world, chance)

    async def job() -> None:
        for _ in range(6):
            with suppress(StorageUnavailable):  # the next run goes on
                await as_process(JOB, world.handlers.expiration.run(60))
            await world.clock.sleep(600)

    for _ in range(HOURS):
        world.run(load.an_hour(), job())
        world.run(world.drain(30))
        world.run(check(world, load))
    world.is_ordered = False
    assert len(load.payloads) > PER_HOUR * 4, "too little was created"
    world.run(world.drain(3 * HOUR))
    world.run(world.clean_up())
    faults.refused = faults.lost = faults.resent = 0
    world.run(world.clock.sleep(DAY))
    world.run(expire(world, 24 * 4))
    assert left(world) == set()
    assert scheduled(world) == set()
