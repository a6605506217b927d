"""While Service Bus takes no events, the tasks that they are about stay for some days (design 2.5)."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.queue.tasks.internal_messages import EVENTS_QUEUE
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from shared.telemetry.instruments import EXPIRATIONS_FAILED
from tests.parts.twin.driver import Simulation
from tests.parts.twin.gate import Call, Phase
from tests.promises.simulator.expiring import scheduled
from tests.promises.simulator.situations import GROUP, A
from tests.promises.simulator.world import World

HOUR = 3600.0
GONE = 4
"""Hours after which a task that lives for a minute is gone on an ordinary day."""
AFTER_AN_OUTAGE = 30
"""Hours after which such a task is gone when the outage is over."""
A_LOOK = Kind.QUEUE_LENGTH, EVENTS_QUEUE


async def live(world: World, task_id: str = A) -> None:
    """Lets the task be created, run, complete, and expire a minute after it was created."""
    end = format_date(world.clock.now() + timedelta(minutes=1))
    await world.create(task_id, taskGroupId=GROUP, deadline=end, expires=end)
    assert await world.claim()
    await world.services.lifecycle.report(task_id, 0, Resolved.COMPLETED)
    await world.drain(30)


async def pass_hours(world: World, hours: int) -> None:
    """Runs the expiry job every hour, and handles what is due."""
    for _ in range(hours):
        await world.handlers.expiration.run(300)
        await world.drain(60)
        await world.clock.sleep(HOUR - 60)


async def outage_ends(world: World) -> None:
    """Ends the outage, and checks that every event of the task and its group is sent, and only then the task goes."""
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
    assert not world.handlers.runtime.meter.values_of(EXPIRATIONS_FAILED)
