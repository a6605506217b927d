"""With a failing Service Bus, each acknowledged event arrives once; the queue of pointers is a plain list here."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from shared.queue.events.announcer import EventsUnavailable, from_json, to_json
from shared.queue.events.publisher import EventPublisher
from shared.queue.events.rendering import EventMessage, render
from shared.queue.events.rules import TaskEvent
from tests.promises.events.builders import Life
from tests.promises.events.receiving import SUBSCRIPTION, publishing, received, stored
from tools.local.service_bus import ServiceBus

TOPICS = ("task-pending", "task-running")
CALLS_AT_A_TIME = 20


@pytest.fixture
def bus() -> Iterator[ServiceBus]:
    with ServiceBus.start(TOPICS, subscriptions=[SUBSCRIPTION]) as running:
        yield running


class Service:
    """A service that publishes events or else keeps pointers, and drains the pointers, oldest first."""

    def __init__(self, publisher: EventPublisher) -> None:
        self.publisher = publisher
        self.lives: dict[str, Life] = {}
        self.pointers: list[str] = []
        self.sent: list[EventMessage] = []

    def live(self) -> list[EventMessage]:
        """Returns the two events of a new task that becomes pending and is claimed."""
        task_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        life = self.lives[task_id] = Life.begin(task_id=task_id)
        return [*life.schedule(), *life.claim()]

    async def run_a_task(self, timeout: float | None = None) -> None:
        """Makes one call of the service: whatever happens, its events are announced or kept."""
        messages = self.live()
        self.sent += messages
        try:
            await self.publisher.publish(messages, timeout)
        except EventsUnavailable as error:
            self.pointers += [to_json(message.event) for message in error.unsent]

    async def drain(self) -> None:
        """Handles pointers as the handler of the `events` queue does: each is tried until its event is out."""
        async with asyncio.timeout(60):
            while self.pointers:
                batch = [self._rendered(pointer) for pointer in self.pointers[:100]]
                try:
                    await self.publisher.publish(batch, timeout=30)
                except EventsUnavailable:
                    await asyncio.sleep(0.1)
                else:
                    del self.pointers[:100]

    def _rendered(self, pointer: str) -> EventMessage:
        event = from_json(pointer)
        assert isinstance(event, TaskEvent)
        life = self.lives[event.task_id]
        return render(event, life.definition, life.task)


async def run_tasks(service: Service, tasks: int) -> None:
    gate = asyncio.Semaphore(CALLS_AT_A_TIME)

    async def call() -> None:
        async with gate:
            await service.run_a_task()

    await asyncio.gather(*(call() for _ in range(tasks)))


async def assert_all_arrived_once(bus: ServiceBus, sent: list[EventMessage]) -> None:
    for topic in TOPICS:
        wanted = {message.message_id: message.body for message in sent if message.topic == topic}
        got = await received(bus, topic, len(wanted))
        assert len(got) == stored(bus, topic), "nothing is there besides"
        assert Counter(message.message_id for message in got) == dict.fromkeys(wanted, 1)
        assert {message.message_id: str(message).encode() for message in got} == wanted


async def through_failures(bus: ServiceBus, events: int, condition: str, *, stored: bool) -> None:
    async with publishing(bus) as publisher:
        service = Service(publisher)
        await service.run_a_task()
        bus.refuse(condition, every=10, stored=stored)
        await run_tasks(service, events // 2 - 1)
        await service.drain()
        assert bus.state()["hits"] > 0
    assert len(service.sent) == events
    await assert_all_arrived_once(bus, service.sent)


@pytest.mark.parametrize(
    ("condition", "stored"),
    [("com.microsoft:server-busy", False), ("amqp:internal-error", False), ("com.microsoft:timeout", True)],
)
async def test_hundreds_of_events_through_a_broker_that_fails_one_send_in_ten(
    bus: ServiceBus, condition: str, stored: bool
) -> None:
    await through_failures(bus, 300, condition, stored=stored)


async def test_nothing_is_lost_when_service_bus_goes_away_under_load(bus: ServiceBus) -> None:
    async with publishing(bus) as publisher:
        service = Service(publisher)
        await service.run_a_task()
        load = asyncio.create_task(run_tasks(service, 200))
        await asyncio.sleep(0.01)
        bus.go_away()
        await load
        assert service.pointers
        bus.come_back()
        await service.drain()
    await assert_all_arrived_once(bus, service.sent)
