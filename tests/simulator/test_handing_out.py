"""Before a claim is handed out: is there still somebody to give it to? If not, the run is pending again at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.domain import claims
from shared.domain.claims import Worker
from shared.domain.effects import ChangePoolRows, Decision, RemoveMessage, row_of
from shared.domain.task import Created, Resolved, State, Task
from shared.errors import ServiceUnavailable
from shared.services import Services
from shared.storage import keys
from shared.storage.counting import Kind
from shared.storage.interface import Create, StorageUnavailable
from shared.storage.internal_messages import EVENTS_QUEUE
from tests.simulator import invariants
from tests.simulator.running import finish
from tests.simulator.scenarios import A
from tests.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Fail, Killed, Phase, Resent, as_process, process_name

ANOTHER = Worker(worker_group="group", worker_id="another")
WAIT = 20.0


class Once:
    """Something happens right at the claimer's first request that matches, once it is armed."""

    def __init__(
        self, matches: Callable[[Call], bool], phase: Phase = Phase.BEFORE, error: type[BaseException] | None = None
    ) -> None:
        self._matches, self._phase, self._error = matches, phase, error
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None
        self.is_armed = False

    async def __call__(self, call: Call, phase: Phase) -> None:
        if self.is_armed and phase is self._phase and process_name() == "claimer" and self._matches(call):
            self.is_armed = False
            if self.meanwhile is not None:
                await as_process("other", self.meanwhile())
            if self._error is not None:
                raise self._error


def is_commit(call: Call) -> bool:
    return keys.TASK_STATUS in call.keys and call.kind is Kind.TABLE_WRITE


def is_index_row(call: Call) -> bool:
    return call.target == keys.POOLS and any(key.startswith("claimed~") for key in call.keys)


def of_worker(call: Call) -> bool:
    return call.kind is Kind.TABLE_WRITE and keys.worker(WORKER.worker_group, WORKER.worker_id) in call.keys


def a_world(*gates: Any) -> World:
    world = World(None, *gates)
    world.is_ordered = False
    return world


def check_is_pending_again(world: World, task_id: str = A, run_id: int = 0) -> None:
    """The claim has left nothing behind, and the next caller gets the run."""
    task = world.tasks()[task_id]
    assert (task.state, task.last_run_id) == (State.PENDING, run_id)
    invariants.check(world)
    assert not [body for body in world.topics.of("task-running") if body["runId"] == run_id]
    (claims,) = world.run(world.services.work.claim_work(POOL, ANOTHER, 1, 2.5))
    assert [(claim.task.task_id, claim.run_id) for claim in claims] == [(task_id, run_id)]
    invariants.check_settled(world)
    finish(world, is_acknowledged=False)


async def quarantine(world: World) -> None:
    until = world.clock.now() + timedelta(hours=1)
    await world.services.workers.quarantine(POOL, WORKER, until, client_id="somebody", info="broken")


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


# A worker whose client died while it waited


def test_a_new_wait_ends_the_older_one_of_the_same_worker_at_once() -> None:
    world = a_world()
    ends: list[float] = []

    async def older() -> None:
        assert await world.services.work.claim_work(POOL, WORKER, 1, WAIT) == []
        ends.append(world.clock.elapsed)

    async def newer() -> None:
        await world.clock.sleep(5)
        began = world.clock.elapsed
        (claim,) = await world.services.work.claim_work(POOL, WORKER, 1, WAIT)
        assert claim.task.task_id == A
        assert ends[0] - began < 0.1

    async def create() -> None:
        await world.clock.sleep(8)
        await world.create(A)

    world.run(older(), newer(), create())


def test_waits_of_other_workers_and_in_other_pools_go_on() -> None:
    world = a_world()

    async def wait(worker: Worker, pool: str) -> float:
        began = world.clock.elapsed
        assert await world.services.work.claim_work(pool, worker, 1, WAIT) == []
        return world.clock.elapsed - began

    waited = world.run(wait(WORKER, POOL), wait(ANOTHER, POOL), wait(WORKER, "another/pool"))
    assert all(seconds >= WAIT for seconds in waited)


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
def test_a_wait_in_another_process_is_given_nothing_once_the_worker_waits_here(known: bool) -> None:
    """The older process polls first, so that it is the one that takes the message."""
    world = a_world()
    old, new = world.process(), world.process()

    async def older() -> None:
        if known:
            await old.work.claim_work(POOL, WORKER, 1, 0.1)
        assert await old.work.claim_work(POOL, WORKER, 1, WAIT) == []

    async def newer() -> list[str]:
        await world.clock.sleep(1.5)
        claims = await new.work.claim_work(POOL, WORKER, 1, WAIT)
        return [claim.task.task_id for claim in claims]

    async def create() -> None:
        await world.clock.sleep(3)
        old.stores.pools.queues._bands.pop(POOL)
        await old.create_task(world.definition(A))  # wakes the older process

    _, claimed, _ = world.run(older(), newer(), create())
    assert claimed == [A]
    assert len(world.tasks()[A].runs) == 1
    assert len(world.topics.of("task-running")) == 1


def test_a_worker_that_goes_from_process_to_process_is_given_work_in_each() -> None:
    world = a_world()
    processes: list[Services] = [world.process() for _ in range(3)]

    async def story() -> None:
        for number in range(12):
            services = processes[number % 3]
            assert await services.work.claim_work(POOL, WORKER, 1, 1.0) == []
            task_id = await world.create()
            await world.clock.sleep(11)
            (claim,) = await processes[number * 2 % 3].work.claim_work(POOL, WORKER, 1, 1.5)
            assert (claim.task.task_id, len(claim.task.runs)) == (task_id, 1)

    world.run(story())


def test_a_cancelled_wait_leaves_the_work_to_others() -> None:
    world = a_world()

    async def story() -> None:
        waiting = asyncio.ensure_future(world.services.work.claim_work(POOL, WORKER, 1, WAIT))
        await world.clock.sleep(3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await world.create(A)

    world.run(story())
    check_is_pending_again(world)


@pytest.mark.parametrize("at", [is_commit, is_index_row, lambda call: call.kind is Kind.QUEUE_GET])
def test_a_call_that_is_cancelled_while_it_claims_hands_back(at: Callable[[Call], bool]) -> None:
    gate = Once(at)
    world = a_world(gate)

    async def story() -> None:
        await world.create(A)
        waiting = asyncio.ensure_future(as_process("claimer", world.services.work.claim_work(POOL, WORKER, 1, WAIT)))

        async def cancel() -> None:
            waiting.cancel()
            await asyncio.sleep(0)

        gate.meanwhile, gate.is_armed = cancel, True
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not gate.is_armed

    world.run(story())
    check_is_pending_again(world)


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


# Answers that were lost


def test_recent_tasks_names_a_claim_once_though_the_answer_was_lost() -> None:
    gate = Once(of_worker, Phase.AFTER, Resent)
    world = a_world(gate)

    async def story() -> None:
        await world.create(A)
        gate.is_armed = True
        assert len(await as_process("claimer", world.claim())) == 1
        assert not gate.is_armed
        assert (await world.services.workers.get(POOL, WORKER)).record.recent_tasks == ((A, 0),)

    world.run(story())


def test_one_quarantine_is_one_entry_though_the_answer_was_lost() -> None:
    gate = Once(of_worker, Phase.AFTER, Resent)
    world = a_world(gate)

    async def story() -> None:
        await world.claim()
        gate.is_armed = True
        await as_process("claimer", quarantine(world))
        assert not gate.is_armed
        known = await world.services.workers.get(POOL, WORKER)
        assert len(known.history) == 1
        assert known.record.is_quarantined(world.clock.now())

    world.run(story())


def test_a_claim_that_no_worker_received_is_announced_before_its_end() -> None:
    """The process dies between commit and announcement."""
    gate = Once(is_index_row, Phase.BEFORE, Killed)
    world = a_world(gate)

    async def story() -> None:
        await world.create(A)
        gate.is_armed = True
        await as_process("claimer", world.claim())

    world.simulation.outcomes(story())
    assert world.topics.of("task-running") == []
    world.run(world.drain(CLAIM_TIMEOUT.total_seconds() + 5))
    kinds = [message.topic for message in world.topics.messages]
    assert kinds[-3:] == ["task-running", "task-exception", "task-pending"]


def test_rows_of_claims_answer_the_etag_of_the_workers_row() -> None:
    """By which the worker's next call knows that no one else has written it."""
    world = World(Simulation.scripted([]))
    world.is_ordered = False

    async def story() -> None:
        await world.create(A)
        assert await world.claim()
        added = ChangePoolRows(task_queue_id=POOL, add=(row_of(world.tasks()[A], 0),))
        key = keys.worker("group", "another")
        etag = await world.services.stores.pools.change([added], POOL, [Create(key, {})])
        (row,) = (row for row in world.rows(keys.POOLS, keys.pool(POOL)) if row.key == key)
        assert etag == row.etag

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
