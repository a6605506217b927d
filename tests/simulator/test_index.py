"""The index on the simulated deployment: filled by tasks that complete, swept when entries expire, budgets."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.domain.dates import format_date
from shared.domain.index import Entry
from shared.domain.task import Resolved
from shared.errors import ResourceNotFound
from shared.services import Services
from shared.storage import keys
from shared.storage.counting import Operations, counting
from tests.simulator.world import World
from tests.twin.driver import Simulation


async def complete(world: World, rank: int = 0, path: str = "demo.v2.app", **changes: Any) -> str:
    """A task with a route of the index that is created, claimed and completed; its resolved message waits."""
    task_id = await world.create(routes=[f"index.{path}"], extra={"index": {"rank": rank}}, **changes)
    (claim,) = await world.claim()
    await world.services.lifecycle.report(task_id, claim.run_id, Resolved.COMPLETED)
    return task_id


def entry(world: World, path: str, rank: int = 0, days: float = 1, task_id: str | None = None) -> Entry:
    now = world.clock.now()
    return Entry(
        path=path, task_id=task_id or world.slugid(), rank=rank, data={}, expires=now + timedelta(days=days), at=now
    )


async def expire_for(world: World, days: int) -> None:
    """Hourly runs of the expiry job."""
    for _ in range(24 * days):
        await world.clock.sleep(3600)
        await world.handlers.expiration.run(300)


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


def test_a_message_that_is_handled_late_does_not_take_the_path_back() -> None:
    world = World()

    async def story() -> None:
        first = await complete(world)
        late = dict(next(body for body, _ in world.messages("resolved")))
        await world.drain(10)
        second = await complete(world)
        await world.drain(10)
        assert (await world.services.index.find("demo.v2.app")).task_id == second
        await world.resolved_due_here(late)
        assert (await world.services.index.find("demo.v2.app")).task_id == second
        assert first != second

    world.run(story())


def test_two_completions_side_by_side_leave_the_higher_rank() -> None:
    for seed in range(60):
        world = World(simulation=Simulation.seeded(seed))
        high, low = entry(world, "a.b", rank=2), entry(world, "a.b", rank=1)
        other = world.process()

        async def inserted(services: Services, one: Entry) -> None:
            await services.index.insert(one)

        world.run(inserted(world.services, low), inserted(other, high))
        (row,) = [row for row in world.rows(keys.INDEX) if row.key.startswith(keys.INDEX_TASKS[0])]
        assert row.values["taskId"] == high.task_id, f"seed {seed}"


def test_expired_entries_and_namespaces_go_and_nothing_else() -> None:
    world = World()

    async def story() -> None:
        await world.services.index.insert(entry(world, "old.a.x", days=0.5))
        await world.services.index.insert(entry(world, "old.y", days=0.5))
        await world.services.index.insert(entry(world, "kept.z", days=20))
        await expire_for(world, 6)
        left = sorted(str(row.values["path"]) for row in world.rows(keys.INDEX))
        assert left == ["kept", "kept.z"]
        sweeps = [row for row in world.rows(keys.EXPIRY) if row.key.startswith(keys.INDEX_SWEEP)]
        assert len(sweeps) == 2, "one for the top, one for what is kept"

    world.run(story())


def test_an_entry_that_is_prolonged_or_comes_back_is_swept_as_well() -> None:
    world = World()

    async def story() -> None:
        await world.services.index.insert(entry(world, "ns.a", days=1))
        await expire_for(world, 2)
        await world.services.index.insert(entry(world, "ns.a", days=3))
        await expire_for(world, 2)
        assert (await world.services.index.find("ns.a")).rank == 0
        await expire_for(world, 6)
        assert world.rows(keys.INDEX) == []

    world.run(story())


def test_another_process_that_knows_the_namespace_does_not_write_into_one_that_is_gone() -> None:
    world = World()

    async def story() -> None:
        other = world.process()
        await other.index.insert(entry(world, "ns.a", days=0.2))
        await expire_for(world, 4)
        assert world.rows(keys.INDEX) == []
        await other.index.insert(entry(world, "ns.b", days=2))
        listed, _ = await world.services.index.namespaces("", "", 10)
        assert [one.path for one in listed] == ["ns"]
        await expire_for(world, 6)
        assert world.rows(keys.INDEX) == []

    world.run(story())


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


def test_a_completion_costs_two_requests_a_route() -> None:
    world = World()

    async def handled(routes: list[str]) -> int:
        task_id = await world.create(routes=routes)
        (claim,) = await world.claim()
        await world.services.lifecycle.report(task_id, claim.run_id, Resolved.COMPLETED)
        await world.clock.sleep(2)
        body = next(body for body, _ in world.messages("resolved") if body["taskId"] == task_id)
        with counting() as operations:
            await world.resolved_due_here(body)
        return operations.total

    async def story() -> None:
        await handled(["index.a.x"])
        plain = await handled([])
        assert await handled(["index.a.x", "index.a.y", "index.a.z"]) <= plain + 6

    world.run(story())


def test_a_page_holds_only_what_is_right_below() -> None:
    world = World()

    async def story() -> None:
        for path in ("abc", "abc.def", "abc.def.x", "abd", "%", "a'(b)"):
            await world.services.index.insert(entry(world, path))
        top, more = await world.services.index.entries("", "", 10)
        assert ([one.path for one in top], more) == (["%", "a'(b)", "abc", "abd"], None)
        names: list[str] = []
        start: str | None = ""
        while start is not None:
            page, start = await world.services.index.entries("", start, 1)
            names += [one.path for one in page]
        assert names == ["%", "a'(b)", "abc", "abd"]

    world.run(story())


async def all_namespaces(world: World, namespace: str, limit: int) -> list[list[str]]:
    """Every page of the namespaces right in one."""
    pages: list[list[str]] = []
    start: str | None = ""
    while start is not None:
        page, start = await world.services.index.namespaces(namespace, start, limit)
        pages.append([one.path for one in page])
    return pages


def test_ten_namespaces_come_in_pages_of_one() -> None:
    world = World()
    names = [f"my-ns-{number}" for number in range(10)]

    async def story() -> None:
        for name in reversed(names):
            await world.services.index.insert(entry(world, f"{name}.one.two"))
        assert await all_namespaces(world, "", 1) == [[name] for name in names]
        assert await all_namespaces(world, "my-ns-3", 10) == [["my-ns-3.one"]]
        assert await all_namespaces(world, "my-ns-3.one", 10) == [[]]

    world.run(story())


def test_what_has_expired_is_in_no_list_and_makes_no_page_without_an_end() -> None:
    world = World()

    async def story() -> None:
        for name in ("abc", "bbc", "cbc", "dbc"):
            await world.services.index.insert(entry(world, f"{name}.x", days=9))
            await world.services.index.insert(entry(world, name, days=0.1 if name == "bbc" else 9))
        await world.services.index.insert(entry(world, "over.x", days=0.1))
        await world.clock.sleep(3 * 24 * 3600)
        assert [name for page in await all_namespaces(world, "", 1) for name in page] == ["abc", "bbc", "cbc", "dbc"]
        found, start = [], ""
        while start is not None:
            page, more = await world.services.index.entries("", start, 1)
            found += [one.path for one in page]
            if more is None:
                break
            start = more
        assert found == ["abc", "cbc", "dbc"]

    world.run(story())


def test_namespaces_are_never_shortened_and_a_losing_call_leaves_them() -> None:
    world = World()

    async def until(namespace: str) -> datetime:
        parent = namespace.rpartition(".")[0]
        page, _ = await world.services.index.namespaces(parent, "", 10)
        (found,) = [one.expires for one in page if one.path == namespace]
        return found

    async def story() -> None:
        index = world.services.index
        await index.insert(entry(world, "ns.deep.a", rank=5, days=3))
        first = await until("ns.deep")
        assert await until("ns") == first + timedelta(days=1)
        await index.insert(entry(world, "ns.deep.b", days=1))
        assert await until("ns.deep") == first, "not shortened"
        assert (await index.insert(entry(world, "ns.deep.a", rank=4, days=30))).rank == 5
        assert await until("ns.deep") == first, "a losing call changes nothing"
        await index.insert(entry(world, "ns.deep.a", rank=6, days=30))
        assert await until("ns.deep") == first + timedelta(days=27)
        await index.remove("ns.deep.a")
        assert await until("ns") == first + timedelta(days=28), "deleting leaves it"

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


@pytest.mark.parametrize("wanted", [{"rank": "7"}, {"data": [1]}, {"expires": None}, {"data": {"x": "y" * 32_000}}])
def test_a_task_that_cannot_be_indexed_is_named_in_the_log(
    wanted: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    world = World()

    async def story() -> None:
        for routes in (["index.a"], ["other.a"]):
            task_id = await world.create(routes=routes, extra={"index": wanted})
            (claim,) = await world.claim()
            await world.services.lifecycle.report(task_id, claim.run_id, Resolved.COMPLETED)
            await world.drain(10)
        assert world.rows(keys.INDEX) == []

    with caplog.at_level("INFO", "taskcluster.index"):
        world.run(story())
    assert [getattr(line, "action", None) for line in caplog.records if line.name == "taskcluster.index"] == [
        "not_indexed"
    ]


def test_a_rerun_that_completes_is_indexed_again() -> None:
    world = World()

    async def story() -> None:
        task_id = await complete(world)
        await world.drain(10)
        other = entry(world, "demo.v2.app")
        await world.services.index.insert(other)
        await world.services.lifecycle.rerun(await world.services.lifecycle.known(task_id))
        (claim,) = await world.claim()
        await world.services.lifecycle.report(task_id, claim.run_id, Resolved.COMPLETED)
        await world.drain(10)
        assert (await world.services.index.find("demo.v2.app")).task_id == task_id

    world.run(story())


def test_dates_beyond_the_calendar_do_no_harm() -> None:
    world = World()

    async def story() -> None:
        last = datetime.fromisoformat("9999-12-31T23:59:59+00:00")
        one = Entry(path="a.b", task_id=world.slugid(), rank=0, data={}, expires=last, at=world.clock.now())
        await world.services.index.insert(one)
        assert format_date((await world.services.index.find("a.b")).expires) == format_date(last)

    world.run(story())


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_many_paths_are_looked_up_page_by_page(limit: int) -> None:
    """In the order asked for, from any position; what has no entry, or is no path, is left out."""
    world = World()

    async def story() -> None:
        paths = [f"a.b.{number}" for number in range(70)]
        asked = [path for number, path in enumerate(paths) if number % 3] + ["not a path", paths[0]]
        there = [path for number, path in enumerate(paths) if number % 2 == 0]
        for path in there:
            await world.services.index.insert(entry(world, path))
        found: list[str] = []
        start: int | None = 0
        while start is not None:
            page = await world.services.index.find_all(asked, start, limit)
            assert len(page.entries) <= limit
            found += [one.path for one in page.entries]
            start = page.resume
        assert found == [path for path in asked if path in there]

    world.run(story())
