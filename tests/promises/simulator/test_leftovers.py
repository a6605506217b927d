"""Nothing that expires is left over, wherever the call that made it dies, and wherever the job that deletes it does.

What is written ahead of what will delete it is deleted after it; nothing scans (design 2.2, 3).
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.auth.clients.accounts import CreateClientRequest
from shared.base.dates import format_date
from shared.index.rules import IndexEntry
from shared.queue.artifacts.rules import Upload
from shared.queue.pools.directory import Declaration
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.interface import Upsert
from tests.parts.twin.gate import Killed, as_process
from tests.promises.simulator.artifact_scenarios import CONTENT, NAME, STATED, artifact, place
from tests.promises.simulator.expiring import (
    CLIENT,
    HOUR,
    JOB,
    all_but_a_large_definition,
    everybody,
    everything,
    left,
    scheduled,
)
from tests.promises.simulator.running import Attempt, Harmed
from tests.promises.simulator.scenarios import Scenario
from tests.promises.simulator.situations import GROUP, A, C, nothing
from tests.promises.simulator.world import POOL, WORKER, World, unordered

D, E, F = (f"{letter * 8}Q{letter}C{letter * 10}A" for letter in "fgh")


def _soon(world: World) -> dict[str, str]:
    return {name: format_date(world.clock.now() + timedelta(hours=4)) for name in ("deadline", "expires")}


async def create(world: World) -> None:
    """Creates a task, the first of its group."""
    await world.create(A, taskGroupId=GROUP, **_soon(world))


async def a_group(world: World) -> None:
    """Creates a group of tasks of which one expires before the others."""
    await world.create(C, taskGroupId=GROUP, expires=format_date(world.clock.now() + timedelta(hours=3)))


async def raise_group(world: World) -> None:
    """A task that outlives its group."""
    await create(world)


async def claim(world: World) -> None:
    """Lets a worker call for the first time."""
    await world.services.work.claim_work(POOL, WORKER, 1, 0.5)


async def declare_worker(world: World) -> None:
    await world.services.workers.declare(POOL, WORKER, world.clock.now() + timedelta(days=2))


async def declare_task_queue(world: World) -> None:
    await world.services.directory.declare_task_queue(POOL, Declaration(description="a queue"))


async def insert_into_index(world: World) -> None:
    now = world.clock.now()
    entry = IndexEntry(path="a.b.c", task_id=A, rank=0, data={}, expires=now + timedelta(days=1), at=now)
    await world.services.index.insert(entry)


async def create_client(world: World) -> None:
    expires = world.clock.now() + timedelta(days=1)
    request = CreateClientRequest(description="", expires=format_date(expires), scopes=[], deleteOnExpiration=True)
    await world.services.clients.make_client(CLIENT, request, everybody)


async def expire(world: World) -> None:
    """Runs the job when everything has expired."""
    await world.services.expiration.run(300)


async def all_expired(world: World) -> None:
    """One of everything has expired."""
    await all_but_a_large_definition(world)
    await world.drain(9 * HOUR)


async def died_of_it(world: World) -> None:
    """One of everything has expired, and the job has died of one item."""
    await all_expired(world)
    services = world.process()

    async def die(*_: object) -> None:
        raise Killed

    services.expiration._by_kind = {**services.expiration._by_kind, "worker": die}
    has_died = False
    while not has_died:
        await world.clock.sleep(4 * HOUR)
        try:
            await as_process(JOB, services.expiration.run(300))
        except Killed:
            has_died = True


PATHS: set[str] = set()
"""Paths of the content of uploads, which are the same in every world."""


async def expired_with_an_upload(world: World) -> None:
    """A task has just expired, with an artifact whose content has not come."""
    expires = world.clock.now() + timedelta(hours=2)
    await world.create(A, taskGroupId=GROUP, expires=format_date(expires), deadline=format_date(expires))
    assert await world.claim()
    wanted = artifact(world, "s3", NAME, upload=Upload.DIRECT, **STATED)
    await world.services.artifacts.creation.create_or_find(A, 0, wanted)
    PATHS.add(place(world)[1])
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.drain(5 * HOUR)


SCENARIOS = [
    Scenario(act.__name__, prepare, act, is_idempotent=False)
    for act, prepare in (
        (create, nothing),
        (raise_group, a_group),
        (claim, nothing),
        (declare_worker, nothing),
        (declare_task_queue, nothing),
        (insert_into_index, nothing),
        (create_client, nothing),
        (expire, all_expired),
    )
]
SCENARIOS.append(Scenario("expire what a job died of", died_of_it, expire, is_idempotent=False))
UPLOADS = Scenario("expire uploads", expired_with_an_upload, expire, is_idempotent=False)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_everything_goes_wherever_its_process_dies(scenario: Scenario) -> None:
    Harmed(scenario, _expire_all).die()


def test_content_that_comes_late_goes_wherever_the_process_dies() -> None:
    """Late content, put to a URL that was given out while the task existed, is deleted wherever the process dies."""

    def finish(done: Attempt) -> None:
        blobs, (path,) = done.world.account.connect().blobs, PATHS
        done.world.run(blobs.upload(keys.PUBLIC, path, CONTENT, content_type="text/plain"))
        _expire_all(done)

    Harmed(UPLOADS, finish).die()


async def lasting(world: World) -> None:
    """One of everything exists; and C, which waits for D, E and F, of which E lasts."""
    await everything(world)
    for task_id in (D, E, F):
        await world.create(task_id, taskGroupId=GROUP, **({} if task_id == E else _soon(world)))
    await world.create(C, taskGroupId=GROUP, dependencies=[D, E, F])


def test_what_lasts_stays_however_early_the_job_comes_to_it() -> None:
    """What lasts stays however early the job comes to it: a row of the Expiry table is only a hint."""
    world = unordered()
    world.run(lasting(world))
    tables = world.account.connect().tables
    hour = keys.hour(world.clock.now() - timedelta(hours=3))
    for row in world.rows(keys.EXPIRY):
        world.run(tables.transact(keys.EXPIRY, hour, [Upsert(row.key, dict(row.values))]))
    before = left(world)
    world.run(world.services.expiration.run(300))
    assert left(world) == before


def test_edges_of_tasks_that_last_stay() -> None:
    """The edges of a task that lasts stay, although tasks whose edges surround it go."""
    world = unordered()
    world.run(lasting(world))
    for _ in range(4):
        world.run(world.drain(2 * HOUR))
        world.run(world.services.expiration.run(300))
    edges = {row.key for row in world.rows(keys.GROUPS, GROUP) if row.key.startswith(keys.UNBLOCKS)}
    assert edges == {keys.unblocks(E, C)}


def _expire_all(done: Attempt) -> None:
    """Runs the job for a week."""
    world = done.world
    world.services = world.process()

    async def story() -> None:
        for _ in range(24):
            await world.drain(6 * HOUR)
            for _ in range(6):
                await world.services.expiration.run(300)

    world.run(story())
    assert left(world) == set()
    assert scheduled(world) <= {keys.INDEX_SWEEP}
    assert not world.rows(keys.INDEX)
