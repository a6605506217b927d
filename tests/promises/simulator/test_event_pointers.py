"""Pointers to events that could not be sent: how long they wait, and when they are dead-lettered (design 2.5)."""

from __future__ import annotations

from shared.queue.tasks.internal_messages import EVENTS_QUEUE
from shared.store.counting import Kind
from tests.promises.simulator.queue_host import App, Host, Requests
from tests.promises.simulator.world import unordered


def test_pointers_back_off_as_one_while_service_bus_is_down(app: App) -> None:
    """In an hour without Service Bus, pointers are handled seldom, and only one that is tried costs a read."""
    requests = Requests()
    world = unordered(requests)
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
