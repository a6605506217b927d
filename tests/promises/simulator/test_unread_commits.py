"""Calls commit on what their process has committed last, without a read (design 2.8), while others commit, too. What is
remembered decides nothing but a commit on that version: neither a refusal, nor that there is nothing to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.app.services import Services
from shared.base.dates import format_date
from shared.base.errors import RequestConflict, ResourceNotFound
from shared.queue.tasks.known import KnownStatuses
from shared.queue.tasks.rules import Resolved, State, Worker
from shared.store import keys
from shared.store.counting import Kind, counting
from tests.parts.twin.gate import Killed, Phase, as_process
from tests.promises.simulator import claimer, invariants
from tests.promises.simulator.situations import GROUP, A, B, C, running
from tests.promises.simulator.world import CLAIM_TIMEOUT, POOL, World, unordered

ELSEWHERE = Worker(worker_group="group", worker_id="elsewhere")


async def claim_elsewhere(services: Services) -> int:
    """Claims the only pending run in another process; returns the run's number."""
    (claim,) = await services.work.claim_work(POOL, ELSEWHERE, 1, 1.5)
    return claim.run_id


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
    """The task is read when a message is not that of the remembered run: the process remembers run 0 as pending, with
    another message, for a long time."""
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


def test_renewal_that_is_refused_hides_no_run_of_others() -> None:
    """A refused renewal hides no run of others: another process has died after a retry, whose message is hidden until
    takenUntil of the first run."""
    gate = claimer.Once(claimer.is_commit, Phase.AFTER, Killed)
    world = unordered(gate)
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


def test_dependency_that_was_seen_resolved_stays_so_whatever_an_earlier_read_shows_later() -> None:
    gate = claimer.Once(lambda call: call.kind is Kind.TABLE_READ and call.subject == A, Phase.AFTER)
    world = unordered(gate)
    other = world.process()

    async def story() -> None:
        await running(world)
        gate.meanwhile, gate.is_armed = lambda: other.lifecycle.report(A, 0, Resolved.COMPLETED), True
        first, second = (world.definition(each, taskGroupId=GROUP, dependencies=[A]) for each in (B, C))
        await as_process("claimer", other.create_task(first))
        assert (await other.create_task(second)).state is State.PENDING

    world.run(story())


def test_what_is_remembered_is_bounded_and_goes_with_the_resolution() -> None:
    world = World()

    async def story() -> None:
        await running(world)
        known = KnownStatuses(world.clock.now, 2)
        task = world.tasks()[A]
        for task_id in (A, B, C):
            known.made(replace(task, task_id=task_id), "etag", known.new_moment())
        assert known.committed(A) is None
        assert known.committed(C) is not None
        await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
        assert world.services.stores.tasks.last_committed(A) is None

    world.run(story())
