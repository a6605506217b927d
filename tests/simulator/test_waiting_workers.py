"""Workers that wait are counted, whichever way they wait (docs/observability.md)."""

from __future__ import annotations

import asyncio

import pytest

from shared.base import bounds
from shared.queue.claims import poll_urls as waiting_workers
from shared.queue.claims.poll_urls import LIFE
from shared.queue.tasks.rules import Worker
from shared.store.counting import Kind
from shared.telemetry.instruments import WAITING_WORKERS
from tests.simulator.claimer import a_world
from tests.simulator.registry import ANOTHER, HOUR, after, poll, quarantine
from tests.simulator.world import POOL, WORKER, World
from tests.twin.gate import Call, Phase

WAITS = (*POOL.split("/"), "claimWork")
POLLS = (*POOL.split("/"), "pollTaskUrls")


def reported(world: World) -> dict[tuple[str, ...], float]:
    world.services.waiting_workers.report()
    return world.services.runtime.meter.of(WAITING_WORKERS)


def test_workers_that_wait_in_a_call_count_until_it_ends() -> None:
    world = World()

    async def script() -> None:
        workers = [Worker(worker_group="g", worker_id=f"w{number}") for number in range(3)]
        waits = [asyncio.ensure_future(world.services.work.claim_work(POOL, worker, 1, 20)) for worker in workers]
        await world.clock.sleep(1)
        assert reported(world) == {WAITS: 3}
        await world.create()
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        assert reported(world) == {WAITS: 2}, "one was told to call again"
        assert world.services.waiting_workers.of_task_queue(POOL) == {"claimWork": 2, "pollTaskUrls": 0}
        assert world.services.waiting_workers.of_task_queue("p/other") == {"claimWork": 0, "pollTaskUrls": 0}
        await asyncio.wait(waits)
        assert reported(world) == {WAITS: 0}, "exporters hear that there are none any more"
        assert reported(world) == {}

    world.run(script())


def test_a_call_counts_from_the_end_of_its_first_look() -> None:
    """Until then it may get a task, even if its client has gone; afterwards it cannot (contract 5.1)."""
    seen: list[float] = []

    async def look(call: Call, phase: Phase) -> None:
        if call.kind is Kind.QUEUE_GET:
            seen.append(sum(reported(world).values()))

    world = a_world(look)

    async def script() -> None:
        await world.create()
        await world.claim()
        seen.clear()
        call = asyncio.ensure_future(world.services.work.claim_work(POOL, ANOTHER, 1, 20))
        await world.clock.sleep(1)
        assert seen, "it has looked"
        assert set(seen) == {0}
        assert reported(world) == {WAITS: 1}
        assert not await call

    world.run(script())


def test_a_worker_in_quarantine_does_not_wait_for_tasks() -> None:
    """It gets none, so scaling must not count on it."""
    world = World()

    async def script() -> None:
        await poll(world)
        await quarantine(world, after(world, HOUR))
        call = asyncio.ensure_future(world.services.work.claim_work(POOL, WORKER, 1, 20))
        await world.clock.sleep(1)
        assert reported(world) == {}
        assert not await call

    world.run(script())


def test_a_worker_that_calls_again_counts_once() -> None:
    world = World()
    worker = Worker(worker_group="g", worker_id="w")

    async def script() -> None:
        first = asyncio.ensure_future(world.services.work.claim_work(POOL, worker, 1, 20))
        await world.clock.sleep(5)
        again = asyncio.ensure_future(world.services.work.claim_work(POOL, worker, 1, 20))
        await world.clock.sleep(5)
        assert reported(world) == {WAITS: 1}
        await asyncio.wait([first, again])

    world.run(script())


def test_sets_of_urls_count_until_they_expire() -> None:
    world = World()
    life = LIFE

    async def script() -> None:
        for _ in range(2):
            await world.services.poll_urls.of_pool(POOL)
        world.clock.advance(life.total_seconds() - 60)
        await world.services.poll_urls.of_pool(POOL)
        assert reported(world) == {POLLS: 3}
        world.clock.advance(60)
        assert reported(world) == {POLLS: 1}
        world.clock.advance(life.total_seconds())
        assert reported(world) == {POLLS: 0}
        assert reported(world) == {}

    world.run(script())


def test_of_very_many_task_queues_those_with_the_most_workers_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MEASURED_QUEUES", 2)
    world = World()

    async def script() -> None:
        for number in range(4):
            for _ in range(number + 1):
                await world.services.poll_urls.of_pool(f"p/w{number}")

    world.run(script())
    assert reported(world) == {("p", "w3", "pollTaskUrls"): 4, ("p", "w2", "pollTaskUrls"): 3}


def test_each_process_reports_every_minute() -> None:
    world = World()

    async def script() -> None:
        await world.services.poll_urls.of_pool(POOL)
        reporting = asyncio.ensure_future(world.services.waiting_workers.keep_reporting())
        await world.clock.sleep(waiting_workers.REPORT_SECONDS + 1)
        assert world.services.runtime.meter.of(WAITING_WORKERS) == {POLLS: 1}
        reporting.cancel()
        await asyncio.wait([reporting])

    world.run(script())
