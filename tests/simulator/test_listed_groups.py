"""listTaskGroup reads few tasks, and shows what their status says (design 11): with several processes, with faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from shared.app.services import Services
from shared.base.errors import ApiError
from shared.base.priority import PRIORITIES
from shared.queue.tasks.rules import Resolved, State, Worker
from shared.store.interface import StorageUnavailable
from tests.selection import examples
from tests.simulator.failing import FailAt
from tests.simulator.listing import A_SECOND, create, listed, truth
from tests.simulator.running import VICTIM
from tests.simulator.world import POOL, WORKER, World
from tests.twin.driver import Simulation, sample
from tests.twin.gate import Phase, as_process

pytestmark = pytest.mark.usefixtures("rows_vouch_for_few")

Step = Callable[[World, Services], Coroutine[Any, Any, Any]]


def first(world: World, *states: State) -> str:
    """A task in one of these states."""
    return next(task_id for task_id, task in sorted(world.tasks().items()) if task.state in states)


# One step after the other


def a_walk(seed: int) -> None:
    """Random calls by two processes and the handlers, with listings in between."""
    world, chance = World(), random.Random(seed)
    world.is_ordered = False
    processes = [world.services, world.process()]
    workers = [WORKER, Worker(worker_group="group", worker_id="other")]

    async def step(services: Services) -> None:
        tasks = world.tasks()
        some = chance.choice(sorted(tasks)) if tasks else ""
        match chance.randrange(10):
            case 0 | 1 if len(tasks) < 12:
                await create(world, services, dependencies=[some] if some and chance.random() < 0.6 else [])
            case 2 | 3:
                await services.work.claim_work(POOL, chance.choice(workers), chance.randint(1, 3), 0)
            case 4:
                done = chance.choice([Resolved.COMPLETED, Resolved.COMPLETED, Resolved.FAILED])
                await services.lifecycle.report(some, max(tasks[some].last_run_id, 0), done)
            case 5:
                reason = chance.choice([Resolved.WORKER_SHUTDOWN, Resolved.INTERNAL_ERROR])
                await services.lifecycle.report_exception(some, max(tasks[some].last_run_id, 0), reason)
            case 6:
                await services.work.reclaim_task(some, max(tasks[some].last_run_id, 0))
            case 7:
                move = chance.choice([services.lifecycle.cancel, services.lifecycle.schedule, services.lifecycle.rerun])
                await move(await services.lifecycle.existing(some))
            case 8:
                read = await services.lifecycle.existing(some)
                await services.lifecycle.change_priority(read, chance.choice(PRIORITIES))
            case _:
                await world.clock.sleep(chance.choice([1.0, 30.0, 400.0, 1300.0]))
                await world.handle_visible()
                await world.clock.sleep(A_SECOND)  # another process has handled it

    async def walk() -> None:
        await create(world, processes[0])
        for _ in range(60):
            services = chance.choice(processes)
            with suppress(ApiError, KeyError):
                await step(services)
            assert await listed(services, chance.choice([3, 1000])) == truth(world), "at once in the same process"
            await world.clock.sleep(A_SECOND)
            for each in processes:
                assert await listed(each, chance.choice([3, 1000])) == truth(world), "a second later in each"

    world.run(walk())


def test_listing_says_what_statuses_say() -> None:
    for seed in range(6):
        try:
            a_walk(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


# A call that meets a listing, or a fault


async def _claim(world: World, services: Services) -> None:
    await services.work.claim_work(POOL, WORKER, 1, 0)


async def _claim_by_task(world: World, services: Services) -> None:
    read = await services.lifecycle.existing(first(world, State.PENDING, State.RUNNING))
    await services.work.claim_task(read, 0, WORKER)


async def _cancel_pending(world: World, services: Services) -> None:
    await services.lifecycle.cancel(await services.lifecycle.existing(first(world, State.PENDING, State.EXCEPTION)))


async def _cancel_unscheduled(world: World, services: Services) -> None:
    await services.lifecycle.cancel(await services.lifecycle.existing(first(world, State.UNSCHEDULED, State.EXCEPTION)))


async def _schedule(world: World, services: Services) -> None:
    await services.lifecycle.schedule(await services.lifecycle.existing(sorted(world.tasks())[-1]))


async def _rerun_unscheduled(world: World, services: Services) -> None:
    await services.lifecycle.rerun(await services.lifecycle.existing(sorted(world.tasks())[-1]))


async def _change_priority(world: World, services: Services) -> None:
    await services.lifecycle.change_priority(await services.lifecycle.existing(first(world, State.PENDING)), "high")


async def _change_priority_of_unscheduled(world: World, services: Services) -> None:
    await services.lifecycle.change_priority(await services.lifecycle.existing(first(world, State.UNSCHEDULED)), "high")


async def _create(world: World, services: Services) -> None:
    await create(world, services)


async def _run_whole(world: World, services: Services) -> None:
    """All that happens to a task, and to the one that waits for it, up to its end."""
    for _ in range(2):
        for claim in await services.work.claim_work(POOL, WORKER, 32, 0):
            await services.lifecycle.report(claim.task.task_id, claim.run_id, Resolved.COMPLETED)
        await world.clock.sleep(2)
        await world.handle_visible()


async def _retry(world: World, services: Services) -> None:
    for claim in await services.work.claim_work(POOL, WORKER, 32, 0):
        await services.lifecycle.report_exception(claim.task.task_id, claim.run_id, Resolved.WORKER_SHUTDOWN)


async def _schedule_and_retry(world: World, services: Services) -> None:
    await _schedule(world, services)
    await _retry(world, services)


async def _schedule_and_cancel(world: World, services: Services) -> None:
    """No index row is left, nor has the member row changed before the resolution is settled."""
    await _schedule(world, services)
    await services.lifecycle.cancel(await services.lifecycle.existing(sorted(world.tasks())[-1]))


async def _schedule_claim_and_cancel(world: World, services: Services) -> None:
    await _schedule(world, services)
    await services.work.claim_work(POOL, WORKER, 32, 0)
    await services.lifecycle.cancel(await services.lifecycle.existing(sorted(world.tasks())[-1]))


CALLS: list[Step] = [
    _claim, _claim_by_task, _cancel_pending, _cancel_unscheduled, _schedule, _rerun_unscheduled, _change_priority,
    _change_priority_of_unscheduled, _create, _run_whole, _retry, _schedule_and_retry,
    _schedule_and_cancel, _schedule_claim_and_cancel,
]  # fmt: skip
REPEATED: list[Step] = [
    call for call in CALLS if call not in {_change_priority, _change_priority_of_unscheduled, _create, _run_whole}
]
"""Calls whose repeat acknowledges the first."""


async def _prepare(world: World) -> list[Services]:
    """A pending task, and one that waits for it; of both, two processes know the status, by the rows."""
    processes = [world.services, world.process()]
    pending = await create(world, processes[0])
    await create(world, processes[0], dependencies=[pending])
    for _ in range(3):
        await world.clock.sleep(2)
        for services in processes:
            assert await listed(services) == truth(world)
    await world.clock.sleep(2)  # so that a listing asks the rows
    return processes


async def _check(world: World, processes: list[Services]) -> None:
    await world.clock.sleep(A_SECOND)
    for services in [*processes, world.process()]:
        assert await listed(services) == truth(world)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__.strip("_"))
def test_listing_beside_a_call(call: Step) -> None:
    def scenario(simulation: Simulation) -> None:
        world = World(simulation)
        world.is_ordered = False
        (processes,) = world.run(_prepare(world))

        async def lists() -> None:
            for _ in range(3):
                await world.clock.sleep(0.4)
                await listed(processes[1])

        world.is_ordered = True
        world.run(call(world, processes[0]), lists(), listed(processes[1]), listed(processes[1]))
        world.is_ordered = False
        world.run(_check(world, processes))

    sample(scenario, range(examples(60)), yield_after=True)


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("call", REPEATED, ids=lambda call: call.__name__.strip("_"))
def test_listing_after_a_call_that_met_a_fault(call: Step, phase: Phase) -> None:
    """The call is acknowledged, at once or when it is sent again: then the listing shows what it has done."""
    number, sent = 1, 1
    while number <= sent:
        fault = FailAt(number, phase)
        world = World(None, fault)
        world.is_ordered = False

        async def story(world: World = world) -> None:
            processes = await _prepare(world)
            try:
                await as_process(VICTIM, call(world, processes[0]))
            except (StorageUnavailable, ApiError):
                await world.clock.sleep(A_SECOND)
                await listed(processes[1])
                await call(world, processes[0])
            await _check(world, processes)

        try:
            world.run(story())
        except BaseException as error:
            error.add_note(f"request {number}")
            raise
        number, sent = number + 1, max(sent, fault.sent)
