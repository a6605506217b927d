"""A put that is sent again may leave a run two pending messages. Both may be received by one call, or by two calls
within the millisecond by which the row of a claim is named: the run is claimed once, and that claim has its row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shared.queue.tasks.effects import PendingContent
from shared.queue.tasks.rules import State
from shared.store.interface import StorageUnavailable
from shared.telemetry.instruments import FAILED_CLAIMS
from tests.simulator import invariants
from tests.simulator.claimer import ANOTHER, a_world, is_commit, is_index_row
from tests.simulator.parties import claim
from tests.simulator.running import finish
from tests.simulator.situations import A
from tests.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World
from tests.twin.gate import Call, Phase, as_process, process_name


async def _a_doubled_message(world: World, retries: int = 5) -> None:
    await world.create(A, retries=retries)
    hint_id = world.tasks()[A].hint_id
    content = PendingContent(task_queue_id=POOL, task_id=A, run_id=0, hint_id=hint_id)
    await world.services.stores.messages.put_pending(content, "lowest", None)


class _Nth:
    """The answer to the claimer's request of that number, of those that match, is lost."""

    def __init__(self, matches: Any, number: int) -> None:
        self._matches, self._left = matches, number

    async def __call__(self, call: Call, phase: Phase) -> None:
        if phase is Phase.AFTER and process_name() == "claimer" and self._matches(call):
            self._left -= 1
            if not self._left:
                raise StorageUnavailable


@pytest.mark.parametrize("lost", range(3), ids=["answered", "first answer lost", "second answer lost"])
@pytest.mark.parametrize("at", [is_commit, is_index_row], ids=["commit", "rows"])
def test_a_call_that_receives_both_messages_of_a_run_makes_one_claim(at: Any, lost: int) -> None:
    """Were each a claim, the one that loses would take the row, or all of the claim, from the one that is delivered."""
    world = a_world(_Nth(at, lost))
    claimer = world.process()

    async def story() -> list[Any]:
        await _a_doubled_message(world)
        return await as_process("claimer", claimer.work.claim_work(POOL, WORKER, 2, 0.1))

    (outcome,) = world.simulation.outcomes(story())
    claims = [] if isinstance(outcome, StorageUnavailable) else outcome
    assert len(claims) <= 1
    assert len(claims) == 1 or lost == 1, "a request whose answer can be lost is made once"
    assert world.tasks()[A].state is (State.RUNNING if claims else State.PENDING)
    assert not claimer.runtime.meter.of(FAILED_CLAIMS), "no defect"
    invariants.check(world)
    if claims:
        world.run(world.clock.sleep(5))
        assert world.run(world.process().work.claim_work(POOL, ANOTHER, 1, 0.1)) == [[]]
        assert world.tasks()[A].last_run.worker_id == WORKER.worker_id
        invariants.check_settled(world)
    finish(world, is_acknowledged=False)


class _Meanwhile:
    """Right before or after the claimer's request of that number another call comes; then the request fails, or not."""

    def __init__(self, number: int, phase: Phase, is_lost: bool) -> None:
        self._number, self._phase, self._is_lost = number, phase, is_lost
        self.seen: list[Call] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def __call__(self, call: Call, phase: Phase) -> None:
        if process_name() != "claimer" or self.meanwhile is None:
            return
        if phase is Phase.BEFORE:
            self.seen.append(call)
        if phase is self._phase and self._number < len(self.seen) and self.seen[self._number] is call:
            await as_process("other", self.meanwhile())
            if self._is_lost:
                raise StorageUnavailable


def _two_calls(worker_id: str, gate: _Meanwhile) -> World:
    world = a_world(gate)

    async def story() -> None:
        await _a_doubled_message(world)
        gate.meanwhile = lambda: claim(worker_id)(world, world.process())
        await as_process("claimer", claim()(world, world.process()))

    world.simulation.outcomes(story())
    return world


@pytest.mark.parametrize("is_lost", [False, True], ids=["answered", "lost"])
@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("worker_id", ["other", "worker"], ids=["another worker", "the same worker"])
def test_of_two_calls_in_the_same_millisecond_one_has_the_run_and_its_row(
    worker_id: str, phase: Phase, is_lost: bool
) -> None:
    """At each request of one the other comes: then the row by the one name is that of one claim, whatever fails."""
    number, count = 0, 1
    while number < count:
        world = _two_calls(worker_id, gate := _Meanwhile(number, phase, is_lost))
        note = f"at request {number}, {gate.seen[number]}"
        invariants.check(world)
        task = world.tasks()[A]
        assert len(world.claims) == (task.state is State.RUNNING), note
        if world.claims:
            assert world.claims[0].task.last_run.worker_id == task.last_run.worker_id, note
        world.run(world.drain(CLAIM_TIMEOUT.total_seconds() / 2))
        invariants.check(world)
        finish(world, is_acknowledged=False)
        number, count = number + 1, len(gate.seen)
    assert count >= 5
