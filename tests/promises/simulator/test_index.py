"""The index on the simulated deployment: filled by tasks that complete, within its budget of requests (contract 18)."""

from __future__ import annotations

import pytest

from shared.app.services import Services
from shared.base.errors import ResourceNotFound
from shared.index.rules import IndexEntry
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.counting import Operations, counting
from tests.parts.twin.driver import Simulation
from tests.promises.simulator.indexing import complete, entry, expire_for
from tests.promises.simulator.world import World


def test_a_task_that_completes_is_found_by_its_route() -> None:
    world = World()

    async def story() -> None:
        task_id = await complete(world, rank=3)
        with pytest.raises(ResourceNotFound):
            await world.services.index.find("demo.v2.app")
        await world.drain(10)
        found = await world.services.index.find("demo.v2.app")
        assert (found.task_id, found.rank) == (task_id, 3)
        namespaces, _ = await world.services.index.namespaces("", "", 10)
        assert [one.path for one in namespaces] == ["demo"]

    world.run(story())


@pytest.mark.parametrize("resolution", [Resolved.FAILED, Resolved.MALFORMED_PAYLOAD])
def test_a_task_that_ends_otherwise_is_not_indexed(resolution: Resolved) -> None:
    world = World()

    async def story() -> None:
        task_id = await world.create(routes=["index.demo.app"])
        (claim,) = await world.claim()
        report = world.services.lifecycle.report if resolution is Resolved.FAILED else None
        if report is not None:
            await report(task_id, claim.run_id, resolution)
        else:
            await world.services.lifecycle.report_exception(task_id, claim.run_id, resolution)
        await world.drain(10)
        assert world.rows(keys.INDEX) == []

    world.run(story())


def test_two_completions_side_by_side_leave_the_higher_rank() -> None:
    for seed in range(60):
        world = World(simulation=Simulation.seeded(seed))
        high, low = entry(world, "a.b", rank=2), entry(world, "a.b", rank=1)
        other = world.process()

        async def inserted(services: Services, one: IndexEntry) -> None:
            await services.index.insert(one)

        world.run(inserted(world.services, low), inserted(other, high))
        (row,) = [row for row in world.rows(keys.INDEX) if row.key.startswith(keys.INDEX_TASKS[0])]
        assert row.values["taskId"] == high.task_id, f"seed {seed}"


def test_budgets() -> None:
    world = World()

    async def counted(path: str) -> Operations:
        with counting() as operations:
            await world.services.index.insert(entry(world, path))
        return operations

    async def story() -> None:
        first = await counted("a.b.c")
        assert first.total <= 9, "an entry, two namespaces with their sweeps, that of the top"
        again = await counted("a.b.d")
        assert again.total == 2, "a read and a write once the namespaces are known"
        assert (await counted("a.b.c")).total == 2

    world.run(story())


def test_a_task_is_indexed_by_those_of_its_routes_that_are_paths() -> None:
    world = World()
    routes = [
        "index.my-ns",
        "index.my-ns.my-task",
        "index.my-ns.one/two",
        "index.a b",
        "index",
        "index.",
        "other.my-ns",
    ]

    async def story() -> None:
        task_id = await world.create(routes=routes, extra={"index": {"rank": 42, "data": {"hello": "world"}}})
        (claim,) = await world.claim()
        await world.services.lifecycle.report(task_id, claim.run_id, Resolved.COMPLETED)
        await world.drain(10)
        entries = {str(row.values["path"]) for row in world.rows(keys.INDEX) if "taskId" in row.values}
        assert entries == {"my-ns", "my-ns.my-task"}, "one path is an entry and a namespace"
        found = await world.services.index.find("my-ns.my-task")
        assert (found.task_id, found.rank, found.data) == (task_id, 42, {"hello": "world"})

    world.run(story())


PATH = "demo.v2.app"


async def is_found(world: World) -> str | None:
    try:
        return (await world.services.index.find(PATH)).task_id
    except ResourceNotFound:
        return None


@pytest.mark.parametrize("between", ["nothing", "another entry", "another entry, expired", "another deletion"])
def test_a_deleted_entry_stays_deleted_however_often_its_task_s_completion_is_handled(between: str) -> None:
    world = World()

    async def story() -> None:
        task_id = await complete(world, rank=7)
        await world.drain(60)
        index = world.services.index
        other: str | None = None
        if between == "another entry, expired":
            await index.insert(entry(world, PATH, rank=9, days=0.01, task_id="other"))
            await world.clock.sleep(900)
        await index.remove_entry(PATH)
        if between == "another entry":
            other = (await index.insert(entry(world, PATH, task_id="other"))).task_id
        elif between == "another deletion":
            await index.insert(entry(world, PATH))
            await index.remove_entry(PATH)
        assert await is_found(world) == other
        await expire_for(world, 1)
        for _ in range(2):  # the worker reports once more
            await world.services.lifecycle.report(task_id, 0, Resolved.COMPLETED)
            await world.drain(60)
            entries, _ = await index.entries("demo.v2", "", 10)
            assert await is_found(world) in (other, None)
            assert task_id not in {each.task_id for each in entries}

    world.run(story())
