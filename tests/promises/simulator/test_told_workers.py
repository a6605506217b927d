"""How workers that wait are told of work, with the repetitions and pauses of their clients (contract 5.1)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from shared.app.services import Services
from shared.queue.claims.polling import BUSY_INTERVAL
from shared.store.counting import Kind
from shared.telemetry.instruments import TOLD
from tests.parts.twin.gate import Call, Phase
from tests.promises.simulator.claimer import WAIT, of_worker
from tests.promises.simulator.clients import KINDS, Client
from tests.promises.simulator.world import POOL, WORKER, World, unordered

REPEATING = ["scriptworker", "generic-worker", "a client that calls at once"]
MOST = {"scriptworker": 0.3, "generic-worker": 0.85, "a client that calls at once": 0.3}


def a_pool(processes: int, *gates: Any) -> tuple[World, list[Services]]:
    """Returns a task queue that has had work, and the processes that workers call."""
    world = unordered(*gates)
    world.run(world.services.stores.pools.queues.ensure_band(POOL, "lowest"))
    return world, [world.process() for _ in range(processes)]


async def create(world: World, services: Sequence[Services], chance: random.Random) -> str:
    """Creates a task by one of the processes."""
    task_id = world.slugid()
    await chance.choice(services).create_task(world.definition(task_id))
    return task_id


@pytest.mark.parametrize("waited", [1.0, 8.3, 19.0])
@pytest.mark.parametrize("processes", [1, 4])
@pytest.mark.parametrize("kind", REPEATING)
def test_a_worker_that_waits_has_the_task_as_soon_as_its_client_repeats_the_call(
    kind: str, processes: int, waited: float
) -> None:
    """A worker that waits has the task as soon as its client repeats the call, in whichever process."""
    world, services = a_pool(processes)
    client = Client(world, KINDS[kind], services)

    async def story() -> None:
        for number in range(6):
            working = asyncio.ensure_future(client.work(number + 1))
            await world.clock.sleep(waited)
            task_id, created = await create(world, services, client.chance), world.clock.elapsed
            await working
            looks = 0 if processes == 1 else BUSY_INTERVAL
            assert client.got[task_id] - created < MOST[kind] + looks
        assert client.answers == ["503", "claims"] * 6

    world.run(story())


@pytest.mark.parametrize(
    ("kind", "processes"),
    [
        ("scriptworker", 4),
        ("generic-worker", 1),
        *(
            pytest.param(kind, processes, marks=pytest.mark.large)
            for kind, processes in [
                ("scriptworker", 1),
                ("generic-worker", 4),
                ("a client that calls at once", 1),
                ("a client that calls at once", 4),
            ]
        ),
    ],
)
def test_of_many_workers_nobody_starves_and_no_task_waits_for_long(kind: str, processes: int) -> None:
    """Of fifty workers that wait for a task a second, nobody starves, and no task waits for long."""
    (world, services), chance = a_pool(processes), random.Random(processes)
    clients = [Client(world, KINDS[kind], services, chance) for _ in range(50)]
    created: dict[str, float] = {}

    async def story() -> None:
        working = [asyncio.ensure_future(client.work(1000)) for client in clients]
        await world.clock.sleep(12)
        for _ in range(300):
            created[await create(world, services, chance)] = world.clock.elapsed
            await world.clock.sleep(chance.uniform(0.5, 1.5))
        await world.clock.sleep(10)
        for each in working:
            each.cancel()
        await asyncio.wait(working)

    world.run(story())
    late = {task_id: at - created[task_id] for client in clients for task_id, at in client.got.items()}
    assert late.keys() == created.keys()
    assert max(late.values()) < 2
    assert sorted(late.values())[len(late) * 95 // 100] < MOST[kind]
    assert all(client.got for client in clients)
    assert max(client.longest for client in clients) <= (1 if processes == 1 else 3)


def test_a_worker_that_came_in_vain_is_told_by_an_empty_answer_five_seconds_after_its_call() -> None:
    """A worker that came in vain is told by an empty answer five seconds after its call: a generic-worker then calls
    again at once, and its client's pauses begin anew."""
    world, services = a_pool(1)
    client = Client(world, KINDS["generic-worker"], services)

    async def story() -> None:
        began = world.clock.elapsed
        first = asyncio.ensure_future(client.call())
        await world.clock.sleep(2)
        await create(world, services, client.chance)
        await world.clock.sleep(0.1)
        assert len(await world.claim()) == 1, "by one that comes while it pauses"
        assert await first == []
        assert abs(world.clock.elapsed - began - 5) < 0.1
        second = asyncio.ensure_future(client.call())
        await world.clock.sleep(2)
        await create(world, services, client.chance)
        assert len(await second) == 1
        assert client.answers == ["503", "empty", "503", "claims"]

    world.run(story())


def test_a_claim_is_made_although_the_wait_of_its_call_is_noted_meanwhile() -> None:
    """A call to another process is given its run even if the worker's row is written, by the note of the call's own
    wait, between the read of that row and the claim."""

    async def be_slow(call: Call, phase: Phase) -> None:
        if phase is Phase.BEFORE and (call.kind is Kind.QUEUE_PUT or of_worker(call)):
            await world.clock.sleep(0.1 if call.kind is Kind.QUEUE_PUT else 0.05)

    world, (there, here) = a_pool(2, be_slow)

    async def story() -> None:
        waits = asyncio.ensure_future(there.work.claim_work(POOL, WORKER, 1, WAIT))
        await world.clock.sleep(2)
        await there.create_task(world.definition())
        assert await waits == []
        assert len(await here.work.claim_work(POOL, WORKER, 1, WAIT)) == 1

    world.run(story())


def test_one_that_came_in_vain_late_is_answered_at_once() -> None:
    world, services = a_pool(1)
    client = Client(world, KINDS["generic-worker"], services)

    async def story() -> None:
        began = world.clock.elapsed
        first = asyncio.ensure_future(client.call())
        await world.clock.sleep(12)
        await create(world, services, client.chance)
        await world.clock.sleep(0.1)
        assert len(await world.claim()) == 1
        assert await first == []
        assert world.clock.elapsed - began < 13.1

    world.run(story())


def test_one_that_came_in_vain_has_its_look_however_slow_storage_is() -> None:
    """A call that came in vain has its look even if storage is so slow that its series is over before."""
    slow: list[float] = []

    async def be_slow(call: Call, phase: Phase) -> None:
        if slow and phase is Phase.BEFORE and call.kind is Kind.QUEUE_GET:
            await world.clock.sleep(slow[0])

    world, services = a_pool(1, be_slow)
    client = Client(world, KINDS["generic-worker"], services)

    async def story() -> None:
        first = asyncio.ensure_future(client.call())
        await world.clock.sleep(12)
        await create(world, services, client.chance)
        await world.clock.sleep(0.1)
        assert len(await world.claim()) == 1
        await create(world, services, client.chance)
        slow.append(3)
        assert len(await first) == 1

    world.run(story())


@pytest.mark.parametrize("processes", [1, 3])
def test_a_client_that_does_not_repeat_is_told_by_empty_answers_once_it_missed_two(processes: int) -> None:
    """A client that does not repeat calls is told by empty answers once it has missed two of 503, in each process by
    itself, with what the worker's row says of calls elsewhere."""
    world, services = a_pool(processes)
    client = Client(world, KINDS["a client that does not repeat"], services)

    async def story() -> None:
        for number in range(12 * processes):
            working = asyncio.ensure_future(client.work(number + 1))
            await world.clock.sleep(13)
            await create(world, services, client.chance)
            await working

    world.run(story())
    answers = [answer for answer in client.answers if answer != "claims"]
    assert answers.count("503") <= 4 * processes
    assert answers[:2] == ["503"] * 2
    assert set(answers[-4:]) == {"empty"}


def test_both_ways_of_telling_are_counted() -> None:
    world, services = a_pool(1)
    client = Client(world, KINDS["a client that does not repeat"], services)

    async def story() -> None:
        for number in range(3):
            working = asyncio.ensure_future(client.work(number + 1))
            await world.clock.sleep(13)
            await create(world, services, client.chance)
            await working

    world.run(story())
    pool = POOL.split("/")
    assert services[0].runtime.meter.values_of(TOLD) == {(*pool, "repeat"): 2, (*pool, "empty"): 1}
