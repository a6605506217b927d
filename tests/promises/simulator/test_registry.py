"""Workers, task queues and provisioners over days: when they are seen, listed, and gone (contract 8)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.base.errors import ResourceNotFound
from shared.queue.pools.directory import DirectoryKind
from shared.queue.pools.worker_rows import WorkerStore
from shared.queue.tasks.rules import Resolved
from shared.runtime import Runtime
from shared.store import keys
from shared.store.partitions import delete_unchanged
from tests.promises.simulator.registry import DAY, HOUR, expire, listed, poll
from tests.promises.simulator.world import POOL, WORKER, World, unordered


def test_claim_work_notes_the_worker_its_queue_and_its_provisioner(world: World) -> None:
    async def story() -> None:
        await world.create()
        assert await listed(world) == []
        await world.claim()
        entry = await world.services.directory.find_listed(DirectoryKind.TASK_QUEUE, POOL)
        assert (entry.stability, entry.description) == ("experimental", "")
        assert entry.last_active <= world.clock.now() and entry.expires == entry.last_active + timedelta(days=1)
        provisioner = await world.services.directory.find_listed(DirectoryKind.PROVISIONER, "provisioner")
        assert provisioner.expires == entry.expires
        worker = (await world.services.workers.find_worker(POOL, WORKER)).record
        assert len(worker.recent_tasks) == 1
        assert worker.expires >= worker.first_claim + timedelta(days=1)

    world.run(story())


def test_recent_tasks_are_the_last_twenty(world: World) -> None:
    async def story() -> None:
        for _ in range(23):
            await world.create()
            await world.clock.sleep(0.01)
        claims = [claim for count in (5, 17, 1) for claim in await world.claim(count)]
        worker = (await world.services.workers.find_worker(POOL, WORKER)).record
        assert sorted(worker.recent_tasks) == sorted((claim.task.task_id, 0) for claim in claims[-20:])
        await world.services.lifecycle.report_exception(claims[0].task.task_id, 0, Resolved.WORKER_SHUTDOWN)
        await world.claim()
        worker = (await world.services.workers.find_worker(POOL, WORKER)).record
        assert worker.recent_tasks[-1] == (claims[0].task.task_id, 1)

    world.run(story())


def test_what_is_not_seen_any_more_is_forgotten(world: World) -> None:
    async def story() -> None:
        await world.create()
        await world.claim()
        await world.clock.sleep(DAY + 1)
        assert await listed(world) == []
        for call in (
            world.services.directory.find_listed(DirectoryKind.TASK_QUEUE, POOL),
            world.services.directory.find_listed(DirectoryKind.PROVISIONER, "provisioner"),
            world.services.workers.find_worker(POOL, WORKER),
        ):
            with pytest.raises(ResourceNotFound):
                await call
        assert await world.services.workers.worker_page(POOL, start="", limit=10) == ([], None)
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


def test_a_worker_is_not_shown_without_its_task_queue(world: World) -> None:
    """A worker is not shown without its task queue, whose row goes at a different time."""

    async def story() -> None:
        await world.claim()
        await delete_unchanged(world.memory.storage.tables, keys.DIRECTORY, world.rows(keys.DIRECTORY, keys.POOL))
        with pytest.raises(ResourceNotFound):
            await world.process().workers.find_worker(POOL, WORKER)

    world.run(story())


def test_worker_that_was_seen_since_it_was_read_is_not_removed() -> None:
    world = unordered()

    async def story() -> None:
        await world.create()
        assert await world.claim()
        runtime = Runtime(now=world.clock.now, sleep=world.clock.sleep)
        store = WorkerStore(world.account.connect(), runtime)
        read = await store.existing(POOL, WORKER.worker_group, WORKER.worker_id)
        assert read is not None
        await store.write_worker(replace(read, last_active=world.clock.now()))
        assert not await store.remove_worker(read)
        latest = await store.existing(POOL, WORKER.worker_group, WORKER.worker_id)
        assert latest is not None
        assert await store.remove_worker(latest)

    world.run(story())
