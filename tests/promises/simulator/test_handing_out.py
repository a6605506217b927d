"""Before a claim is handed out, its worker must still be able to get it; otherwise the run is pending again at once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from shared.base.errors import ServiceUnavailable
from shared.queue.claims.work import Claim
from shared.queue.tasks.internal_messages import EVENTS_QUEUE
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable, TransactionRefused
from shared.telemetry.instruments import FAILED_CLAIMS
from tests.parts.twin.gate import Call, Delayed, Phase, as_process, process_name
from tests.promises.simulator import invariants
from tests.promises.simulator.claimer import ANOTHER, WAIT, Once, check_is_pending_again, is_commit, is_index_row
from tests.promises.simulator.running import finish
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World, unordered


async def remove(world: World) -> None:
    runs, _ = await world.services.workers.removed(POOL, WORKER, start="")
    assert runs == []


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
@pytest.mark.parametrize("at", [is_commit, is_index_row], ids=["before its commit", "before its rows"])
def test_a_removed_worker_is_given_no_run_that_was_being_claimed(at: Callable[[Call], bool], known: bool) -> None:
    gate = Once(at)
    world = unordered(gate)
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


@pytest.mark.parametrize("in_this_process", [True, False])
def test_a_worker_that_is_quarantined_while_it_waits_gets_nothing(in_this_process: bool) -> None:
    world = unordered()
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
    world = unordered(gate)

    async def story() -> None:
        await world.create(A)
        gate.meanwhile, gate.is_armed = lambda: remove(world), True
        read = await world.services.work.found_for_claim(A)
        with pytest.raises(ServiceUnavailable):
            await as_process("claimer", world.services.work.claim_task(read, 0, WORKER))

    world.run(story())
    assert world.tasks()[A].state is State.PENDING
    invariants.check(world)


@dataclass
class FailAfter:
    """A gate that fails the claimer's request of that number, counted from when the other gate has opened."""

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
    """Claims for a worker that is removed meanwhile, with one failing request; returns the gate."""
    gate = Once(is_index_row)
    fail = FailAfter(gate, number, phase)
    world = unordered(gate, fail)

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
    """Whatever fails while a claim is handed back, the run is pending again at takenUntil at the latest."""
    number = 0
    while number < len(claim_that_fails(number, phase).seen):
        number += 1
    assert number >= 5


def test_the_first_renewal_extends_a_shorter_first_claim() -> None:
    world = unordered()
    services = world.process(first_claim_seconds=300.0)

    async def story() -> None:
        await world.create(A)
        (claim,) = await world.claim(services=services)
        assert claim.taken_until == world.clock.now() + timedelta(seconds=300)
        renewed = await services.work.reclaim_task(A, 0)
        assert renewed.taken_until == world.clock.now() + CLAIM_TIMEOUT

    world.run(story())


def puts_event(call: Call) -> bool:
    return (call.kind, call.target) == (Kind.QUEUE_PUT, EVENTS_QUEUE)


async def by_work(world: World) -> int:
    return len(await world.services.work.claim_work(POOL, WORKER, 1, 1.5))


async def by_task(world: World) -> int:
    await world.services.work.claim_task(await world.services.work.found_for_claim(A), 0, WORKER)
    return 1


@dataclass
class Undelivered:
    """A gate that loses the answer to the claim's commit, or lets its event be kept nowhere, and makes what could give
    the claim back fail for a while."""

    is_commit_in_doubt: bool
    has_effect: bool = True
    """Whether the commit in doubt takes effect, or may do so later."""
    then_fails: Callable[[Call], bool] = lambda call: False
    is_armed: bool = False
    late: list[Callable[[], object]] = field(default_factory=list)

    async def __call__(self, call: Call, phase: Phase) -> None:
        if process_name() != "claimer" or not self.is_armed:
            return
        is_claim = is_commit(call) and keys.upload(0) in call.keys
        if is_claim and self.is_commit_in_doubt:
            if not self.has_effect and not self.late:
                raise Delayed(self.late.append, is_tried_again=False)
            if self.has_effect and phase is Phase.AFTER and not self.late:
                self.late.append(lambda: None)
                raise StorageUnavailable
        elif phase is Phase.BEFORE and (
            (not self.is_commit_in_doubt and puts_event(call)) or (self.late and self.then_fails(call))
        ):
            self.late.append(lambda: None)
            raise StorageUnavailable


@pytest.mark.parametrize("retries", [0, 5])
@pytest.mark.parametrize("claim", [by_work, by_task])
@pytest.mark.parametrize(
    "gate",
    [
        lambda: Undelivered(is_commit_in_doubt=False),
        lambda: Undelivered(is_commit_in_doubt=True),
        lambda: Undelivered(is_commit_in_doubt=True, has_effect=False),
        lambda: Undelivered(is_commit_in_doubt=False, then_fails=lambda call: call.target == keys.TASKS),
        lambda: Undelivered(is_commit_in_doubt=True, then_fails=lambda call: call.target == keys.TASKS),
        lambda: Undelivered(is_commit_in_doubt=False, then_fails=lambda call: call.target == keys.POOLS),
    ],
    ids=["unannounced", "in doubt", "late", "unannounced, failing", "in doubt, failing", "unannounced, rows failing"],
)
def test_a_claim_that_no_worker_was_given_is_pending_again_at_once_and_costs_no_retry(
    gate: Callable[[], Undelivered], claim: Callable[[World], Awaitable[int]], retries: int
) -> None:
    harm = gate()
    world = unordered(harm)

    async def story() -> None:
        await world.create(A, retries=retries)
        world.topics.is_down, harm.is_armed = not harm.is_commit_in_doubt, True
        with pytest.raises((StorageUnavailable, ServiceUnavailable)):
            await as_process("claimer", claim(world))
        world.topics.is_down, harm.is_armed = False, False
        await world.drain(10)
        for effect in harm.late:
            with suppress(TransactionRefused):
                effect()
        task = world.tasks()[A]
        assert (task.state, task.last_run_id, task.retries_left) == (State.PENDING, 0, retries)
        await world.drain(2)

    world.run(story())
    check_is_pending_again(world)


def test_a_claim_that_cannot_be_shown_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from shared.queue.claims import work

    world = unordered()

    async def story() -> None:
        await world.create(A)
        with monkeypatch.context() as patch:
            patch.setattr(work, "task_scopes", None)
            assert await world.claim() == []
        assert world.tasks()[A].state is State.PENDING
        assert world.services.runtime.meter.values_of(FAILED_CLAIMS) == {("provisioner", "pool"): 1}
        await world.clock.sleep(61)

    world.run(story())
    (claims,) = world.run(world.services.work.claim_work(POOL, ANOTHER, 1, 2.5))
    assert len(claims) == 1
    finish(world, is_acknowledged=False)


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("end", ["called again", "cancelled"])
@pytest.mark.parametrize("pause", [0, 0.3])
def test_a_claim_is_given_back_whenever_its_client_goes(pause: float, end: str, phase: Phase) -> None:
    """A claim is given back at whichever request of its call the client goes, and when that request is slow."""
    number = 1
    while the_client_goes(pause, end, number, phase):
        number += 1
    assert number > 5


def the_client_goes(pause: float, end: str, number: int, phase: Phase) -> bool:
    """Lets the worker's client go at a request of its claimWork, and checks that somebody else gets the run. Returns
    False if there is no such request."""
    numbers = itertools.count(1)
    gate = Once(lambda call: next(numbers) == number, phase)
    world = unordered(gate)
    given: list[Claim] = []
    again: list[asyncio.Future[list[Claim]]] = []

    async def story() -> None:
        claimer = world.process()
        await world.claim()  # in another process, so that the wait is noted beside the claim
        await world.create(A)
        polling = asyncio.ensure_future(as_process("claimer", claimer.work.claim_work(POOL, WORKER, 1, 1.5)))

        async def leave() -> None:
            await world.clock.sleep(pause)
            if end == "cancelled":
                polling.cancel()
            else:
                again.append(asyncio.ensure_future(claimer.work.claim_work(POOL, WORKER, 1, 0.0)))
                await asyncio.sleep(0)  # it begins, and may need an answer that the first call waits for

        gate.meanwhile, gate.is_armed = leave, True
        await asyncio.wait([polling])
        if not gate.is_armed:
            assert polling.cancelled() or polling.result() == []
            for claims in again:
                given.extend(await claims)
            await world.clock.sleep(11)  # then this process looks again which bands are in use
            given.extend(await world.services.work.claim_work(POOL, ANOTHER, 1, 2.5))

    world.run(story())
    assert gate.is_armed or len(given) == 1, f"{end} {phase.value} request {number}"
    invariants.check(world)
    return not gate.is_armed
