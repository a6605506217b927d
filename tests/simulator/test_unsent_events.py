"""While Service Bus takes no events, the tasks that they are about are not deleted, for some days (design 2.5)."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.queue.expiry.failures import LONGEST_HOLD
from shared.queue.tasks.internal_messages import EVENTS_QUEUE
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from shared.telemetry.instruments import EVENTS_LOST, EXPIRATIONS_FAILED, UNANNOUNCED_EXPIRATIONS
from tests.simulator.expiring import scheduled
from tests.simulator.queue_host import Requests
from tests.simulator.situations import GROUP, A, B
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase

HOUR = 3600.0
GONE = 4
"""Hours after which a task that lives for a minute is gone on an ordinary day."""
AFTER_AN_OUTAGE = 30
"""Hours after which it is gone when the outage is over."""
DAYS = LONGEST_HOLD // timedelta(days=1)
A_LOOK = Kind.QUEUE_LENGTH, EVENTS_QUEUE


async def live(world: World, task_id: str = A) -> None:
    """The task is created, runs, completes, and expires a minute after it was created."""
    end = format_date(world.clock.now() + timedelta(minutes=1))
    await world.create(task_id, taskGroupId=GROUP, deadline=end, expires=end)
    assert await world.claim()
    await world.services.lifecycle.report(task_id, 0, Resolved.COMPLETED)
    await world.drain(30)


async def pass_hours(world: World, hours: int) -> None:
    """The expiry job runs every hour, and what is due is handled."""
    for _ in range(hours):
        await world.handlers.expiration.run(300)
        await world.drain(60)
        await world.clock.sleep(HOUR - 60)


async def outage_ends(world: World) -> None:
    """Every event of the task and its group is sent; only then does the task go."""
    world.topics.is_down = False
    await world.drain(HOUR)
    topics = {message.topic for message in world.topics.messages}
    assert topics == {"task-completed", "task-defined", "task-group-resolved", "task-pending", "task-running"}
    await pass_hours(world, AFTER_AN_OUTAGE)
    assert not world.tasks()


def actions(caplog: pytest.LogCaptureFixture, action: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if getattr(record, "action", "") == action]


@pytest.mark.parametrize("hours", [12, 3 * 24])
def test_no_event_is_lost_in_an_outage_that_outlasts_its_task(hours: int, caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    async def story() -> None:
        world.topics.is_down = True
        await live(world)
        assert world.messages(EVENTS_QUEUE)
        await pass_hours(world, hours)
        assert A in world.tasks()
        assert world.rows(keys.GROUPS, GROUP), "it is listed for as long as it is there"
        await outage_ends(world)
        assert not world.rows(keys.GROUPS)
        assert not {"task", "group", "listed"} & scheduled(world)

    world.run(story())
    assert not actions(caplog, "event_lost")
    assert not actions(caplog, "expired_unannounced")


def test_what_an_outage_of_a_week_takes_is_said(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    async def story() -> None:
        world.topics.is_down = True
        await live(world)
        await pass_hours(world, (DAYS - 1) * 24)
        assert A in world.tasks()
        assert not actions(caplog, "expired_unannounced")
        await pass_hours(world, 3 * 24)
        assert A not in world.tasks()
        assert not world.rows(keys.GROUPS)
        world.topics.is_down = False
        await world.drain(HOUR)

    world.run(story())
    (dropped,) = actions(caplog, "expired_unannounced")
    assert (dropped.levelno, getattr(dropped, "taskId", "")) == (logging.ERROR, A)
    lost = len(actions(caplog, "event_lost"))
    assert lost >= 4
    meter = world.handlers.runtime.meter
    assert meter.of(UNANNOUNCED_EXPIRATIONS) == {(): 1}
    assert meter.of(EVENTS_LOST) == {(): lost}
    assert [message.topic for message in world.topics.messages] == ["task-group-resolved"]


def test_a_look_costs_a_run_one_request_and_only_if_a_task_or_a_group_is_due() -> None:
    requests = Requests()
    world = World(None, requests)

    async def story() -> None:
        await live(world, A)
        await live(world, B)
        for _ in range(3 * GONE):
            before = len(world.tasks())
            requests.counts.clear()
            await world.handlers.expiration.run(300)
            looks = requests.counts[A_LOOK]
            assert looks <= 1
            assert looks == 1 or len(world.tasks()) == before
            await world.clock.sleep(HOUR)
        assert not world.tasks()
        assert scheduled(world), "a worker, a pool"
        requests.counts.clear()
        await pass_hours(world, 24)
        assert requests.counts[A_LOOK] == 0

    world.run(story())


def test_a_run_that_cannot_look_deletes_nothing_and_counts_no_failure() -> None:
    is_away = False

    async def away(call: Call, phase: Phase) -> None:
        if is_away and (call.kind, call.target) == A_LOOK:
            raise StorageUnavailable("away")

    world = World(Simulation.scripted([]), away)

    async def story() -> None:
        nonlocal is_away
        await live(world)
        is_away = True
        for _ in range(GONE):
            await world.clock.sleep(HOUR)
            try:
                await world.handlers.expiration.run(300)
            except StorageUnavailable:
                continue
        assert A in world.tasks()
        is_away = False
        await world.handlers.expiration.run(300)
        assert A not in world.tasks()

    world.run(story())
    assert not world.handlers.runtime.meter.of(EXPIRATIONS_FAILED)
