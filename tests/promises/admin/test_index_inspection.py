"""`admin index check` and what `admin task check` says of the index: silent when all is well, and each damage found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from shared.index.rules import IndexEntry
from shared.queue.tasks.rules import Resolved
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import Delete, Operation
from tests.promises.simulator.world import World
from tools.admin.account import Records
from tools.admin.index_inspection import IndexRow, inspect_index
from tools.admin.inspection import Finding, inspect_task
from tools.admin.output import Report, unwatched

PATH = "team.v2.app"


def records(world: World) -> Records:
    return Records.of(world.memory.storage, Runtime(now=world.clock.now, sleep=world.clock.sleep))


async def inspected(world: World, report: Report = unwatched) -> dict[str, list[Finding]]:
    rows = [
        IndexRow.of(row.partition, row.key, str(row.values["path"]), str(row.values["expires"]))
        for row in world.rows(keys.INDEX)
    ]
    first = keys.expiring(keys.INDEX_SWEEP, "")

    async def swept() -> AsyncIterator[str]:
        for row in world.rows(keys.EXPIRY):
            if row.key.startswith(first):
                yield row.key.removeprefix(first)

    return await inspect_index(records(world), rows, swept(), report)


def entry(world: World, path: str, days: float = 3) -> IndexEntry:
    now = world.clock.now()
    return IndexEntry(path=path, task_id=world.slugid(), rank=0, data={}, expires=now + timedelta(days=days), at=now)


async def change(world: World, place: tuple[str, str], operation: Operation) -> None:
    await world.memory.storage.tables.transact(keys.INDEX, place[0], [operation])


def test_nothing_is_found_where_all_is_well() -> None:
    world = World()

    async def story() -> None:
        assert await inspected(world) == {}
        for path, days in ((PATH, 3), ("team.v2", 9), ("top", 1), ("team.other.x", 0.1)):
            await world.services.index.insert(entry(world, path, days))
        assert await inspected(world) == {}
        for _ in range(24 * 5):
            await world.clock.sleep(3600)
            await world.handlers.expiration.run(300)
            assert await inspected(world) == {}

    world.run(story())


@pytest.mark.parametrize(("lost", "found"), [("team.v2", {PATH}), ("team", {"team.v2"})])
def test_a_namespace_that_is_lost_is_found_and_listed_again(lost: str, found: set[str]) -> None:
    world = World()

    async def story() -> None:
        await world.services.index.insert(entry(world, PATH))
        parent, _, name = lost.rpartition(".")
        place = (keys.index_partition(parent), keys.index_namespace(name))
        await change(world, place, Delete(place[1]))
        findings = await inspected(world)
        assert set(findings) == found
        for (finding,) in findings.values():
            assert finding.text == f"{lost} is not listed for as long as it is there"
            assert finding.repair is not None
            assert await finding.repair()
        assert await inspected(world) == {}
        listed, _ = await world.services.index.namespaces(parent, "", 10)
        assert [one.path for one in listed] == [lost]

    world.run(story())


async def completed(world: World, path: str) -> str:
    task_id = await world.create(routes=[f"index.{path}"])
    (claim,) = await world.claim()
    await world.services.lifecycle.report(task_id, claim.run_id, Resolved.COMPLETED)
    await world.drain(20 * 60)
    return task_id


def test_a_task_that_is_not_at_its_path_is_found() -> None:
    world = World()

    async def texts(task_id: str) -> list[str]:
        return [finding.text for finding in await inspect_task(records(world), task_id)]

    async def lose() -> None:
        for row in world.rows(keys.INDEX):
            if row.values.get("path") == PATH and row.key.startswith(keys.INDEX_TASKS[0]):
                await change(world, (row.partition, row.key), Delete(row.key))

    async def put(task_id: str, at: datetime) -> None:
        await lose()
        one = entry(world, PATH)
        await world.services.index.insert(
            IndexEntry(path=PATH, task_id=task_id, rank=0, data={}, expires=one.expires, at=at)
        )

    async def story() -> None:
        first = await completed(world, PATH)
        assert await texts(first) == []
        second = await completed(world, PATH)
        assert await texts(first) == await texts(second) == [], "the later one has the path"
        await put(first, world.clock.now() - timedelta(hours=9))
        assert await texts(second) == [f"the index has {first} at {PATH}"]
        await lose()
        assert await texts(second) == [f"the index has nothing at {PATH}"]
        for finding in await inspect_task(records(world), second):
            assert finding.repair is not None
            assert await finding.repair()
        assert (await world.services.index.find(PATH)).task_id == second
        await put(second, world.clock.now())
        await world.services.index.remove_entry(PATH)
        assert await texts(second) == [], "it was deleted"

    world.run(story())
