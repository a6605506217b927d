"""What expires is named in the Expiry table before it is there, wherever its call dies (design 2.2, 3).

A row that no row of that table names would stay for ever, as nothing scans.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from unittest.mock import AsyncMock

import pytest

from shared.auth.clients import rows as client_store
from shared.auth.clients.accounts import ClientRequest
from shared.base.dates import format_date
from shared.base.ids import digest_of
from shared.index.rules import IndexEntry
from shared.queue.pools.directory import Declaration, DirectoryKind
from shared.store import counting, keys
from shared.store.expiring import ExpiryStore
from tests.simulator.expiring import LARGE
from tests.simulator.registry import after
from tests.simulator.running import VICTIM
from tests.simulator.situations import A
from tests.simulator.world import POOL, WORKER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Kill, Killed, Phase, as_process, chain, process_name


async def claim_work(world: World) -> None:
    await world.services.work.claim_work(POOL, WORKER, 1, 0.5)


async def declare_worker(world: World) -> None:
    await world.services.workers.declare(POOL, WORKER, world.clock.now() + timedelta(days=2))


async def declare_task_queue(world: World) -> None:
    await world.services.directory.declare_task_queue(POOL, Declaration(description="a queue"))


async def insert_into_index(world: World) -> None:
    now = world.clock.now()
    entry = IndexEntry(path="a.b.c", task_id=world.slugid(), rank=0, data={}, expires=now + timedelta(days=1), at=now)
    await world.services.index.insert(entry)


async def create_client(world: World) -> None:
    request = ClientRequest.of(
        {
            "description": "",
            "expires": format_date(world.clock.now() + timedelta(days=1)),
            "scopes": [],
            "deleteOnExpiration": True,
        }
    )
    await world.services.clients.create("a/client", request, AsyncMock())


CALLS: list[Callable[[World], Awaitable[None]]] = [
    claim_work,
    declare_worker,
    declare_task_queue,
    insert_into_index,
    create_client,
]


def unnamed(world: World) -> set[str]:
    """Names of what has an expiration, and no row in the Expiry table."""
    named = {row.key for row in world.rows(keys.EXPIRY)}
    wanted = {
        keys.expiring("worker", row.partition, *row.key.split("~")[1:])
        for row in world.rows(keys.POOLS)
        if row.key.startswith(keys.WORKERS[0])
    }
    for kind, name in ((DirectoryKind.TASK_QUEUE, "taskQueueId"), (DirectoryKind.PROVISIONER, "provisionerId")):
        listed = [row for row in world.rows(keys.DIRECTORY, kind) if "expires" in row.values]
        wanted |= {keys.expiring(kind, *str(row.values[name]).split("/")) for row in listed}
    for row in world.rows(keys.INDEX):
        wanted.add(keys.expiring(keys.INDEX_SWEEP, row.partition))
        if row.key.startswith(keys.INDEX_NAMESPACES[0]):
            wanted.add(keys.expiring(keys.INDEX_SWEEP, keys.index_partition(str(row.values["path"]))))
    wanted |= {keys.expiring("client", row.key) for row in world.rows(client_store.TABLE)}
    return wanted - named


def attempt(call: Callable[[World], Awaitable[None]], kill: Kill) -> World:
    world = World(Simulation.scripted([]), kill)
    world.simulation.outcomes(world.victim(call(world)))
    return world


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_what_expires_is_named_before_it_is_there(call: Callable[[World], Awaitable[None]], phase: Phase) -> None:
    unharmed = Kill(process=VICTIM)
    done = attempt(call, unharmed)
    assert done.rows(keys.EXPIRY), "the call makes something that expires"
    assert unnamed(done) == set()
    for number, at in enumerate(unharmed.calls, 1):
        world = attempt(call, Kill(number=number, phase=phase, process=VICTIM))
        assert unnamed(world) == set(), f"killed {phase.value} request {number}: {at}"


def test_what_the_job_died_of_stays_named() -> None:
    """The run after that schedules it for later before it leaves the hour in which it was due."""

    async def dies_of_it(call: Call, phase: Phase) -> None:
        if process_name() == "first" and call.kind is counting.Kind.TABLE_WRITE and call.target == keys.POOLS:
            raise Killed

    def run_twice(second: Kill) -> World:
        world = World(Simulation.scripted([]), chain(dies_of_it, second))
        world.is_ordered = False
        world.run(declare_worker(world))
        world.clock.advance(timedelta(days=3).total_seconds())
        for name in ("first", VICTIM):
            world.simulation.outcomes(as_process(name, world.process().expiration.run(300)))
        return world

    unharmed = Kill(process=VICTIM)
    run_twice(unharmed)
    retried = [number for number, call in enumerate(unharmed.calls, 1) if call.kind is counting.Kind.TABLE_WRITE]
    assert len(retried) >= 3
    for number in retried[:3]:
        assert unnamed(run_twice(Kill(number=number, process=VICTIM))) == set(), f"killed before request {number}"


def test_a_large_definition_is_named_before_it_is_there() -> None:
    """Seen by the order of the requests: to pack it once for each of them takes long."""
    unharmed = Kill(process=VICTIM)
    world = World(Simulation.scripted([]), unharmed)
    world.simulation.outcomes(world.victim(world.create(A, payload=LARGE)))
    (path,) = world.memory.blobs.blobs(keys.DEFINITIONS)
    row = keys.expiring("definition", A, digest_of(path))
    order = [call.target for call in unharmed.calls if row in call.keys or call.subject == path]
    assert order == [keys.EXPIRY, keys.DEFINITIONS]


def test_a_refused_call_leaves_the_row_that_another_call_relies_on() -> None:
    world = World()
    world.is_ordered = False

    async def story() -> None:
        expires, store = after(world, 3600), ExpiryStore(world.account.connect(), world.clock.now)
        scheduled = await store.new_artifact(A, 0, "name", expires)
        assert scheduled is not None
        rows = [row.key for row in world.rows(keys.EXPIRY)]
        await store.new_artifact(A, 0, "name", expires)
        await store.roll_back(scheduled)
        assert [row.key for row in world.rows(keys.EXPIRY)] == rows

    world.run(story())
