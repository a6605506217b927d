"""Before a claim is handed out: is there still somebody to give it to? If not, the run is pending again at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.domain import claims
from shared.domain.effects import Decision, RemoveMessage
from shared.domain.task import Created, Resolved, State, Task
from shared.errors import ServiceUnavailable
from shared.storage import keys
from shared.storage.counting import Kind
from shared.storage.interface import Refusal, StorageUnavailable, TransactionRefused
from shared.storage.internal_messages import EVENTS_QUEUE
from tests.simulator import invariants
from tests.simulator.claimer import (
    ANOTHER,
    WAIT,
    Once,
    a_world,
    check_is_pending_again,
    is_commit,
    is_index_row,
    quarantine,
)
from tests.simulator.running import finish
from tests.simulator.situations import A
from tests.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Fail, Phase, as_process, process_name


async def remove(world: World) -> None:
    runs, _ = await world.services.workers.removed(POOL, WORKER, start="")
    assert runs == []


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
@pytest.mark.parametrize("at", [is_commit, is_index_row], ids=["before its commit", "before its rows"])
def test_a_removed_worker_is_given_no_run_that_was_being_claimed(at: Callable[[Call], bool], known: bool) -> None:
    gate = Once(at)
    world = a_world(gate)
    claimer = world.process()

    async def story() -> None:
        if known:
            await claimer.work.claim_work(POOL, WORKER, 1, 0.1)
        await world.clock.sleep(11)  # then it looks again which bands are in use
        await world.create(A)
        gate.meanwhile, gate.is_armed = lambda: remove(world), True
        assert await as_process("claimer", claimer.work.claim_work(POOL, WORKER, 1, 1.5)) == []
        assert not gate.is_armed

    world.run(story())
    check_is_pending_again(world)


@pytest.mark.parametrize("at", [is_commit, is_index_row], ids=["before its commit", "before its rows"])
def test_a_quarantine_during_a_claim_holds(at: Callable[[Call], bool]) -> None:
    gate = Once(at)
    world = a_world(gate)
    claimer = world.process()

    async def story() -> None:
        assert await claimer.work.claim_work(POOL, WORKER, 1, 0.1) == []
        await world.clock.sleep(11)
        await world.create(A)
        gate.meanwhile, gate.is_armed = lambda: quarantine(world), True
        assert await as_process("claimer", claimer.work.claim_work(POOL, WORKER, 1, 1.5)) == []

    world.run(story())
    check_is_pending_again(world)


@pytest.mark.parametrize("in_this_process", [True, False])
def test_a_worker_that_is_quarantined_while_it_waits_gets_nothing(in_this_process: bool) -> None:
    world = a_world()
    claimer = world.process()

    async def poll() -> None:
        assert await claimer.work.claim_work(POOL, WORKER, 1, 0.1) == []
        assert await claimer.work.claim_work(POOL, WORKER, 1, WAIT) == []

    async def operate() -> None:
        await world.clock.sleep(5)
        until = world.clock.now() + timedelta(hours=1)
        by = claimer if in_this_process else world.services
        await by.workers.quarantine(POOL, WORKER, until, client_id="somebody", info="")
        await world.create(A)
        await world.clock.sleep(30)

    world.run(poll(), operate())
    check_is_pending_again(world)


def test_claim_task_of_a_worker_that_is_removed_meanwhile_may_be_tried_again() -> None:
    gate = Once(is_index_row)
    world = a_world(gate)

    async def story() -> None:
        await world.create(A)
        gate.meanwhile, gate.is_armed = lambda: remove(world), True
        read = await world.services.work.found_for_claim(A)
        with pytest.raises(ServiceUnavailable):
            await as_process("claimer", world.services.work.claim_task(read, 0, WORKER))

    world.run(story())
    assert world.tasks()[A].state is State.PENDING
    invariants.check(world)


def test_a_worker_that_was_removed_may_come_back() -> None:
    world = a_world()

    async def story() -> None:
        await world.create(A)
        assert await world.claim()
        await world.services.workers.removed(POOL, WORKER, start="")
        await world.clock.sleep(1)
        (claim,) = await world.claim()
        assert claim.run_id == 1

    world.run(story())


def test_an_expired_claim_is_announced_though_the_next_is_handed_back() -> None:
    gate = Once(is_index_row)
    world = a_world(gate)

    async def story() -> None:
        await world.create(A)
        await world.services.work.claim_work(POOL, ANOTHER, 1, 1.5)
        await world.clock.sleep(CLAIM_TIMEOUT.total_seconds() + 1)
        gate.meanwhile, gate.is_armed = lambda: remove(world), True
        assert await as_process("claimer", world.claim()) == []

    world.run(story())
    assert [run.reason_resolved for run in world.tasks()[A].runs] == [Resolved.CLAIM_EXPIRED, None]
    assert world.tasks()[A].last_run.reason_created is Created.RETRY
    assert [body["runId"] for body in world.topics.of("task-exception")] == [0]
    assert [body["runId"] for body in world.topics.of("task-pending")] == [0, 1]
    check_is_pending_again(world, run_id=1)


@dataclass
class FailAfter:
    """Fails the claimer's request of that number, counted from when the other gate has opened."""

    opened: Once
    number: int
    phase: Phase
    seen: list[Call] = field(default_factory=list)

    async def __call__(self, call: Call, phase: Phase) -> None:
        if process_name() != "claimer" or self.opened.meanwhile is None or self.opened.is_armed:
            return
        if phase is Phase.BEFORE:
            self.seen.append(call)
        if phase is self.phase and self.number < len(self.seen) and self.seen[self.number] is call:
            raise StorageUnavailable


def claim_that_fails(number: int, phase: Phase) -> FailAfter:
    """A claim for a worker that is removed meanwhile, where one request fails; returns the gate."""
    gate = Once(is_index_row)
    fail = FailAfter(gate, number, phase)
    world = a_world(gate, fail)

    async def story() -> None:
        await world.create(A)
        gate.meanwhile, gate.is_armed = lambda: remove(world), True
        assert await as_process("claimer", world.process().work.claim_work(POOL, WORKER, 1, 1.5)) == []

    world.simulation.outcomes(story())
    invariants.check(world)
    world.run(world.drain(CLAIM_TIMEOUT.total_seconds() + 5))
    (claims,) = world.run(world.services.work.claim_work(POOL, ANOTHER, 1, 2.5))
    assert len(claims) == 1, f"request {number}: {fail.seen[number:][:1]}"
    finish(world, is_acknowledged=False)
    return fail


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_whatever_fails_while_a_claim_is_handed_back_nothing_is_lost(phase: Phase) -> None:
    """At the latest, the run is pending again at takenUntil."""
    number = 0
    while number < len(claim_that_fails(number, phase).seen):
        number += 1
    assert number >= 5


def test_the_first_renewal_extends_a_shorter_first_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.simulator import world as module

    short = module.settings().model_copy(update={"first_claim_seconds": 300.0})
    monkeypatch.setattr(module, "settings", lambda: short)
    world = a_world()

    async def story() -> None:
        await world.create(A)
        (claim,) = await world.claim()
        assert claim.taken_until == world.clock.now() + timedelta(seconds=300)
        renewed = await world.services.work.reclaim_task(A, 0)
        assert renewed.taken_until == world.clock.now() + CLAIM_TIMEOUT

    world.run(story())


def test_claim_task_that_cannot_be_announced_says_why() -> None:
    """Neither Service Bus nor the queue for later takes the event."""
    fail = Fail(lambda call: call.target == EVENTS_QUEUE, times=0)
    world = World(Simulation.scripted([]), fail)
    world.is_ordered = False

    async def story() -> None:
        await world.create(A)
        world.topics.is_down = True
        fail.times = 1
        with pytest.raises(StorageUnavailable):
            await world.services.work.claim_task(await world.services.work.found_for_claim(A), 0, WORKER)
        world.topics.is_down = False

    world.run(story())
    finish(world, is_acknowledged=False)


def test_a_claim_with_an_effect_that_would_be_dropped_is_refused_before_its_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decide = claims.decide

    def with_another_effect(task: Task, *args: Any) -> Decision:
        decision = decide(task, *args)
        assert task.handles.deadline is not None
        first, *later = decision.after
        return replace(decision, after=((*first, RemoveMessage(handle=task.handles.deadline)), *later))

    world = a_world()

    async def story() -> None:
        await world.create(A)
        monkeypatch.setattr(claims, "decide", with_another_effect)
        assert await world.claim() == []
        task = world.tasks()[A]
        assert (task.state, task.last_run.worker_id) == (State.PENDING, None)

    world.run(story())


def test_a_claim_has_its_row_though_the_row_of_its_worker_is_contended() -> None:
    """The worker may have the run, so the claim is good; only what is noted of the worker is given up."""

    def writes_worker(call: Call) -> bool:
        is_write = (call.kind, call.target) == (Kind.TABLE_WRITE, keys.POOLS)
        return is_write and any(key.startswith(keys.WORKERS[0]) for key in call.keys)

    refused = Fail(writes_worker, times=10**6, error=lambda: TransactionRefused(10**6, Refusal.STALE))
    world = a_world(refused)

    async def story() -> None:
        await world.create(A)
        assert [claim.task.task_id for claim in await world.claim()] == [A]
        assert refused.times < 10**6

    world.run(story())
    rows = [row.key.split("~")[0] for row in world.rows(keys.POOLS) if A in row.key]
    assert rows == ["claimed"]
