"""Workers, task queues and provisioners over days: seen, listed, quarantined, gone (contract 8)."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from shared.assembly import assemble
from shared.domain.claims import Worker
from shared.domain.dates import parse_date
from shared.domain.task import Resolved
from shared.errors import InputError, ResourceNotFound, ServiceUnavailable
from shared.runtime import Runtime
from shared.services import Services
from shared.storage import keys
from shared.storage.counting import Kind, counting
from shared.storage.directory import Declaration
from shared.storage.workers import WorkerStore
from shared.usecases.workers import KnownWorker
from tests.simulator.world import POOL, WORKER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase, chain

MINUTE = 60.0
HOUR = 3600.0
DAY = 24 * HOUR
FOREVER = parse_date("9999-12-31T23:59:59.999Z")
ANOTHER = Worker(worker_group="group", worker_id="another")


@pytest.fixture
def world() -> World:
    return World()


async def poll(world: World, services: Services | None = None, worker: Worker = WORKER) -> None:
    """claimWork in vain."""
    assert await (services or world.services).work.claim_work(POOL, worker, 1, 0.5) == []


async def quarantine(world: World, until: datetime, info: str = "why") -> KnownWorker:
    return await world.services.workers.quarantine(POOL, WORKER, until, client_id="somebody", info=info)


async def listed(world: World) -> list[str]:
    entries, _ = await world.services.directory.task_queues(start="", limit=1000)
    return [entry.name for entry in entries]


def after(world: World, seconds: float) -> datetime:
    return world.clock.now() + timedelta(seconds=seconds)


async def expire(world: World) -> None:
    """The timer function, in another process."""
    await world.handlers.expiration.run(300)


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
        assert await world.handlers.stores.pools.known(None) == ([POOL], None), "the reconciler still finds the pool"
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


def test_a_quarantined_worker_waits_in_vain(world: World) -> None:
    async def story() -> None:
        await poll(world)
        task_id = await world.create()
        answered = await quarantine(world, after(world, HOUR))
        assert answered.record.is_quarantined(world.clock.now())
        asked = world.clock.now()
        await poll(world)
        assert world.clock.now() - asked >= timedelta(seconds=0.5), "it must not ask again at once"
        read = await world.services.work.found_for_claim(task_id)
        with pytest.raises(ServiceUnavailable):
            await world.services.work.claim_task(read, 0, WORKER)
        assert await world.services.work.claim_work(POOL, ANOTHER, 1, 1.5), "the task was left to others"

    world.run(story())


def test_a_worker_is_known_for_a_day_after_it_was_quarantined(world: World) -> None:
    async def story() -> None:
        await poll(world)
        await world.clock.sleep(0.9 * DAY)
        quarantined = await quarantine(world, after(world, HOUR))
        assert quarantined.record.expires == world.clock.now() + timedelta(days=1)

    world.run(story())


def test_other_processes_know_of_a_quarantine_in_half_a_minute(world: World) -> None:
    async def story() -> None:
        other = world.process()
        await poll(world, other)
        await quarantine(world, after(world, HOUR))
        await world.create()
        await world.clock.sleep(31)
        await poll(world, other)
        await quarantine(world, after(world, -1), "mended")
        await world.clock.sleep(31)
        assert await world.claim(1, other)
        history = (await world.services.workers.get(POOL, WORKER)).history
        assert [entry.info for entry in history] == ["why", "mended"]

    world.run(story())


def test_a_quarantine_that_a_process_has_not_heard_of_is_noticed_before_a_claim_is_handed_out(world: World) -> None:
    async def story() -> None:
        other = world.process()
        await poll(world, other)
        until = after(world, HOUR)
        await quarantine(world, until)
        task_id = await world.create()
        await world.clock.sleep(11)  # then it looks again which bands the pool uses
        assert await world.claim(1, other) == []
        worker = (await world.services.workers.get(POOL, WORKER)).record
        assert worker.quarantine_until == until
        assert worker.recent_tasks == ()
        assert await other.work.claim_work(POOL, ANOTHER, 1, 1.5), "the run is pending as if nothing had been"
        assert len(world.tasks()[task_id].runs) == 1

    world.run(story())


def test_a_quarantined_worker_is_kept_until_the_quarantine_ends(world: World) -> None:
    async def story() -> None:
        await poll(world)
        await quarantine(world, after(world, 3 * DAY))
        for _ in range(2):
            await world.clock.sleep(1.3 * DAY)
            await poll(world, worker=ANOTHER)
            await expire(world)
            assert len((await world.services.workers.get(POOL, WORKER)).history) == 1
        await world.clock.sleep(0.5 * DAY)
        await expire(world)
        left = [row.key for row in world.rows(keys.POOLS)]
        assert left == [keys.worker(ANOTHER.worker_group, ANOTHER.worker_id)], "the history goes with the worker"

    world.run(story())


def test_the_latest_of_a_long_history_are_shown_and_all_go(world: World) -> None:
    async def story() -> None:
        await poll(world)
        for number in range(120):
            await quarantine(world, after(world, HOUR), str(number))
            await world.clock.sleep(0.01)
        history = (await world.services.workers.get(POOL, WORKER)).history
        assert [entry.info for entry in history] == [str(number) for number in range(70, 120)]
        await world.clock.sleep(1.5 * DAY)
        await expire(world)
        assert world.rows(keys.POOLS, keys.pool(POOL)) == []

    world.run(story())


def test_quarantine_needs_a_known_worker(world: World) -> None:
    async def story() -> None:
        with pytest.raises(ResourceNotFound):
            await quarantine(world, FOREVER)
        await world.services.workers.declare(POOL, WORKER, after(world, HOUR))
        await quarantine(world, FOREVER)
        await world.clock.sleep(30 * DAY)
        await expire(world)
        await poll(world)
        assert (await world.services.workers.get(POOL, WORKER)).record.quarantine_until == FOREVER

    world.run(story())


def test_declared_expirations_only_move_forward(world: World) -> None:
    async def story() -> None:
        directory, workers = world.services.directory, world.services.workers
        until = after(world, 10 * DAY)
        assert (await workers.declare(POOL, WORKER, until)).record.expires == until
        earlier = Declaration(expires=after(world, DAY), description="some", stability="stable")
        entry = await directory.declare_task_queue(POOL, earlier)
        assert (entry.expires, entry.description, entry.stability) == (until, "some", "stable")
        assert (await workers.declare(POOL, WORKER, after(world, DAY))).record.expires == until
        entry = await directory.declare_task_queue(POOL, Declaration(stability="deprecated"))
        assert (entry.expires, entry.description, entry.stability) == (until, "some", "deprecated")
        assert (await directory.provisioner("provisioner")).expires == until
        await poll(world)
        assert (await directory.task_queue(POOL)).description == "some", "being seen leaves what was declared"

    world.run(story())


def test_declared_in_the_past(world: World) -> None:
    async def story() -> None:
        past = after(world, -30 * DAY)
        assert (await world.services.workers.declare(POOL, WORKER, past)).record.expires == past
        with pytest.raises(ResourceNotFound):
            await world.services.workers.get(POOL, WORKER)
        await world.clock.sleep(3 * HOUR)
        await expire(world)
        assert world.rows(keys.POOLS, keys.pool(POOL)) == []
        assert await listed(world) == []

    world.run(story())


def test_a_declaration_lasts_five_days_by_default(world: World) -> None:
    async def story() -> None:
        directory = world.services.directory
        entry = await directory.declare_task_queue("some/type", Declaration(description="x"))
        assert entry.expires == world.clock.now() + timedelta(days=5) or entry.expires < after(world, 5 * DAY)
        assert (await directory.provisioner("some")).expires == entry.expires
        action = {"name": "", "title": "", "context": "worker", "url": "", "method": "POST", "description": ""}
        await directory.declare_provisioner("some", Declaration(actions=(action, {**action, "context": "provisioner"})))
        assert await directory.actions("some", "worker") == [action]
        assert await directory.actions("none", "worker") == []
        with pytest.raises(InputError):
            await directory.declare_provisioner("some", Declaration(actions=({**action, "url": "x" * 30_000},)))

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


def test_a_fleet_that_starts_at_once_is_declared_without_a_refusal() -> None:
    """Fifty workers of a new pool, in four processes, each with its own expiration; each request takes a while."""
    chance = random.Random(1)
    simulation = Simulation.scripted([])

    async def slow(call: Call, phase: Phase) -> None:
        await simulation.clock.sleep(chance.uniform(0.0025, 0.005))

    world = World(simulation, slow)
    world.is_ordered = False
    processes = [world.process() for _ in range(4)]
    writes: list[str] = []

    async def count(call: Call, phase: Phase) -> None:
        if call.target == keys.DIRECTORY and call.kind is Kind.TABLE_WRITE and phase is Phase.BEFORE:
            writes.append(call.subject)

    world.memory.gate = chain(world.memory.gate, count)

    async def declare(number: int) -> datetime:
        await world.clock.sleep(number / 1000)
        until = after(world, DAY + number)
        worker = Worker(worker_group="group", worker_id=f"w{number}")
        known = await processes[number % 4].workers.declare(POOL, worker, until)
        assert known.record.expires == until
        return until

    declared = world.run(*(declare(number) for number in range(50)))
    (entry,) = world.run(world.services.directory.task_queue(POOL))
    assert entry.expires >= max(declared)
    (again,) = world.run(declare(7))
    assert again
    assert len(writes) <= 2 * 2 * 50, "two attempts each, of the pool and its provisioner, on the average"


def test_declarations_that_differ_all_come_through() -> None:
    """Eight provisioners' worth of declarations of one task queue, side by side."""

    chance = random.Random(2)
    simulation = Simulation.scripted([])

    async def slow(call: Call, phase: Phase) -> None:
        await simulation.clock.sleep(0.005)

    world = World(simulation, slow)
    world.is_ordered = False
    runtime = replace(world.services.runtime, jitter=chance.random)
    processes = [assemble(world.services.settings, runtime, world.account.connect(), world.topics) for _ in range(8)]

    async def declare(number: int) -> None:
        declaration = Declaration(expires=after(world, DAY * (number + 1)), description=str(number))
        await processes[number].directory.declare_task_queue(POOL, declaration)

    world.run(*(declare(number) for number in range(8)))
    (entry,) = world.run(world.services.directory.task_queue(POOL))
    assert entry.expires >= after(world, 8 * DAY - MINUTE)


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
