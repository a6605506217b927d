"""Lost messages come back, whatever else waits in the pool; other messages are left alone; the work is bounded."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.base import bounds
from shared.base.priority import PRIORITIES, Priority
from shared.base.protocol import ORPHAN_AFTER, OVERDUE
from shared.queue.tasks import reconciler
from shared.queue.tasks.effects import row_of
from shared.queue.tasks.internal_messages import DEADLINE_QUEUE
from shared.queue.tasks.messages import pending_queue
from shared.store import keys
from shared.store.counting import Kind, counting
from shared.store.interface import StorageUnavailable
from tests.parts.twin.gate import Call, Fail, Phase
from tests.promises.simulator.running import done
from tests.promises.simulator.situations import A, C
from tests.promises.simulator.world import POOL, World, unordered

INTERVAL = 300.0
"""Seconds between two runs of the timer function."""


async def lose(world: World, band: Priority, pool: str = POOL) -> None:
    """Deletes the first message of a band, as somebody with a poll URL may."""
    messages = world.services.stores.messages
    (taken,) = await messages.poll(pool, band, count=1, hidden_for=60)
    await messages.remove_message(taken.handle)


async def checks(world: World, count: int) -> None:
    """Runs the timer function `count` times, each time in a process of its own."""
    for _ in range(count):
        await world.clock.sleep(INTERVAL)
        await world.process().reconciler.check_all()


def offered(world: World, band: Priority, pool: str = POOL) -> list[str]:
    return [body["taskId"] for body, _ in world.messages(pending_queue(pool, band))]


@pytest.mark.parametrize("band", PRIORITIES)
def test_a_lost_message_is_restored_behind_a_hundred_waiting_runs_of_another_band(band: Priority) -> None:
    world = unordered()
    other: Priority = "lowest" if band != "lowest" else "highest"

    async def script() -> None:
        for _ in range(120):
            await world.create(priority=other)
        await world.clock.sleep(60)
        await world.create(A, priority=band)
        await lose(world, band)
        await checks(world, 2)

    done(world, script())
    assert offered(world, band) == [A]


def test_a_lost_message_behind_a_thousand_rows_is_restored() -> None:
    world = unordered()

    async def script() -> None:
        task_id = await world.create(priority="lowest")
        row = row_of(world.tasks()[task_id], 0)
        for _ in range(1000):
            await world.services.stores.pools.add_pending(replace(row, task_id=world.slugid()))
        await world.clock.sleep(1)
        await world.create(A, priority="highest")
        await lose(world, "highest")
        await checks(world, 2)

    done(world, script())
    assert offered(world, "highest") == [A]


@pytest.mark.parametrize("position", [0, 9, 10, 29, 30, 55, 79, 80])
def test_every_row_has_its_turn_in_bounded_work(position: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row has its turn in bounded work: of 80 rows, 10 a page, a check reads the oldest page and two more, so
    that four checks see all."""
    monkeypatch.setattr(reconciler, "MAX_PAGE", 10)
    monkeypatch.setattr(bounds, "RECONCILED_PAGES", 3)
    world = unordered()

    async def script() -> None:
        for number in range(81):
            if number == position:
                await world.create(A, priority="highest")
            else:
                await world.create(priority="lowest")
            await world.clock.sleep(0.01)
        await lose(world, "highest")
        await world.clock.sleep(INTERVAL)
        for _ in range(5):
            with counting() as operations:
                await world.process().reconciler.check_all()
            assert operations.total <= 2 + 3 + 2 + 3 * 2 + 7, "directory, pages, cursor, heads, one repair"

    done(world, script())
    assert offered(world, "highest") == [A]


@pytest.mark.parametrize("error", [StorageUnavailable, ValueError])
def test_a_task_that_cannot_be_repaired_keeps_no_other_from_it(error: type[Exception]) -> None:
    async def broken(call: Call, phase: Phase) -> None:
        if phase is Phase.BEFORE and call.target == keys.TASKS and call.subject == C and world_is_ready:
            raise error("unreadable")

    world_is_ready = False
    world = unordered(broken)

    async def script() -> None:
        nonlocal world_is_ready
        for task_id in (C, A):
            await world.create(task_id)
            await lose(world, "lowest")
        world_is_ready = True
        await checks(world, 1)

    done(world, script())
    assert offered(world, "lowest") == [A]


def test_a_pool_that_cannot_be_checked_keeps_no_other_from_it() -> None:
    async def broken(call: Call, phase: Phase) -> None:
        if phase is Phase.BEFORE and call.subject == keys.pool("a/broken") and world_is_ready:
            raise StorageUnavailable

    world_is_ready = False
    world = unordered(broken)

    async def script() -> None:
        nonlocal world_is_ready
        await world.create(provisionerId="a", workerType="broken", taskQueueId="a/broken")
        await world.create(A)
        await lose(world, "lowest")
        world_is_ready = True
        await checks(world, 1)

    done(world, script())
    assert offered(world, "lowest") == [A]


def test_claimed_rows_that_could_not_be_read_are_looked_at_by_the_next_check() -> None:
    """Claimed rows that could not be read are looked at by the next check, not only an hour later."""
    gate = Fail(lambda call: call.kind is Kind.TABLE_READ and call.target == keys.POOLS, times=0)
    world = unordered(gate)

    async def story() -> None:
        await world.create(A)
        await world.claim()
        await world.clock.sleep(24 * 3600)  # no message is handled, so that its row is overdue
        gate.times = 1
        assert await world.services.reconciler.check_all() == 0
        assert await world.services.reconciler.check_all() == 1

    world.run(story())


@pytest.mark.parametrize(("seconds", "left"), [(-5, 1), (5, 0)])
def test_a_row_without_a_task_stays_for_as_long_as_its_call_may_commit(seconds: float, left: int) -> None:
    world = unordered()

    async def story() -> None:
        await world.create(C)
        await lose(world, "lowest")
        row = row_of(world.tasks()[C], 0)
        await world.services.stores.pools.add_pending(replace(row, task_id=A, scheduled=world.clock.now()))
        await world.clock.sleep(ORPHAN_AFTER.total_seconds() + seconds)
        await world.process().reconciler.check_pool(POOL)

    world.run(story())
    assert sum(A in row.key for row in world.rows(keys.POOLS)) == left


@pytest.mark.parametrize(("seconds", "messages"), [(-5, 1), (5, 2)])
@pytest.mark.parametrize("is_claimed", [False, True])
def test_a_deadline_message_counts_as_lost_an_hour_after_the_deadline(
    is_claimed: bool, seconds: float, messages: int
) -> None:
    """A deadline message counts as lost an hour after the deadline: sooner, its handler may only be late."""
    world = unordered()

    async def story() -> None:
        await world.create(A)
        if is_claimed:
            await world.claim()
        overdue = world.tasks()[A].deadline + OVERDUE
        await world.clock.sleep((overdue - world.clock.now()).total_seconds() + seconds)
        await world.process().reconciler.check_pool(POOL)

    world.run(story())
    assert len(world.messages(DEADLINE_QUEUE)) == messages


def test_a_row_of_another_call_that_would_have_created_the_task_goes() -> None:
    """A row of another call that would have created the task is removed: the task does not know of that call."""
    world = unordered()

    async def story() -> None:
        await world.create(A)
        await lose(world, "lowest")
        row = row_of(world.tasks()[A], 0)
        late = replace(row, scheduled=row.scheduled + timedelta(seconds=1))
        await world.services.stores.pools.add_pending(late)
        await checks(world, 1)
        own = [each.since for each in (await world.services.stores.pools.runs(POOL, 10))[0]]
        assert own == [row.scheduled]

    world.run(story())
    assert offered(world, "lowest") == [A]
