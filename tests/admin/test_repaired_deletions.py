"""What the check repairs happens, also of what has expired: nothing is filed where the expiry job never looks again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.queue.tasks.rules import Resolved
from shared.runtime import Runtime
from shared.store import keys
from shared.store.expiring import ExpiryStore
from shared.store.interface import Delete, StorageUnavailable
from tests.simulator.expiring import HOUR
from tests.simulator.situations import GROUP, A, B
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase
from tools.admin.account import Records
from tools.admin.inspection import inspect_task

NEVER_DELETED = "it would never be deleted"


def open_world() -> World:
    world = World(Simulation.scripted([]))
    world.is_ordered = False
    return world


def records(world: World) -> Records:
    runtime = Runtime(now=world.clock.now, slugid=world.slugid, jitter=lambda: 0.5, sleep=world.clock.sleep)
    return Records.of(world.account.connect(), runtime)


async def an_expired_task(world: World) -> None:
    now = world.clock.now()
    dates = {"deadline": format_date(now + timedelta(hours=1)), "expires": format_date(now + timedelta(hours=2))}
    await world.create(A, retries=0, **dates)
    (claim,) = await world.claim()
    await world.services.lifecycle.report(A, claim.run_id, Resolved.COMPLETED)
    await world.drain(30)


async def pass_hours(world: World, hours: int) -> None:
    for _ in range(hours):
        await world.clock.sleep(HOUR)
        try:
            await world.handlers.expiration.run(300)
        except StorageUnavailable:  # nothing else was due
            continue


@pytest.mark.parametrize("hours", [0, 2, 4, 12])
def test_deletion_that_was_lost_happens_once_it_is_repaired(hours: int) -> None:
    """As of a restored export: the task is there, the row that deletes it is not."""
    world = open_world()

    async def story() -> None:
        await an_expired_task(world)
        for row in world.rows(keys.EXPIRY):
            if row.key.startswith(keys.SWEPT_GROUP):
                await world.account.connect().tables.transact(keys.EXPIRY, row.partition, [Delete(row.key)])
        await pass_hours(world, hours)
        (finding,) = [each for each in await inspect_task(records(world), A) if each.text == NEVER_DELETED]
        assert finding.repair is not None
        assert await finding.repair()
        assert NEVER_DELETED not in [each.text for each in await inspect_task(records(world), A)]
        await pass_hours(world, 5)
        assert not world.rows(keys.TASKS, A)

    world.run(story())


def test_task_that_cannot_be_deleted_is_scheduled_all_the_time() -> None:
    """Its row moves from bucket to bucket, up to a day ahead."""
    world = open_world()
    is_on = True

    async def refuse(call: Call, phase: Phase) -> None:
        if is_on and phase is Phase.BEFORE and call.target == keys.TASKS and keys.TASK_STATUS in call.keys:
            raise StorageUnavailable

    async def story() -> None:
        nonlocal is_on
        is_on = False
        await an_expired_task(world)
        is_on = True
        for _ in range(48):
            await pass_hours(world, 1)
            assert NEVER_DELETED not in [each.text for each in await inspect_task(records(world), A)]

    world = World(Simulation.scripted([]), refuse)
    world.is_ordered = False
    world.run(story())


@pytest.mark.parametrize("kind", ["task", "tasks", "group", "worker", "definition", "client", "artifact", "upload"])
async def test_nothing_is_filed_into_a_bucket_that_is_finished(kind: str) -> None:
    world = open_world()
    store, now = ExpiryStore(world.account.connect(), world.clock.now), world.clock.now()
    past = now - timedelta(days=3)
    await store.finished_before(now.replace(minute=0, second=0, microsecond=0))
    write: dict[str, Callable[[], Awaitable[object]]] = {
        "task": lambda: store.task(A, GROUP, past),
        "tasks": lambda: store.tasks(GROUP, [A], [B]),
        "group": lambda: store.group(GROUP, past),
        "worker": lambda: store.worker("p/w", "g", "w", past),
        "definition": lambda: store.definition(A, "path", past),
        "client": lambda: store.client("c", "c", past),
        "artifact": lambda: store.new_artifact(A, 0, "public/x", past),
        "upload": lambda: store.upload(A, 0, "public/x", past),
    }
    await write[kind]()
    position = await store.position()
    rows = [row for row in world.rows(keys.EXPIRY) if row.key.startswith(kind.removesuffix("s"))]
    assert rows and all(row.partition >= keys.hour(position.hour) for row in rows)
