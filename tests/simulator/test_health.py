"""The verdict on the deployment: silent when all is well, and each way to be unwell is named once, with what to do."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from shared.storage import keys
from shared.storage.counting import Kind
from shared.storage.interface import StorageUnavailable
from shared.storage.internal_messages import CLAIM_QUEUE, EVENTS_QUEUE, INTERNAL_QUEUES
from shared.storage.messages import poison_queue
from shared.usecases.health import BACKLOG, Finding, Health
from shared.usecases.heartbeat import Ask, Heartbeat
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Gate, Phase


def open_world(*gates: Gate) -> World:
    world = World(Simulation.scripted([]), *gates)
    world.is_ordered = False
    return world


def health_of(world: World, **asks: Ask) -> Health:
    expiry = world.services.expiration._expiry
    clock = world.clock
    heartbeat = Heartbeat(asks, lambda: clock.now().timestamp())
    return Health(heartbeat, world.memory.storage.queues, expiry, clock.now, lambda: clock.now().timestamp())


def codes(findings: list[Finding]) -> list[str]:
    assert all(finding.message and finding.remedy for finding in findings)
    return [finding.code for finding in findings]


async def _create_queues(world: World) -> None:
    for queue in INTERNAL_QUEUES:
        await world.memory.storage.queues.create(queue)
        await world.memory.storage.queues.create(poison_queue(queue))


async def looked(world: World, health: Health, seconds: float = 11) -> list[str]:
    """A new look, after so long."""
    await world.clock.sleep(seconds)
    return codes(list(await health.findings()))


def test_all_is_well() -> None:
    world = open_world()

    async def story() -> None:
        await _create_queues(world)
        health = health_of(world)
        assert await looked(world, health) == []
        await world.create()
        for _ in range(10):
            assert await looked(world, health) == []

    world.run(story())


def test_dead_letters_and_a_backlog() -> None:
    world = open_world()

    async def story() -> None:
        await _create_queues(world)
        health, queues = health_of(world), world.memory.storage.queues
        for _ in range(BACKLOG - 1):
            await queues.put(EVENTS_QUEUE, "an event", visible_in=3600)
        assert await looked(world, health) == []
        await queues.put(EVENTS_QUEUE, "an event", visible_in=3600)
        assert await looked(world, health) == ["event-backlog"]
        await queues.put(poison_queue(CLAIM_QUEUE), "a message", visible_in=0)
        assert await looked(world, health) == ["poison-messages", "event-backlog"], "critical ones first"

    world.run(story())


def test_an_overdue_message_is_reported_until_it_is_received() -> None:
    world = open_world()

    async def story() -> None:
        await _create_queues(world)
        health, queues = health_of(world), world.memory.storage.queues
        await queues.put(CLAIM_QUEUE, "a message", visible_in=30)
        assert await looked(world, health) == []
        assert await looked(world, health, 30) == [], "it has just become due"
        assert await looked(world, health, 59) == []
        assert await looked(world, health, 11) == ["claim-late"]
        (message,) = await queues.get(CLAIM_QUEUE, hidden_for=1)
        assert await looked(world, health) == [], "it was received, and is tried again"
        assert await looked(world, health, 61) == ["claim-late"]
        (message,) = await queues.get(CLAIM_QUEUE, hidden_for=60)
        await queues.delete(CLAIM_QUEUE, message.receipt)
        assert await looked(world, health) == []

    world.run(story())


def test_an_expiry_job_that_does_not_run() -> None:
    world = open_world()

    async def story() -> None:
        await _create_queues(world)
        health = health_of(world)
        assert await looked(world, health, timedelta(days=3).total_seconds()) == [], "a new deployment"
        await world.handlers.expiration.run(300)
        assert await looked(world, health) == []
        assert await looked(world, health, timedelta(hours=2).total_seconds()) == []
        assert await looked(world, health, timedelta(hours=2).total_seconds()) == ["expiry-late"]
        await world.handlers.expiration.run(300)
        assert await looked(world, health) == []

    world.run(story())


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("tables", "tables-silent"), ("queues", "queues-silent"), ("Service Bus", "service-bus-silent")],
)
def test_what_does_not_answer(name: str, wanted: str) -> None:
    world = open_world()

    async def fails() -> None:
        raise StorageUnavailable

    async def story() -> None:
        await _create_queues(world)
        assert await looked(world, health_of(world, **{name: fails})) == [wanted]

    world.run(story())


def test_storage_that_fails_in_between() -> None:
    async def gate(call: Call, phase: Phase) -> None:
        if call.target == keys.EXPIRY and call.kind is Kind.TABLE_READ:
            raise StorageUnavailable

    world = open_world(gate)

    async def story() -> None:
        await _create_queues(world)
        assert await looked(world, health_of(world)) == ["storage-slow"]

    world.run(story())


def test_many_who_ask_cost_no_more_than_one() -> None:
    reads = 0

    async def gate(call: Call, phase: Phase) -> None:
        nonlocal reads
        reads += call.target == keys.EXPIRY and phase is Phase.BEFORE

    world = open_world(gate)

    async def story() -> None:
        await _create_queues(world)
        health = health_of(world)
        await asyncio.gather(*(health.findings() for _ in range(20)))
        await health.findings()
        assert reads == 1

    world.run(story())
