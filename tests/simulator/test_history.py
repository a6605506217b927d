"""The history: every run is counted once, whatever becomes of processes and of the timer, in bounded space."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from shared.app.services import Services
from shared.overview.history import MINUTES_KEPT
from shared.queue.pools import load as history_rows
from shared.queue.pools.load import HOURS, MINUTES, Figures, Sample, class_of, floor, seconds_of, summed_up
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.counting import Kind, counting
from shared.store.interface import StorageUnavailable
from tests.azurite.budget_table import figures
from tests.simulator.queue_host import App
from tests.simulator.world import POOL, World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Gate, Killed, Phase


def open_world(*gates: Gate) -> World:
    world = World(Simulation.scripted([]), *gates)
    world.is_ordered = False
    return world


async def next_sample(world: World, services: Services | None = None) -> None:
    """At the next time of the timer."""
    now = world.clock.now()
    await world.clock.sleep((floor(now, MINUTES) + MINUTES + timedelta(seconds=15) - now).total_seconds())
    await (services or world.handlers).history.sample()


async def cancel(world: World, services: Services, count: int) -> None:
    """Tasks that are resolved at once, by a process that writes what it has counted."""
    for task_id in [await world.create() for _ in range(count)]:
        await services.lifecycle.cancel(await services.lifecycle.existing(task_id))
    await services.history.flush()


async def read(world: World, queue: str | None = None, days: float = 1) -> list[tuple[datetime, Figures]]:
    """What the endpoint shows."""
    return (await world.services.history.read(queue, world.clock.now() - timedelta(days=days)))[1]


def resolved(found: list[tuple[datetime, Figures]]) -> list[int]:
    return [figures.exception for _, figures in found]


class Trouble:
    """Does something at a request to the History table, once: at the nth from when it is set."""

    def __init__(self) -> None:
        self.error: type[BaseException] = Killed
        self.left, self.phase = -1, Phase.BEFORE

    def at(self, number: int, phase: Phase, error: type[BaseException] = Killed) -> None:
        self.left, self.phase, self.error = number, phase, error

    async def __call__(self, call: Call, phase: Phase) -> None:
        if call.target == keys.HISTORY and phase is self.phase:
            self.left -= 1
            if self.left == 0:
                raise self.error


def test_what_waits_runs_and_has_happened() -> None:
    world = open_world()

    async def story() -> None:
        ids = [await world.create() for _ in range(5)]
        await world.clock.sleep(100)
        await world.claim(4)
        lifecycle = world.services.lifecycle
        await lifecycle.report(ids[0], 0, Resolved.COMPLETED)
        await lifecycle.report(ids[1], 0, Resolved.FAILED)
        await lifecycle.report_exception(ids[2], 0, Resolved.MALFORMED_PAYLOAD)
        await world.drain(3)
        await world.services.history.flush()
        await next_sample(world)
        ((time, figures),) = await read(world)
        assert time == floor(world.clock.now(), MINUTES)
        assert (figures.pending, figures.claimed) == (1, 1)
        assert figures.oldest >= 100
        assert (figures.completed, figures.failed, figures.exception) == (1, 1, 1)
        assert figures.waits.total() == 4
        assert figures.wait(0.5) == pytest.approx(100, rel=0.1)
        assert await read(world, POOL) == [(time, figures)]
        assert await read(world, "another/queue") == [(time, Figures())]

    world.run(story())


def test_every_process_counts_and_nothing_is_counted_twice() -> None:
    world = open_world()

    async def story() -> None:
        other = world.process()
        for services, count in ((world.services, 2), (other, 3)):
            await cancel(world, services, count)
            await services.history.flush()  # nothing new
        await next_sample(world)
        await next_sample(world, other)  # as after the timer moved to another process
        await world.handlers.history.sample()  # and back, at the same time
        assert resolved(await read(world)) == [5, 0]
        assert world.memory.rows(keys.HISTORY, "tallies") == []

    world.run(story())


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("number", range(1, 8))
def test_a_sample_that_dies_at_any_request_is_made_up_for(number: int, phase: Phase) -> None:
    trouble = Trouble()
    world = open_world(trouble)

    async def story() -> None:
        await cancel(world, world.services, 2)
        await next_sample(world)
        await cancel(world, world.services, 3)
        trouble.at(number, phase)
        dies = world.process()
        with suppress(Killed):
            await next_sample(world, dies)
        await cancel(world, world.services, 4)
        await next_sample(world, world.process())
        assert sum(resolved(await read(world))) == 9
        assert sum(resolved(await read(world, POOL))) == 9
        assert world.memory.rows(keys.HISTORY, "tallies") == []

    world.run(story())


@pytest.mark.parametrize("phase", Phase)
def test_counts_that_could_not_be_written_are_written_once_later(phase: Phase) -> None:
    trouble = Trouble()
    world = open_world(trouble)

    async def story() -> None:
        trouble.at(1, phase, StorageUnavailable)
        with pytest.raises(StorageUnavailable):
            await cancel(world, world.services, 2)
        await cancel(world, world.services, 1)
        await world.services.history.flush()
        await next_sample(world)
        assert resolved(await read(world)) == [3]

    world.run(story())


def test_a_process_goes_on_flushing_when_storage_was_away() -> None:
    trouble = Trouble()
    world = open_world(trouble)

    async def story() -> None:
        flushing = asyncio.create_task(world.services.history.keep_flushing())
        await world.clock.sleep(1)
        for task_id in [await world.create(), await world.create()]:
            trouble.at(1, Phase.BEFORE, StorageUnavailable)
            await world.services.lifecycle.cancel(await world.services.lifecycle.existing(task_id))
            await world.clock.sleep(150)
        await next_sample(world)
        flushing.cancel()
        assert sum(resolved(await read(world))) == 2

    world.run(story())


def test_a_timer_that_stood_still_counts_all_of_it_later() -> None:
    world = open_world()

    async def story() -> None:
        await next_sample(world)
        for _ in range(3):
            await cancel(world, world.services, 1)
            await world.clock.sleep(1800)
        await next_sample(world)
        assert resolved(await read(world)) == [0, 3]

    world.run(story())


def test_hours_are_summed_up_and_old_samples_removed() -> None:
    world = open_world()

    async def story() -> None:
        await world.clock.sleep((floor(world.clock.now(), HOURS) + HOURS - world.clock.now()).total_seconds())
        await world.create()
        for count in range(1, 13):
            await cancel(world, world.services, count)
            await next_sample(world)
        minutes = await read(world)
        assert resolved(minutes) == [*range(1, 13)]
        ((time, hour),) = await read(world, days=10)
        assert time == minutes[-1][0]
        assert (hour.pending, hour.claimed, hour.exception) == (1, 0, sum(range(1, 13)))
        assert hour.oldest == max(figures.oldest for _, figures in minutes)
        assert await read(world, POOL, days=10) == [(time, hour)]
        await world.clock.sleep((MINUTES_KEPT + HOURS).total_seconds())
        await next_sample(world, world.process())
        assert len(world.memory.rows(keys.HISTORY, "minutes")) == 1
        assert [row[0] for row in await read(world, days=10)] == [time]
        await world.clock.sleep(timedelta(days=30).total_seconds())
        await next_sample(world, world.process())
        assert [row[0] for row in await read(world, days=60)] != [time]
        assert time not in {row[0] for row in await read(world, days=60)}

    world.run(story())


def test_loads_are_the_mean_of_all_samples_of_an_hour() -> None:
    """Also of those in which a task queue had nothing to tell."""
    time = World().clock.now()
    busy = Figures(pending=6, claimed=2, oldest=9, failed=1)
    samples = [Sample(time=time, total=busy, queues={POOL: busy}), Sample(time=time, total=Figures(), queues={})]
    mean = Figures(pending=3, claimed=1, oldest=9, failed=1)
    assert summed_up(time, samples) == Sample(time=time, total=mean, queues={POOL: mean})


def test_counts_that_another_process_has_removed_leave_no_others_behind() -> None:
    world = open_world()

    async def story() -> None:
        store = world.services.history._store
        names = [world.slugid() for _ in range(5)]
        for name in (names[0], names[2], names[4]):
            await store.add_tally(name, {POOL: Figures(failed=1)})
        await store.remove_tallies(names)
        later = world.clock.now() + timedelta(hours=1)
        assert (await store.tallies(None, later)).keys == []

    world.run(story())


def test_counts_of_very_many_minutes_are_all_in_the_next_sample() -> None:
    """As after a day in which the timer did not run: more rows than a few pages."""
    world = open_world()

    async def story() -> None:
        await world.handlers.history.sample()
        store, number = world.services.history._store, 2_500
        for _ in range(number):
            await store.add_tally(world.slugid(), {POOL: Figures(completed=1)})
        for _ in range(2):
            await world.clock.sleep(300)
            await world.handlers.history.sample()
        now = world.clock.now()
        totals = await store.totals("minutes", now - timedelta(days=1), now)
        assert sum(figures.completed for _, figures in totals) == number
        assert (await store.tallies(None, now)).keys == []

    world.run(story())


def test_a_process_that_ends_in_order_writes_what_it_has_counted(app: App) -> None:
    world = open_world()

    async def story() -> None:
        task_id = await world.create()
        await world.services.lifecycle.cancel(await world.services.lifecycle.existing(task_id))
        flushing = asyncio.create_task(world.services.history.keep_flushing())
        await app.messages.process._finish(world.services, flushing)
        await next_sample(world)
        assert flushing.cancelled()
        assert resolved(await read(world)) == [1]

    world.run(story())


def test_a_sample_costs_a_bounded_number_of_requests_and_nothing_until_the_next_one() -> None:
    world = open_world()

    async def story() -> None:
        await next_sample(world)
        with counting() as again:
            await world.handlers.history.sample()
        assert again.total == 0
        for _ in range(150):
            await world.services.history._store.add_tally(world.slugid(), {POOL: Figures(failed=1)})
        await world.clock.sleep(300)
        with counting() as operations:
            await world.handlers.history.sample()
        of_history = [each for each in operations.requests if each.target == keys.HISTORY]
        assert Counter(each.kind for each in of_history) == {Kind.TABLE_READ: 2 + 1, Kind.TABLE_WRITE: 1 + 2}
        besides = operations.total - len(of_history) + 2 + 1  # counts, and the gauge of refused clients
        row = figures("history … a sample every 5 minutes, n for its gauges and for each 100 counts", n=besides)
        assert operations.total == row.operations

    world.run(story())


def test_very_many_task_queues_fit_into_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_rows, "QUEUES_A_PART", 2)
    world = open_world()

    async def story() -> None:
        many = {f"p/w{number:03}": Figures(failed=number + 1) for number in range(200)}
        await world.services.history._store.add_tally("one", many)
        await next_sample(world)
        assert await read(world, "p/w000") != []
        kept = [name for name in many if (await read(world, name))[0][1].failed]
        assert len(kept) == 2 * history_rows.PARTS
        assert "p/w199" in kept

    world.run(story())


def test_the_largest_row_is_one_that_azure_takes() -> None:
    world = open_world()

    async def story() -> None:
        worst = Figures(pending=10**6, claimed=10**6, oldest=10**6, completed=10**6, failed=10**6, exception=10**6)
        generator = random.Random(1)
        for number in range(class_of(10**9) + 1):
            worst.waits[number] = generator.randrange(10**5)
        name = "provisioner-with-the-longest-name-there-is/{:038}"
        await world.services.history._store.add_tally("one", {name.format(number): worst for number in range(3000)})
        await next_sample(world)
        assert len(world.memory.rows(keys.HISTORY, "minutes")) == 1

    world.run(story())


def test_classes_of_waiting_times() -> None:
    assert class_of(0) == class_of(0.1) == 0
    for seconds in (0.11, 1, 59, 3600, 86_400, 5 * 86_400):
        assert seconds_of(class_of(seconds)) == pytest.approx(seconds, rel=0.1)
    assert class_of(10**9) == class_of(10**8), "no more classes than that"


def test_shares_of_waiting_times() -> None:
    figures = Figures(waits=Counter({class_of(1): 90, class_of(60): 6, class_of(600): 4}))
    assert figures.wait(0.5) == pytest.approx(1, rel=0.1)
    assert figures.wait(0.95) == pytest.approx(60, rel=0.1)
    assert figures.wait(1) == pytest.approx(600, rel=0.1)
    assert Figures().wait(0.5) is None
