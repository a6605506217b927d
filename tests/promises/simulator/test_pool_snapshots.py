"""Counts of pools under many readers are read one at a time, and never older than stated."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.base import bounds
from shared.base.dates import format_date
from shared.queue.pools.index import Counts
from shared.queue.tasks.effects import row_of
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from shared.telemetry.instruments import PENDING
from tests.parts.twin.gate import Call, Phase
from tests.promises.simulator.world import POOL, World, unordered


class Readings:
    """Counts readings of pools' indexes, each of which takes some milliseconds; `fails` makes the next one fail."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()
        self.fails = False

    async def __call__(self, call: Call, phase: Phase) -> None:
        if call.kind is Kind.TABLE_READ and call.target == keys.POOLS and not call.keys and phase is Phase.BEFORE:
            self.of[call.subject] += 1
            await world_of[self].clock.sleep(0.01)
            if self.fails:
                self.fails = False
                raise StorageUnavailable


world_of: dict[Readings, World] = {}


def a_world() -> tuple[World, Readings]:
    readings = Readings()
    world = world_of[readings] = unordered(readings)
    return world, readings


async def fill(world: World, count: int) -> None:
    """Writes rows of pending runs, one of which has a task."""
    task_id = await world.create()
    row = row_of(world.tasks()[task_id], 0)
    for _ in range(count - 1):
        await world.services.stores.pools.add_pending(replace(row, task_id=world.slugid()))


async def count(world: World) -> int:
    return (await world.services.pool_views.counts(POOL)).pending


def test_many_who_ask_at_once_share_two_readings() -> None:
    world, readings = a_world()
    world.run(world.create())
    assert world.run(*(count(world) for _ in range(50))) == [1] * 50
    assert readings.of[keys.pool(POOL)] <= 2


def test_who_asks_after_a_write_sees_it_though_a_reading_is_under_way() -> None:
    world, _ = a_world()
    world.run(world.create())

    async def write_and_ask() -> int:
        await world.clock.sleep(0.005)  # in the middle of the first reading
        await world.create()
        return await count(world)

    assert world.run(count(world), write_and_ask())[1] == 2


def test_a_large_pool_is_answered_from_a_copy_for_a_second() -> None:
    world, readings = a_world()

    async def script() -> None:
        await fill(world, bounds.LARGE_POOL)
        assert await count(world) == bounds.LARGE_POOL
        await world.create()
        await world.clock.sleep(0.9)
        assert await count(world) == bounds.LARGE_POOL
        assert readings.of[keys.pool(POOL)] == 1
        await world.clock.sleep(0.2)
        assert await count(world) == bounds.LARGE_POOL + 1

    world.run(script())


def test_a_claim_whose_pending_row_is_left_counts_once() -> None:
    world, _ = a_world()

    async def script() -> None:
        for _ in range(2):
            await world.create()
            await world.clock.sleep(1)
        (claim,) = await world.claim()
        row = row_of(claim.task, 0)
        await world.services.stores.pools.add_pending(replace(row, state=State.PENDING, started=None))
        snapshot = await world.services.task_queue_states._index.snapshot(POOL, world.clock.now())
        assert snapshot.counts == Counts(pending=1, claimed=1)
        assert snapshot.oldest is not None
        assert snapshot.oldest > row.scheduled, "of the run that waits"

    world.run(script())


@pytest.mark.parametrize("rows", [101, 1001])
def test_counts_of_a_partition_of_more_than_a_page(rows: int) -> None:
    world, _ = a_world()
    world.run(fill(world, rows))
    assert world.run(count(world)) == [rows]


def test_the_oldest_run_is_the_first_that_waits_and_is_not_over() -> None:
    world, _ = a_world()

    async def script() -> None:
        index = world.services.task_queue_states._index
        assert (await index.of_pool(POOL)).oldest is None
        first = await world.create(deadline=format_date(world.clock.now() + timedelta(seconds=30)))
        await world.clock.sleep(20)
        second = await world.create()
        scheduled = {task_id: world.tasks()[task_id].runs[0].scheduled for task_id in (first, second)}
        assert (await index.of_pool(POOL)).oldest == scheduled[first]
        await world.clock.sleep(20)
        assert (await index.of_pool(POOL)).oldest == scheduled[second]
        await world.claim(2)
        await world.create()
        ((state,), _) = await world.services.task_queue_states.state_page(start="", limit=10)
        assert state.snapshot.oldest is not None
        assert world.clock.now() - state.snapshot.oldest < timedelta(seconds=5)

    world.run(script())


def test_gauges_of_very_many_pools_are_read_in_turn_and_the_busy_ones_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "MEASURED_QUEUES", 10)
    monkeypatch.setattr(bounds, "MEASURED_IDLE_QUEUES", 4)
    world, readings = a_world()
    pools = [f"p/w{number:02}" for number in range(30)]

    async def script() -> None:
        for name in pools:
            await world.services.stores.pools.queues.ensure_band(name, "lowest")
        await world.create(provisionerId="p", workerType="w20", taskQueueId="p/w20")
        for number in range(8):
            before = sum(readings.of.values())
            await world.handlers.gauges.refresh()
            assert sum(readings.of.values()) - before <= 10, f"refresh {number}"
            gauges = len(world.handlers.runtime.meter.values_of(PENDING))
            assert gauges == 10, "as many as may be, and the others have no value now"
            await world.clock.sleep(60)

    world.run(script())
    assert {keys.pool(name) for name in pools} <= set(readings.of), "each has its turn"
    assert world.handlers.runtime.meter.values_of(PENDING)[("p", "w20")] == 1
    assert readings.of[keys.pool("p/w20")] >= 5, "one that is busy is read each time from then on"
