"""Workers, task queues and provisioners over days: seen, listed, gone (contract 8)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.base.errors import InputError, ResourceNotFound
from shared.queue.pools.directory import Declaration
from shared.queue.pools.worker_rows import WorkerStore
from shared.queue.tasks.rules import Resolved
from shared.runtime import Runtime
from shared.store import keys
from shared.store.counting import counting
from shared.store.partitions import delete_unchanged
from tests.simulator.registry import DAY, HOUR, MINUTE, after, expire, listed, poll
from tests.simulator.world import POOL, WORKER, World


def test_claim_work_notes_the_worker_its_queue_and_its_provisioner(world: World) -> None:
    async def story() -> None:
        await world.create()
        assert await listed(world) == []
        await world.claim()
        entry = await world.services.directory.task_queue(POOL)
        assert (entry.stability, entry.description) == ("experimental", "")
        assert entry.last_active <= world.clock.now() and entry.expires == entry.last_active + timedelta(days=1)
        provisioner = await world.services.directory.provisioner("provisioner")
        assert provisioner.expires == entry.expires
        worker = (await world.services.workers.get(POOL, WORKER)).record
        assert len(worker.recent_tasks) == 1
        assert worker.expires >= worker.first_claim + timedelta(days=1)

    world.run(story())


def test_a_queue_is_refreshed_every_few_minutes_by_any_call(world: World) -> None:
    async def story() -> None:
        other = world.process()
        await poll(world)
        first = await world.services.directory.task_queue(POOL)
        await world.clock.sleep(4 * MINUTE)
        await poll(world)
        await poll(world, other)
        assert await world.services.directory.task_queue(POOL) == first
        await world.clock.sleep(2 * MINUTE)
        await poll(world, other)
        second = await world.services.directory.task_queue(POOL)
        assert second.last_active > first.last_active
        assert second.expires > first.expires
        await poll(world)
        assert await world.services.directory.task_queue(POOL) == second

    world.run(story())


def test_an_idle_worker_is_written_every_half_hour(world: World) -> None:
    async def story() -> None:
        await poll(world)
        first = (await world.services.workers.get(POOL, WORKER)).record
        assert first.recent_tasks == ()
        for _ in range(5):
            await world.clock.sleep(5 * MINUTE)
            await poll(world)
        assert (await world.services.workers.get(POOL, WORKER)).record == first
        await world.clock.sleep(6 * MINUTE)
        await poll(world)
        assert (await world.services.workers.get(POOL, WORKER)).record.last_active > first.last_active

    world.run(story())


def test_claim_task_notes_the_worker_and_the_queue_for_five_days(world: World) -> None:
    async def story() -> None:
        task_id = await world.create()
        read = await world.services.work.found_for_claim(task_id)
        await world.services.work.claim_task(read, 0, WORKER)
        entry = await world.services.directory.task_queue(POOL)
        assert entry.expires == entry.last_active + timedelta(days=5)
        worker = (await world.services.workers.get(POOL, WORKER)).record
        assert (worker.recent_tasks, worker.last_active) == (((task_id, 0),), world.clock.now())
        await world.clock.sleep(10 * MINUTE)
        await poll(world)
        assert (await world.services.directory.task_queue(POOL)).expires == entry.expires, "it never moves back"

    world.run(story())


def test_reclaiming_keeps_a_worker_known(world: World) -> None:
    async def story() -> None:
        task_id = await world.create(deadline="2026-01-03T00:00:00.000Z")
        await world.claim()
        first = (await world.services.workers.get(POOL, WORKER)).record
        other = world.process()
        for _ in range(3):
            await world.clock.sleep(15 * MINUTE)
            await other.work.reclaim_task(task_id, 0)
        last = (await world.services.workers.get(POOL, WORKER)).record
        assert last.last_active - first.last_active >= timedelta(minutes=30)
        assert last.recent_tasks == first.recent_tasks
        assert (await world.services.directory.task_queue(POOL)).last_active > first.last_active

    world.run(story())


def test_recent_tasks_are_the_last_twenty(world: World) -> None:
    async def story() -> None:
        for _ in range(23):
            await world.create()
            await world.clock.sleep(0.01)
        claims = [claim for count in (5, 17, 1) for claim in await world.claim(count)]
        worker = (await world.services.workers.get(POOL, WORKER)).record
        assert sorted(worker.recent_tasks) == sorted((claim.task.task_id, 0) for claim in claims[-20:])
        await world.services.lifecycle.report_exception(claims[0].task.task_id, 0, Resolved.WORKER_SHUTDOWN)
        await world.claim()
        worker = (await world.services.workers.get(POOL, WORKER)).record
        assert worker.recent_tasks[-1] == (claims[0].task.task_id, 1)

    world.run(story())


def test_what_is_not_seen_any_more_is_forgotten(world: World) -> None:
    async def story() -> None:
        await world.create()
        await world.claim()
        await world.clock.sleep(DAY + 1)
        assert await listed(world) == []
        for call in (
            world.services.directory.task_queue(POOL),
            world.services.directory.provisioner("provisioner"),
            world.services.workers.get(POOL, WORKER),
        ):
            with pytest.raises(ResourceNotFound):
                await call
        assert await world.services.workers.page(POOL, start="", limit=10) == ([], None)
        await world.clock.sleep(3 * HOUR)
        await expire(world)
        assert [row.key for row in world.rows(keys.POOLS) if row.key.startswith("worker")] == []
        assert world.rows(keys.DIRECTORY, keys.PROVISIONER) == []
        assert await world.handlers.stores.pools.page_of_all(None, 10) == ([POOL], None), (
            "the reconciler still finds the pool"
        )
        await poll(world)
        assert await listed(world) == [POOL]
        await world.clock.sleep(DAY + 3 * HOUR)
        await expire(world)
        assert [set(row.values) for row in world.rows(keys.DIRECTORY, keys.POOL)] == [{"taskQueueId"}]

    world.run(story())


def test_what_is_seen_every_day_stays(world: World) -> None:
    async def story() -> None:
        for _ in range(5):
            await poll(world)
            await world.clock.sleep(0.9 * DAY)
            await expire(world)
            assert await listed(world) == [POOL]
            assert (await world.services.workers.get(POOL, WORKER)).record.worker_id == WORKER.worker_id

    world.run(story())


def test_a_worker_is_not_shown_without_its_task_queue(world: World) -> None:
    """The rows of both go at different times."""

    async def story() -> None:
        await world.claim()
        await delete_unchanged(world.memory.storage.tables, keys.DIRECTORY, world.rows(keys.DIRECTORY, keys.POOL))
        with pytest.raises(ResourceNotFound):
            await world.process().workers.get(POOL, WORKER)

    world.run(story())


def test_listings_are_in_the_order_of_ids(world: World) -> None:
    names = ["a-b/x", "a/x", "a/x-y", "a/xy", "a/y", "a1/x", "aB/x", "a_/x", "ab/x"]

    async def story() -> None:
        for name in names:
            await world.services.directory.declare_task_queue(name, Declaration(stability="stable"))
        assert await listed(world) == sorted(names)
        found: list[str] = []
        start: str | None = ""
        while start is not None:
            page, start = await world.services.directory.worker_types("a", start=start, limit=2)
            found.extend(entry.name for entry in page)
            assert len(page) <= 2
        assert found == ["a/x", "a/x-y", "a/xy", "a/y"]
        provisioners, _ = await world.services.directory.provisioners(start="", limit=1000)
        assert [entry.name for entry in provisioners] == sorted({name.split("/")[0] for name in names})
        with pytest.raises(InputError):
            await world.services.directory.worker_types("a", start="b", limit=1)
        assert await world.services.directory.task_queues(start="", limit=0) == ([], None)

    world.run(story())


def test_budgets(world: World) -> None:
    """Design 6: being seen costs nothing in a warm process; a cold one reads."""

    async def story() -> None:
        directory, workers = world.services.directory, world.services.workers
        await world.create()
        await world.create()
        await world.claim()
        for budget, call in (
            ((1, 1), directory.task_queue(POOL)),
            ((1, 1), directory.provisioner("provisioner")),
            ((1, 1), directory.task_queues(start="", limit=1000)),
            ((1, 1), directory.worker_types("provisioner", start="", limit=1000)),
            ((1, 1), directory.provisioners(start="", limit=1000)),
            ((3, 1), workers.get(POOL, WORKER)),
            ((1, 1), workers.page(POOL, start="", limit=1000)),
            ((3, 2), workers.quarantine(POOL, WORKER, after(world, -1), client_id="", info="")),
        ):
            with counting() as operations:
                await call
            assert (operations.total, operations.depth) <= budget
        with counting() as operations:
            await world.claim()
        assert operations.total <= 6 and operations.depth <= 4, "one task, the server polls"
        task_id = world.claims[-1].task.task_id
        with counting() as operations:
            await world.services.work.reclaim_task(task_id, 0)
        assert operations.total <= 4 and operations.depth <= 3

    world.run(story())


def test_worker_that_was_seen_since_it_was_read_is_not_removed() -> None:
    world = World()
    world.is_ordered = False

    async def story() -> None:
        await world.create()
        assert await world.claim()
        runtime = Runtime(now=world.clock.now, sleep=world.clock.sleep)
        store = WorkerStore(world.account.connect(), runtime)
        read = await store.existing(POOL, WORKER.worker_group, WORKER.worker_id)
        assert read is not None
        await store.put(replace(read, last_active=world.clock.now()))
        assert not await store.remove(read)
        latest = await store.existing(POOL, WORKER.worker_group, WORKER.worker_id)
        assert latest is not None
        assert await store.remove(latest)

    world.run(story())
