"""A task queue in which tasks wait and nothing takes them is distinguished from one that is well (contract 9)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.base import bounds
from shared.queue.pools.states import ASKED_LATELY, GRACE
from shared.queue.tasks.rules import Worker
from shared.telemetry.instruments import STALLED
from tests.promises.simulator.test_health import _create_queues, health_of
from tests.promises.simulator.test_health import codes as codes_of
from tests.promises.simulator.test_short_pages import one_row_a_page
from tests.promises.simulator.world import POOL, WORKER, World, unordered

SECOND = timedelta(seconds=1)


async def stalled(world: World) -> str | None:
    """Returns why nothing takes what waits, which is the same in a task queue's load and in the list of all."""
    _, stall = await world.services.pool_views.load(POOL)
    (state,), _ = await world.services.task_queue_states.state_page(start="", limit=10)
    assert stall == state.stall
    return None if stall is None else stall.reason


@pytest.fixture
def world() -> World:
    return unordered()


async def _pass(world: World, time: timedelta) -> None:
    await world.clock.sleep(time.total_seconds())


def test_tasks_that_no_worker_ever_asked_for(world: World) -> None:
    async def story() -> None:
        await world.create()
        assert await stalled(world) == "no-worker"
        await world.claim()
        assert await stalled(world) is None

    world.run(story())


def test_workers_that_have_gone_are_missed_within_minutes(world: World) -> None:
    async def story() -> None:
        assert await world.claim() == []
        await _pass(world, ASKED_LATELY)
        assert await stalled(world) is None, "nothing waits"
        await world.create()
        await _pass(world, GRACE - 10 * SECOND)
        assert await stalled(world) is None, "one that polls with a signed URL may be about to take it"
        await _pass(world, 10 * SECOND)
        assert await stalled(world) == "not-asked"
        _, stall = await world.services.pool_views.load(POOL)
        assert stall is not None
        assert "none has asked for work or renewed a claim for 8 min. 1 pending task, the oldest for 2 min." in (
            stall.message
        )
        (claim,) = await world.claim()
        assert await stalled(world) is None
        await world.create()
        await _pass(world, timedelta(minutes=15))
        assert await stalled(world) is None, "the claim holds"
        await world.services.work.reclaim_task(claim.task.task_id, claim.run_id)
        await _pass(world, timedelta(minutes=15))
        assert await stalled(world) is None, "it was renewed"

    world.run(story())


def test_workers_in_quarantine_take_nothing(world: World) -> None:
    one_row_a_page(world)  # all that are known count, not those of one page
    other = replace(WORKER, worker_id="worker-2")  # read after the other

    async def quarantine(worker: Worker, time: timedelta) -> None:
        until = world.clock.now() + time
        await world.services.workers.quarantine(POOL, worker, until, client_id="me", info="broken")

    async def story() -> None:
        await world.claim()
        await world.services.work.claim_work(POOL, other, 1, 1.5)
        await world.create()
        await quarantine(WORKER, timedelta(days=1))
        await quarantine(other, timedelta(days=1))
        await _pass(world, GRACE)
        assert await world.claim() == []
        assert await stalled(world) == "quarantined"
        await quarantine(other, timedelta())
        assert await stalled(world) is None

    world.run(story())


def test_the_verdict_and_the_metric_know_of_it(world: World) -> None:
    health = health_of(world)

    async def codes() -> list[str]:
        await _pass(world, 11 * SECOND)
        return codes_of(list(await health.findings()))

    def metric() -> float:
        return world.handlers.runtime.meter.values_of(STALLED)[(POOL.split("/")[0], POOL.split("/")[1])]

    async def note() -> None:
        await world.handlers.gauges.note_waiting()
        await world.handlers.gauges.refresh()

    async def story() -> None:
        await _create_queues(world)
        await world.create()
        await note()
        assert metric() == 0, "workers may be starting"
        assert await codes() == []
        await _pass(world, timedelta(minutes=5))
        await note()
        assert metric() == 1
        assert await codes() == ["task-queues-stalled"]
        (finding,) = await health.findings()
        assert POOL in finding.message
        assert finding.command == f"./dev admin queue show {POOL}"
        assert "1 pending task, the oldest for 5 min." in finding.message
        await world.create(provisionerId="other", workerType="queue", taskQueueId="other/queue")
        await _pass(world, timedelta(minutes=5))
        await note()
        await _pass(world, 11 * SECOND)
        (finding,) = await health.findings()
        assert finding.message == (
            f"No worker takes the tasks of 2 task queues: {POOL} (1 pending, the oldest for 10 min; none is known), "
            "other/queue (1 pending, the oldest for 5 min; none is known)."
        )
        await world.services.work.claim_work("other/queue", WORKER, 1, 1.5)
        await world.claim()
        assert await codes() == [], "at once, whatever was noted last"
        await _pass(world, 11 * SECOND)
        await note()
        assert metric() == 0

    world.run(story())


def test_the_task_queues_that_wait_longest_are_looked_at_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task queues that wait longest are examined, and no others."""
    monkeypatch.setattr(bounds, "STALLED_QUEUES", 2)
    names = ["p/second", "p/first", "p/third"]

    async def story() -> None:
        for name in sorted(names):
            await world.create(provisionerId="p", workerType=name[2:], taskQueueId=name)
            await _pass(world, timedelta(minutes=1))
        await _pass(world, GRACE)
        await world.handlers.gauges.note_waiting()
        found = await world.services.health._states.stalls()
        assert [each.task_queue_id for each in found] == sorted(names)[:2]

    world.run(story())
