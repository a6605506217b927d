"""`admin index fill`: tasks that completed before the index existed are entered, once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from shared.base.errors import ResourceNotFound
from shared.queue.tasks.rules import Resolved
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import Delete
from tests.simulator.world import World
from tools.admin import index_fill
from tools.admin.account import Records


async def ended(world: World, routes: list[str], resolution: Resolved = Resolved.COMPLETED, **changes: Any) -> str:
    """A task that has ended, and everything that follows from it; the index is as it was before."""
    task_id = await world.create(routes=routes, **changes)
    (claim,) = await world.claim()
    await world.services.lifecycle.report(task_id, claim.run_id, resolution)
    await world.drain(10)
    await forget(world)
    return task_id


async def forget(world: World) -> None:
    """The index as it was before there was one."""
    for row in world.rows(keys.INDEX):
        if row.key.startswith(keys.INDEX_TASKS[0]):
            await world.memory.storage.tables.transact(keys.INDEX, row.partition, [Delete(row.key)])


async def fill(world: World, task_ids: Sequence[str], since: datetime | None = None) -> index_fill.Filled:
    records = Records.of(world.memory.storage, Runtime(now=world.clock.now, sleep=world.clock.sleep))

    async def ids() -> AsyncIterator[str]:
        for task_id in task_ids:
            yield task_id

    return await index_fill.fill(records, ids(), since, lambda done: None)


async def named(world: World, path: str) -> str | None:
    try:
        return (await world.services.index.find(path)).task_id
    except ResourceNotFound:
        return None


def test_completed_tasks_are_entered_and_a_repeat_changes_nothing() -> None:
    world = World()

    async def story() -> None:
        first = await ended(world, ["index.a.b", "other"])
        second = await ended(world, ["index.a.b", "index.a.c"])
        higher = await ended(world, ["index.a.c"], extra={"index": {"rank": 5}})
        failed = await ended(world, ["index.a.failed"], Resolved.FAILED)
        plain = await ended(world, [])
        waiting = await world.create(routes=["index.a.waiting"])
        everything = [second, failed, higher, plain, waiting, first, world.slugid()]
        found = []
        for _ in range(2):
            done = await fill(world, everything)
            assert (done.tasks, done.indexed) == (7, 3)
            found.append([(row.partition, row.key, dict(row.values)) for row in world.rows(keys.INDEX)])
        assert found[0] == found[1]
        paths = {path: await named(world, path) for path in ("a.b", "a.c", "a.failed", "a.waiting")}
        assert paths == {"a.b": second, "a.c": higher, "a.failed": None, "a.waiting": None}

    world.run(story())


def test_a_rerun_that_failed_leaves_the_path_to_the_run_that_completed() -> None:
    world = World()

    async def story() -> None:
        task_id = await ended(world, ["index.a"])
        await world.services.lifecycle.rerun(await world.services.lifecycle.existing(task_id))
        (claim,) = await world.claim()
        await world.services.lifecycle.report(task_id, claim.run_id, Resolved.FAILED)
        await world.drain(10)
        await fill(world, [task_id])
        assert await named(world, "a") == task_id

    world.run(story())
