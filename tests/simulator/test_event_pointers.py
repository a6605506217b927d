"""Pointers to events that could not be sent: how long they wait, and when they are dead-lettered (design 2.5)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from shared.base.retrying import UNSENT_EVENTS
from shared.queue.events import rules as announcements
from shared.queue.events.pointers import from_json, to_json
from shared.queue.tasks.due import SPREAD, Postponed
from shared.queue.tasks.internal_messages import EVENTS_QUEUE
from shared.store.counting import Kind
from tests.simulator.queue_host import App, Host, Requests, a_world
from tests.simulator.world import World


async def a_pointer(world: World) -> dict[str, Any]:
    """The pointer to an event of a new task."""
    task_id = await world.create()
    loaded = await world.services.stores.tasks.load(task_id)
    assert loaded is not None
    event = world.services.stores.announcer.rendered(announcements.pending(loaded.task, 0), loaded).event
    body: dict[str, Any] = json.loads(to_json(event))
    return body


def test_pointers_back_off_as_one_while_service_bus_is_down(app: App) -> None:
    """An hour of it: each pointer is handled seldom, and only the one that is tried costs a read."""
    requests = Requests()
    world = a_world(requests)
    host = Host(app, world)

    async def story() -> None:
        world.topics.is_down = True
        for _ in range(40):
            await world.create()
        requests.counts.clear()
        await host.run(EVENTS_QUEUE, 3600)
        handled, reads = sum(host.handled.values()), requests.counts[Kind.TABLE_READ, "Tasks"]
        assert max(host.handled.values()) <= 30
        assert requests.counts[Kind.QUEUE_PUT, EVENTS_QUEUE] == handled, "each is put again, once"
        assert handled <= 80 * 30
        assert reads <= 2 * 30, "one pointer of each of the two topics is tried in a pause"
        world.topics.is_down = False
        world.topics.messages.clear()
        await host.run(EVENTS_QUEUE, 300)
        assert {body["status"]["taskId"] for body in world.topics.of("task-pending")} == set(world.tasks())
        assert await world.memory.storage.queues.length(EVENTS_QUEUE) == 0

    world.run(story())


def test_pointers_that_are_handled_side_by_side_count_as_one_attempt(app: App) -> None:
    world = a_world()
    redelivery = world.handlers.redelivery
    attempts: list[int] = []
    publish = world.topics.publish

    async def counted(messages: Any) -> None:
        attempts.append(len(messages))
        await asyncio.sleep(0)  # lets the others come in between
        await publish(messages)

    async def together(count: int) -> list[float]:
        """The delays of those that were postponed."""
        event = from_json(json.dumps(await a_pointer(world), separators=(",", ":")))
        attempts.clear()  # of the creation of the pointer's task
        outcomes = await asyncio.gather(*(redelivery.event_due(event) for _ in range(count)), return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, Postponed) for outcome in outcomes), outcomes
        return [outcome.delay for outcome in outcomes if isinstance(outcome, Postponed)]

    async def story() -> None:
        world.topics.publish = counted  # type: ignore[method-assign]
        first, spread = UNSENT_EVENTS.first, SPREAD
        world.topics.is_down = True
        assert max(await together(20)) <= first + spread, "they failed together, so the pause is that of one failure"
        await world.clock.sleep(first)
        delays = await together(20)
        assert len(delays) == 20
        assert max(delays) <= 2 * first + spread
        assert len(attempts) == 1, "a single one is tried after a pause"
        world.topics.is_down = False
        await world.clock.sleep(2 * first)
        assert await together(20) == []
        world.topics.is_down = True
        assert max(await together(1)) <= first + spread, "the next outage begins anew"

    asyncio.run(story())


def test_an_outage_of_one_topic_does_not_hold_up_the_pointers_of_others(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world()
    host = Host(app, world)
    publish = world.topics.publish

    async def refuse_one(messages: Any) -> None:
        world.topics.is_down = any(message.topic == "task-defined" for message in messages)
        await publish(messages)

    async def story() -> None:
        world.topics.is_down = True
        await world.create()
        monkeypatch.setattr(world.topics, "publish", refuse_one)
        await host.run(EVENTS_QUEUE, 60)
        assert world.topics.of("task-pending")
        assert not world.topics.of("task-defined")

    world.run(story())


def test_a_damaged_pointer_is_dead_lettered_at_once(app: App) -> None:
    world = a_world()
    host = Host(app, world)

    async def story() -> None:
        text = json.dumps(await a_pointer(world), separators=(",", ":")).replace("exchange", "exchanged")
        await world.services.stores.messages.put_pointer(text)
        await host.run(EVENTS_QUEUE, 5)
        assert host.outcomes == ["poison"]

    world.run(story())
