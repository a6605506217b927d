"""A taskId that is used again, after its task has expired: nobody takes one task for the other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.queue.events.pointers import from_json
from shared.queue.events.rules import Event, TaskEvent
from shared.queue.tasks.internal_messages import EVENTS_QUEUE
from shared.queue.tasks.rules import Resolved
from tests.simulator.situations import GROUP, OTHER_GROUP, A
from tests.simulator.world import World


async def live(world: World, task_group_id: str) -> set[str]:
    """The task lives for a minute; returns the MessageIds of its events, those of the group included."""
    before = len(world.topics.messages)
    end = format_date(world.clock.now() + timedelta(minutes=1))
    await world.create(A, taskGroupId=task_group_id, deadline=end, expires=end)
    assert await world.claim()
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.drain(30)
    return {message.message_id for message in world.topics.messages[before:]}


def test_event_of_an_outage_that_outlasts_its_task_is_logged_and_no_other_tasks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its message comes before the id is used again, and once more afterwards."""
    world = World()

    async def story() -> None:
        world.topics.is_down = True
        await live(world, GROUP)
        pointers = [from_json(body["pointer"]) for body, _ in world.messages(EVENTS_QUEUE)]
        await expire(world)
        world.topics.is_down = False
        await come(pointers)
        await live(world, OTHER_GROUP)
        await come(pointers)

    async def come(pointers: list[Event]) -> None:
        caplog.clear()
        sent = len(world.topics.messages)
        for pointer in pointers:
            await world.process().redelivery.event_due(pointer)
        assert all("group" in message.topic for message in world.topics.messages[sent:])
        lines = [record for record in caplog.records if getattr(record, "action", "") == "event_lost"]
        lost = [each for each in pointers if isinstance(each, TaskEvent)]
        assert len(lines) >= len(lost) > 0

    world.run(story())


async def expire(world: World) -> None:
    while A in world.tasks():
        await world.drain(300)
        await world.handlers.expiration.run(300)


@pytest.mark.parametrize("group", [GROUP, OTHER_GROUP])
def test_no_event_of_the_second_task_is_dropped_as_a_repeat_of_the_first_ones(group: str) -> None:
    """The topics recognise a repeat for an hour, and a task may be gone sooner."""
    world = World()

    async def story() -> None:
        first = await live(world, GROUP)
        await expire(world)
        second = await live(world, group)
        assert len(first) == len(second) == 5
        assert not first & second

    world.run(story())
