"""One task's trouble in a claimWork call costs no other task of the call its claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache

import pytest

from shared.queue.claims.handing_out import AFTER_DEFECT
from shared.queue.tasks.messages import pending_queue
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.parts.twin.gate import Call, Phase, process_name
from tests.promises.simulator import invariants
from tests.promises.simulator.world import POOL, World, unordered

COUNT = 3
ERRORS: dict[str, Callable[[], Exception]] = {
    "unavailable": StorageUnavailable,
    "a defect": lambda: ValueError("a property is too large"),
    "another defect": lambda: KeyError("missing"),
}


@dataclass
class FailAt:
    """Fails the victim's request of that number, every time it is sent; `seen` lists the victim's requests."""

    number: int = -1
    phase: Phase = Phase.BEFORE
    error: Callable[[], Exception] = StorageUnavailable
    seen: list[Call] = field(default_factory=list)

    async def __call__(self, call: Call, phase: Phase) -> None:
        if process_name() != "victim":
            return
        if phase is Phase.BEFORE:
            self.seen.append(call)
        hit = 0 <= self.number < len(self.seen) and self.seen[self.number] is call
        if hit and phase is self.phase:
            raise self.error()


def claim(gate: FailAt) -> tuple[World, list[str], object]:
    """Lets one call claim three tasks; returns the world, the ids of the tasks, and the call's outcome."""
    world = unordered(gate)

    async def prepare() -> None:
        for _ in range(COUNT):
            await world.create()

    world.run(prepare())
    (outcome,) = world.simulation.outcomes(world.victim(world.claim(COUNT)))
    return world, [each.task.task_id for each in world.claims], outcome


@cache
def requests() -> list[Call]:
    unharmed = FailAt()
    claim(unharmed)
    return unharmed.seen


def first() -> int:
    """Returns the number of the first request that is about a claim: earlier ones are about the pool, and the poll."""
    return 1 + max(number for number, at in enumerate(requests()) if at.kind is Kind.QUEUE_GET)


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("error", ERRORS)
def test_whatever_one_request_raises_the_other_claims_are_delivered(error: str, phase: Phase) -> None:
    for number, at in enumerate(requests()[first() :], first()):
        world, given, outcome = claim(FailAt(number, phase, ERRORS[error]))
        note = f"request {number}: {at}"
        if error == "unavailable" and at.target in (keys.POOLS, keys.EXPIRY):
            assert isinstance(outcome, StorageUnavailable) and not given, f"{note}: without rows there is no claim"
        else:
            assert not isinstance(outcome, BaseException), note
            assert len(given) >= COUNT - 1, note
        # The message of a lease whose answer was lost is hidden, and its receipt unknown: the reconciler renews it.
        is_hidden = at.kind is Kind.QUEUE_UPDATE and phase is Phase.AFTER
        for task_id, task in world.tasks().items():
            if task.state is State.PENDING and not is_hidden:
                ((body, visible),) = [
                    held for held in world.messages(pending_queue(POOL, "lowest")) if held[0]["taskId"] == task_id
                ]
                longest = AFTER_DEFECT if "defect" in error else timedelta(seconds=1)
                assert visible - world.clock.now() <= longest, note
                assert body["runId"] == task.last_run_id, note
        invariants.check(world)
        world.run(world.clock.sleep(70))
        world.run(world.claim(COUNT), world.clock.sleep(3))
        world.run(world.claim(COUNT))
        assert all(task.state is State.RUNNING for task in world.tasks().values()), note
