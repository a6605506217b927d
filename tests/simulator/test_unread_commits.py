"""Calls that commit on what their process has committed last, without a read (design 2.8), while others commit, too.

What is remembered decides nothing but a commit on that version: neither a refusal, nor that there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.app.services import Services
from shared.base.dates import format_date
from shared.base.errors import RequestConflict, ResourceNotFound, ServiceUnavailable
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE, ResolvedBody
from shared.queue.tasks.known import KnownStatuses
from shared.queue.tasks.rules import Resolved, State, Worker
from shared.store import keys
from shared.store.counting import Kind, counting
from tests.azurite.budget_table import figures
from tests.simulator import claimer, invariants
from tests.simulator.situations import GROUP, A, B, C, running
from tests.simulator.world import CLAIM_TIMEOUT, POOL, World
from tests.twin.gate import Killed, Phase, as_process

ELSEWHERE = Worker(worker_group="group", worker_id="elsewhere")
RECLAIM = figures("reclaimTask").operations
REPORT = figures("reportCompleted, reportFailed; reportException, final").operations
CLAIM = figures("claimWork, one task, polled by the server").operations


async def cost_of(call: Awaitable[Any]) -> int:
    """Storage requests of a call."""
    with counting() as operations:
        await call
    return operations.total


async def reads_of(call: Awaitable[Any]) -> int:
    """Reads of tables among them."""
    with counting() as operations:
        await call
    return operations.counts.get(Kind.TABLE_READ, 0)


async def claim_elsewhere(services: Services) -> int:
    """Another process claims the only run that is pending; returns its number."""
    (claim,) = await services.work.claim_work(POOL, ELSEWHERE, 1, 1.5)
    return claim.run_id


def a_world() -> tuple[World, Services]:
    """A runs, and the first process has committed that; the other one knows nothing."""
    world = World()
    world.run(running(world))
    return world, world.process()


def test_one_process_renews_and_completes_without_a_read() -> None:
    world = World()

    async def story() -> None:
        await running(world)
        assert await cost_of(world.services.work.reclaim_task(A, 0)) == RECLAIM
        assert await cost_of(world.services.work.reclaim_task(A, 0)) == RECLAIM
        assert await cost_of(world.services.lifecycle.report(A, 0, Resolved.COMPLETED)) == REPORT
        assert await reads_of(world.services.lifecycle.report(A, 0, Resolved.COMPLETED)) == 1, "a repeat"

    world.run(story())


def test_process_that_has_made_a_run_pending_claims_it_without_a_read() -> None:
    world = World()

    async def story() -> None:
        await running(world)
        await world.create(B, taskGroupId=GROUP)
        assert await cost_of(world.claim()) == CLAIM
        await world.services.lifecycle.report_exception(A, 0, Resolved.WORKER_SHUTDOWN)
        assert await cost_of(world.claim()) == CLAIM, "a retry"
        assert world.tasks()[A].last_run_id == 1
        assert [world.tasks()[each].state for each in (A, B)] == [State.RUNNING] * 2
        await world.create(C, taskGroupId=GROUP)
        assert await cost_of(world.claim(services=world.process())) > CLAIM

    world.run(story())


def test_claim_of_what_others_have_committed_is_undone_and_read_for() -> None:
    world = World()

    async def story() -> None:
        await running(world)
        await world.create(B, taskGroupId=GROUP)
        other = world.process()
        read = await other.lifecycle.existing(B)
        await other.stores.tasks.commit(read, read.task)
        with counting() as operations:
            (claim,) = await world.claim()
        assert claim.task.task_id == B
        assert operations.counts[Kind.TABLE_READ] > 0
        rows = [row.key.split("~")[0] for row in world.rows(keys.POOLS) if B in row.key]
        assert rows == ["claimed"]
        await world.drain(60)
        invariants.check(world)

    world.run(story())


@pytest.mark.parametrize("change", ["priority", "retry", "deadline"])
def test_message_that_is_not_the_one_of_the_remembered_run_is_read_for(change: str) -> None:
    """The process remembers run 0 as pending, with another message, for a long time."""
    world = World()

    async def story() -> None:
        await world.create(A, deadline=format_date(world.clock.now() + timedelta(minutes=40)))
        other = world.process()
        if change == "priority":
            await other.lifecycle.change_priority(await other.lifecycle.existing(A), "high")
        elif change == "retry":
            assert await claim_elsewhere(other) == 0
            await other.lifecycle.report_exception(A, 0, Resolved.WORKER_SHUTDOWN)
        else:
            await world.clock.sleep(40 * 60)
        await world.clock.sleep(1)
        with counting() as operations:
            claims = await world.claim()
        assert len(claims) == (change != "deadline")
        assert operations.counts[Kind.TABLE_READ] > 0
        await world.drain(120)
        invariants.check(world)

    world.run(story())


def test_read_that_shows_the_same_version_takes_nothing_away() -> None:
    world = World()

    async def story() -> None:
        await running(world)
        await world.services.lifecycle.status(A)
        assert await reads_of(world.services.work.reclaim_task(A, 0)) == 0

    world.run(story())


def test_what_was_resolved_elsewhere_is_refused_and_nothing_stays() -> None:
    """The process still remembers the run as running."""
    world, other = a_world()

    async def story() -> None:
        await other.lifecycle.cancel(await other.lifecycle.existing(A))
        messages = len(world.messages(RESOLVED_QUEUE))
        with pytest.raises(RequestConflict):
            await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
        with pytest.raises(RequestConflict):
            await world.services.work.reclaim_task(A, 0)
        assert len(world.messages(RESOLVED_QUEUE)) == messages
        assert world.tasks()[A].last_run.reason_resolved is Resolved.CANCELED

    world.run(story())


def test_renewal_that_is_refused_hides_no_run_of_others() -> None:
    """Another process dies when it has committed a retry, whose message is hidden until takenUntil of the first run."""
    gate = claimer.Once(claimer.is_commit, Phase.AFTER, Killed)
    world = claimer.a_world(gate)
    other = world.process()

    async def interrupted() -> None:
        await running(world)
        gate.is_armed = True
        await as_process("claimer", other.lifecycle.report_exception(A, 0, Resolved.WORKER_SHUTDOWN))

    async def renewed() -> None:
        assert world.tasks()[A].state is State.PENDING
        await world.clock.sleep(CLAIM_TIMEOUT.total_seconds() - 60)
        with pytest.raises(RequestConflict):
            await world.services.work.reclaim_task(A, 0)
        await world.drain(1)
        assert await claim_elsewhere(other) == 1
        invariants.check(world)

    world.simulation.outcomes(interrupted())
    world.run(renewed())


def test_what_was_completed_elsewhere_is_acknowledged_again() -> None:
    world, other = a_world()

    async def story() -> None:
        await other.lifecycle.report(A, 0, Resolved.COMPLETED)
        assert (await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)).state is State.COMPLETED
        with pytest.raises(RequestConflict):
            await world.services.lifecycle.report(A, 0, Resolved.FAILED)

    world.run(story())


def test_what_another_process_has_claimed_is_not_refused() -> None:
    """The process remembers run 0 as running or pending, and run 1 not at all."""
    world, other = a_world()

    async def story() -> None:
        await other.lifecycle.report_exception(A, 0, Resolved.WORKER_SHUTDOWN)
        assert await claim_elsewhere(other) == 1
        assert (await world.services.work.reclaim_task(A, 1)).run_id == 1
        with pytest.raises(RequestConflict):
            await world.services.work.reclaim_task(A, 0)
        await world.create(B, taskGroupId=GROUP)
        assert await claim_elsewhere(other) == 0
        assert (await world.services.lifecycle.report(B, 0, Resolved.COMPLETED)).state is State.COMPLETED

    world.run(story())


def test_priority_that_was_changed_elsewhere_stays() -> None:
    """The messages are still those that the process remembers: they move before its first try is refused."""
    world, other = a_world()

    async def story() -> None:
        await other.lifecycle.change_priority(await other.lifecycle.existing(A), "high")
        until = world.tasks()[A].last_run.taken_until
        await world.clock.sleep(60)
        claim = await world.services.work.reclaim_task(A, 0)
        assert until is not None
        assert claim.taken_until > until
        assert claim.task.priority == "high"
        await world.drain(60)
        assert world.tasks()[A].state is State.RUNNING, "its claim message has moved, too"

    world.run(story())


def test_task_that_has_expired_is_not_taken_for_the_next_one_of_its_id() -> None:
    world = World()

    async def story() -> None:
        end = format_date(world.clock.now() + timedelta(minutes=1))
        await world.create(A, deadline=end, expires=end)
        assert await world.claim()
        await world.drain(120)
        other = world.process()
        while A in world.tasks():
            await world.drain(300)
            await other.expiration.run(300)
        with pytest.raises(ResourceNotFound):
            await world.services.work.reclaim_task(A, 0)
        again = world.definition(A, tags={"life": "second"})
        await other.create_task(again)
        with pytest.raises(RequestConflict):
            await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
        assert await claim_elsewhere(other) == 0
        claim = await world.services.work.reclaim_task(A, 0)
        assert claim.definition["tags"] == {"life": "second"}
        assert world.tasks()[A].state is State.RUNNING

    world.run(story())


def test_process_that_has_missed_more_commits_than_the_row_shows_goes_on() -> None:
    """The row cannot tell any more whether the first try has happened."""
    world, other = a_world()

    async def story() -> None:
        for _ in range(10):
            read = await other.lifecycle.existing(A)
            await other.stores.tasks.commit(read, read.task)
        assert (await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)).state is State.COMPLETED
        await world.drain(600)

    world.run(story())


def test_dependency_that_was_satisfied_elsewhere_counts() -> None:
    """The process remembers the dependent as waiting for both."""
    world = World()

    async def story() -> None:
        for task_id in (A, C):
            await world.create(task_id, taskGroupId=GROUP)
            assert await world.claim()
        await world.create(B, taskGroupId=GROUP, dependencies=[A, C])
        for task_id, services in ((C, world.process()), (A, world.services)):
            await services.lifecycle.report(task_id, 0, Resolved.COMPLETED)
            assert world.tasks()[B].state is State.UNSCHEDULED
            await services.resolution.resolved_due(ResolvedBody(task_id=task_id, run_id=0, put=world.clock.now()))
        assert world.tasks()[B].state is State.PENDING
        await world.drain(60)

    world.run(story())


def test_processes_that_share_the_calls_come_to_read_first() -> None:
    """A first try that fails costs more than a read: so each process makes few of them, as long as others commit."""
    world, other = a_world()

    async def story() -> None:
        costs = []
        for _ in range(20):
            for services in (world.services, other):
                await world.clock.sleep(1)
                costs.append(await cost_of(services.work.reclaim_task(A, 0)))
        assert costs[0] == RECLAIM
        assert max(costs) <= RECLAIM + 4
        assert costs[-10:] == [RECLAIM + 1] * 10
        for _ in range(20):
            await world.services.work.reclaim_task(A, 0)
        assert await cost_of(world.services.work.reclaim_task(A, 0)) == RECLAIM, "the other one has gone"

    world.run(story())


def test_what_is_remembered_is_bounded_and_goes_with_the_resolution() -> None:
    world = World()

    async def story() -> None:
        await running(world)
        known = KnownStatuses(world.clock.now, 2)
        task = world.tasks()[A]
        for task_id in (A, B, C):
            known.made(replace(task, task_id=task_id), "etag", known.begin())
        assert known.committed(A) is None
        assert known.committed(C) is not None
        await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
        assert world.services.stores.tasks.last_committed(A) is None

    world.run(story())


def test_row_of_a_claim_of_a_version_long_gone_is_given_back() -> None:
    """The row does not tell any more whether the claim was committed, but that the run is not in it."""
    world = World()

    async def story() -> None:
        await running(world)
        await world.create(B, taskGroupId=GROUP)
        await world.clock.sleep(600)
        other = world.process()
        for _ in range(9):
            read = await other.lifecycle.existing(B)
            await other.stores.tasks.commit(read, read.task)
        with pytest.raises(ServiceUnavailable):
            await world.claim()
        assert [row.key.split("~")[0] for row in world.rows(keys.POOLS) if B in row.key] == ["pending"]
        (claim,) = await world.claim()
        assert claim.task.task_id == B
        await world.drain(60)
        invariants.check(world)

    world.run(story())
