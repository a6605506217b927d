"""Counts and lists of a pool, and of a worker that is gone, are exact whatever has happened (contract 9, 4.2)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.queue.tasks.effects import ChangePoolRows, row_of
from shared.queue.tasks.rows import Loaded
from shared.queue.tasks.rules import Resolved, State, Worker
from tests.parts.twin.gate import Kill, Phase
from tests.promises.simulator import invariants
from tests.promises.simulator.failing import FailAt
from tests.promises.simulator.running import attempt, requests
from tests.promises.simulator.scenarios import SCENARIOS
from tests.promises.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World

ANOTHER = Worker(worker_group="group", worker_id="another")


@pytest.fixture
def world() -> World:
    return World()


async def counts(world: World) -> tuple[int, int]:
    found = await world.services.pool_views.counts(POOL)
    return found.pending, found.claimed


async def pending(world: World) -> list[str]:
    return _ids((await world.services.pool_views.pending(POOL, start="", limit=1000))[0])


async def claimed(world: World) -> list[str]:
    return _ids((await world.services.pool_views.claimed(POOL, start="", limit=1000))[0])


async def removed(world: World, worker: Worker = WORKER) -> list[tuple[str, int]]:
    runs, resume = await world.services.workers.removed(POOL, worker, start="")
    assert resume is None
    return runs


def _ids(tasks: list[Loaded]) -> list[str]:
    return [each.task.task_id for each in tasks]


async def create(world: World, count: int) -> list[str]:
    """Creates tasks, one after the other."""
    made = []
    for _ in range(count):
        made.append(await world.create())
        await world.clock.sleep(0.01)
    return made


def test_counts_follow_every_transition(world: World) -> None:
    async def story() -> None:
        assert await counts(world) == (0, 0)
        first, second, third = await create(world, 3)
        waiting = await world.create(dependencies=[third])
        assert await counts(world) == (3, 0)
        await world.claim(2)
        assert await counts(world) == (1, 2)
        assert (await pending(world), await claimed(world)) == ([third], [first, second])
        await world.services.lifecycle.report_exception(first, 0, Resolved.WORKER_SHUTDOWN)
        assert await counts(world) == (2, 1)
        await world.services.lifecycle.cancel(await world.services.lifecycle.existing(third))
        assert await counts(world) == (1, 1), "what was cancelled vanishes at once"
        await world.services.lifecycle.cancel(await world.services.lifecycle.existing(second))
        assert await counts(world) == (1, 0)
        await world.services.lifecycle.schedule(await world.services.lifecycle.existing(waiting))
        assert await pending(world) == [first, waiting]
        await world.clock.sleep(3 * 3600)
        assert await counts(world) == (0, 0), "what is past its deadline counts no more, resolved or not"
        assert await pending(world) == []

    world.run(story())


def test_rows_of_calls_that_died_are_not_taken_for_runs(world: World) -> None:
    async def story() -> None:
        task_id = await world.create()
        task = (await world.services.lifecycle.existing(task_id)).task
        pools = world.services.stores.pools
        gone = replace(row_of(task, 0), task_id=world.slugid())
        twice = replace(row_of(task, 0), scheduled=task.runs[0].scheduled + timedelta(seconds=1))
        later = replace(row_of(task, 0), run_id=1)
        for row in (gone, twice, later):
            await pools.add_pending(row)
        assert await pending(world) == [task_id]
        found, _ = await counts(world)
        assert found == 3, "two runs have rows without a task; the second row of a run does not count"

    world.run(story())


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_whenever_a_claim_dies_lists_show_no_state_that_is_over(phase: Phase) -> None:
    unharmed = World(None, count := Kill(process="victim"))
    unharmed.run(unharmed.create())
    unharmed.run(unharmed.victim(unharmed.claim()))
    assert count.calls, "a claim makes requests"
    for number in range(1, len(count.calls) + 1):
        world = World(None, Kill(number=number, phase=phase, process="victim"))
        (task_id,) = world.run(world.create())
        world.simulation.outcomes(world.victim(world.claim()))

        async def judge(world: World = world, task_id: str = task_id) -> None:
            state = (await world.services.lifecycle.status(task_id)).state
            assert await pending(world) in ([], [task_id] if state is State.PENDING else [])
            assert await claimed(world) == ([task_id] if state is State.RUNNING else [])
            assert sum(await counts(world)) <= 1, "one that died before its commit hides the run until takenUntil"
            await world.drain(CLAIM_TIMEOUT.total_seconds() + 5)
            assert await pending(world) == [task_id]
            assert sum(await counts(world)) == 1

        world.is_ordered = False
        world.run(judge())


def test_a_row_of_an_earlier_run_is_not_taken_for_a_claim(world: World) -> None:
    """The row of an earlier run, left by a failed removal, is not taken for a claim: the next run counts once."""

    async def story() -> None:
        await world.create()
        (first,) = await world.claim()
        await world.services.lifecycle.report_exception(first.task.task_id, 0, Resolved.WORKER_SHUTDOWN)
        assert len(await world.claim()) == 1
        left = ChangePoolRows(add=(row_of(first.task, 0),))
        await world.services.stores.pools.change_pool_rows([left])
        assert await counts(world) == (0, 1)

    world.run(story())


def test_listed_tasks_are_as_they_are_now(world: World) -> None:
    async def story() -> None:
        task_id = await world.create()
        read = await world.services.lifecycle.existing(task_id)
        await world.services.lifecycle.change_priority(read, "high")
        ((listed,), _) = await world.services.pool_views.pending(POOL, start="", limit=10)
        assert listed.body["priority"] == "high"
        await world.claim()
        read = await world.services.lifecycle.existing(task_id)
        await world.services.lifecycle.change_priority(read, "low")
        ((listed,), _) = await world.services.pool_views.claimed(POOL, start="", limit=10)
        assert listed.body["priority"] == "low"

    world.run(story())


def test_the_runs_of_a_removed_worker_are_retried_at_once(world: World) -> None:
    async def story() -> None:
        first, second, third = await create(world, 3)
        await world.claim(2)
        assert await world.services.work.claim_work(POOL, ANOTHER, 1, 1.5)
        assert sorted(await removed(world)) == sorted([(first, 0), (second, 0)])
        for task_id in (first, second):
            task = await world.services.lifecycle.status(task_id)
            assert task.runs[0].reason_resolved is Resolved.WORKER_SHUTDOWN
            assert (task.state, task.last_run_id, task.retries_left) == (State.PENDING, 1, 4)
        assert (await world.services.lifecycle.status(third)).state is State.RUNNING
        assert await removed(world) == [], "a repeat finds nothing left to do"
        claims = await world.services.work.claim_work(POOL, ANOTHER, 2, 1.5)
        assert {claim.run_id for claim in claims} == {1}
        assert {body["runId"] for body in world.topics.of("task-exception")} == {0}

    world.run(story())


def test_what_a_removal_could_not_announce_is_announced_at_taken_until() -> None:
    (scenario,) = (each for each in SCENARIOS if each.name == "worker_removed")
    for number in range(1, len(requests(scenario)) + 1):
        done = attempt(scenario, FailAt(number, Phase.BEFORE, lasting=True), bus_is_down=True)
        assert done.outcome is not None
        done.repeat()
        done.world.topics.is_down = False
        done.world.run(done.world.drain(CLAIM_TIMEOUT.total_seconds() + 60))
        invariants.check_announced(done.world)
        done.finish()
