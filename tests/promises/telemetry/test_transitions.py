"""Measurements and log lines of a task's life, on a deployment in memory."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from shared.app.services import Services
from shared.queue.events.announcer import EventsUnavailable
from shared.queue.tasks.rules import Resolved
from shared.telemetry import instruments
from shared.telemetry.meter import Distribution
from tests.promises.simulator.world import CLAIM_TIMEOUT, World

POOL = ("provisioner", "pool")


def distribution(services: Services, instrument: instruments.Instrument, *labels: str) -> Distribution:
    """Returns the state of a histogram of this process."""
    found = dict(services.runtime.meter.series())[instrument][labels]
    assert isinstance(found, Distribution)
    return found


def test_resolutions_are_counted_once_by_reason() -> None:
    world = World()
    meter = world.services.runtime.meter

    async def life() -> None:
        ids = [await world.create() for _ in range(4)]
        claims = {claim.task.task_id: claim for claim in await world.claim(4)}
        assert set(claims) == set(ids)
        lifecycle = world.services.lifecycle
        for _ in range(2):  # a repeat changes nothing, and counts for nothing
            await lifecycle.report(ids[0], 0, Resolved.COMPLETED)
            await lifecycle.report(ids[1], 0, Resolved.FAILED)
            await lifecycle.report_exception(ids[2], 0, Resolved.MALFORMED_PAYLOAD)
            await lifecycle.report_exception(ids[3], 0, Resolved.WORKER_SHUTDOWN)
        await lifecycle.cancel(await lifecycle.existing(ids[3]))

    world.run(life())
    assert meter.values_of(instruments.COMPLETED) == {POOL: 1}
    assert meter.values_of(instruments.FAILED) == {(*POOL, "failed"): 1}
    assert meter.values_of(instruments.EXCEPTION) == {
        (*POOL, "malformed-payload"): 1,
        (*POOL, "worker-shutdown"): 1,
        (*POOL, "canceled"): 1,
    }


def test_lateness_of_claims_and_deadlines() -> None:
    world = World()

    async def life() -> None:
        await world.create(retries=0)
        await world.create()
        await world.claim(1)
        await world.drain(timedelta(hours=4).total_seconds())

    world.run(life())
    claim = distribution(world.handlers, instruments.TIMER_LATENESS, "claim")
    deadline = distribution(world.handlers, instruments.TIMER_LATENESS, "deadline")
    assert (claim.count, deadline.count) == (1, 1)
    assert 0 <= claim.total < 1
    assert 60 <= deadline.total < 62  # DEADLINE_DELAY_SECONDS


def test_lag_of_the_fan_out() -> None:
    world = World()

    async def life() -> None:
        first = await world.create()
        await world.create(dependencies=[first])
        await world.claim(1)
        await world.services.lifecycle.report(first, 0, Resolved.COMPLETED)
        await world.drain(10)

    world.run(life())
    lag = distribution(world.handlers, instruments.FAN_OUT_LAG)
    assert lag.count == 1
    assert 0.9 <= lag.total < 3


def test_how_long_runs_waited() -> None:
    world = World()

    async def life() -> None:
        await world.create()
        world.clock.advance(40)
        await world.claim(1)

    world.run(life())
    waiting = distribution(world.services, instruments.WAITING, *POOL)
    assert waiting.count == 1
    assert 40 <= waiting.total < 42


def test_gauges_are_those_of_storage() -> None:
    world = World()

    async def life() -> None:
        await world.create()
        world.clock.advance(30)
        for _ in range(2):
            await world.create()
        await world.claim(1)
        world.clock.advance(30)
        await world.services.stores.messages.poison("claim", "bad")
        await world.handlers.gauges.refresh()

    world.run(life())
    meter = world.handlers.runtime.meter
    assert meter.values_of(instruments.PENDING) == {POOL: 2}
    assert meter.values_of(instruments.CLAIMED) == {POOL: 1}
    assert meter.values_of(instruments.DESIRED_WORKERS) == {POOL: 3}
    assert 30 <= meter.values_of(instruments.OLDEST_PENDING)[POOL] < 35
    assert meter.values_of(instruments.POISON_DEPTH)[("claim",)] == 1
    assert meter.values_of(instruments.POISON_DEPTH)[("deadline",)] == 0
    assert meter.values_of(instruments.EVENT_BACKLOG) == {(): 0}
    assert world.services.runtime.meter.values_of(instruments.POISONED) == {("claim",): 1}


def test_gauges_go_back_and_are_not_read_too_often() -> None:
    world = World()
    gauges, meter = world.handlers.gauges, world.handlers.runtime.meter

    async def life() -> None:
        task_id = await world.create()
        await gauges.refresh()
        assert meter.values_of(instruments.PENDING) == {POOL: 1}
        lifecycle = world.services.lifecycle
        await lifecycle.cancel(await lifecycle.existing(task_id))
        await gauges.refresh()
        assert meter.values_of(instruments.PENDING) == {POOL: 1}
        world.clock.advance(11)
        await gauges.refresh()

    world.run(life())
    assert meter.values_of(instruments.PENDING) == {POOL: 0}
    assert meter.values_of(instruments.OLDEST_PENDING) == {POOL: 0}


def test_events_that_wait_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    publish = world.topics.publish

    async def refuse(messages: list[object]) -> None:
        raise EventsUnavailable(messages, "down")  # type: ignore[arg-type]

    async def life() -> None:
        monkeypatch.setattr(world.topics, "publish", refuse)
        await world.create()
        monkeypatch.setattr(world.topics, "publish", publish)
        await world.handlers.gauges.refresh()
        backlog = world.handlers.runtime.meter.values_of(instruments.EVENT_BACKLOG)
        assert backlog == {(): 2}
        await world.drain(5)
        world.clock.advance(11)
        await world.handlers.gauges.refresh()

    world.run(life())
    assert world.services.runtime.meter.values_of(instruments.EVENTS_DEFERRED) == {(): 2}
    assert world.handlers.runtime.meter.values_of(instruments.EVENT_BACKLOG) == {(): 0}


def test_each_change_of_a_run_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    caplog.set_level(logging.INFO, "taskcluster.tasks")

    async def life() -> str:
        task_id = await world.create(retries=1)
        await world.claim(1)
        world.clock.advance(CLAIM_TIMEOUT.total_seconds() + 1)
        await world.drain(1)
        return task_id

    (task_id,) = world.run(life())
    reported = [
        {name: record.__dict__[name] for name in ("action", "taskId", "runId", "reason")}
        for record in caplog.records
        if record.name == "taskcluster.tasks"
    ]
    assert reported == [
        {"action": "run_pending", "taskId": task_id, "runId": 0, "reason": "scheduled"},
        {"action": "run_running", "taskId": task_id, "runId": 0, "reason": "scheduled"},
        {"action": "run_exception", "taskId": task_id, "runId": 0, "reason": "claim-expired"},
        {"action": "run_pending", "taskId": task_id, "runId": 1, "reason": "retry"},
    ]
