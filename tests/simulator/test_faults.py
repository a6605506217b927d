"""Storage and Service Bus fail at each request of every call and handler, once or from there on, or answer too late.

A fault is never more than a call that is sent again: it fails retryably, its repeat succeeds, and the invariants hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from shared.base.errors import ServiceUnavailable
from shared.queue.events.breaker import EventsUnavailable
from shared.store.interface import StorageUnavailable
from tests.simulator import invariants
from tests.simulator.running import READS, VICTIM, Attempt, attempt, requests
from tests.simulator.scenarios import SCENARIOS, Scenario
from tests.simulator.topics import SERVICE_BUS
from tests.simulator.world import World
from tests.twin.gate import Call, Phase, Resent, process_name

RETRYABLE = (StorageUnavailable, ServiceUnavailable, EventsUnavailable)


@dataclass
class FailAt:
    """A gate that fails the victim's request of that number (from 1), or with `lasting` all from there on."""

    number: int
    phase: Phase
    error: Callable[[], Exception] = StorageUnavailable
    lasting: bool = False
    sent: int = 0
    hit: Call | None = None

    def __call__(self, call: Call, phase: Phase) -> None:
        """Count what is sent, and fail when it is time."""
        if process_name() != VICTIM:
            return
        if phase is Phase.BEFORE:
            self.sent += 1
            if self.sent == self.number:
                self.hit = call
            if self.lasting and self.sent >= self.number:
                raise self.error()
        if self.hit is call and phase is self.phase:
            self.hit = None
            raise self.error()


def _at_every_request(
    scenario: Scenario,
    make: Callable[[int], Attempt],
    finish: Callable[[Attempt], None],
    seen: set[tuple[str, bool]],
    *,
    only_writes: bool = False,
    begin: int = 1,
) -> None:
    """The call with a fault at each of its requests. It is answered, or fails retryably; then `finish` repeats it, if
    it was not answered, and handles what is due. Of faults that leave the same, as noted in `seen`, one is finished.
    """
    for number, at in enumerate(requests(scenario)[begin - 1 :], begin):
        if only_writes and at.kind in READS:
            continue
        try:
            done = make(number)
            assert done.outcome is None or isinstance(done.outcome, RETRYABLE), repr(done.outcome)
            left = (done.state, done.outcome is None)
            if left not in seen:
                seen.add(left)
                finish(done)
        except BaseException as failure:
            failure.add_note(f"request {number}: {at}")
            raise


def _with(scenario: Scenario, fault: Callable[[int], FailAt], number: int) -> Attempt:
    return attempt(scenario, fault(number))


def _finish(done: Attempt) -> None:
    if done.outcome is not None:
        done.repeat()
    done.finish()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_storage_fails_at_every_request(scenario: Scenario) -> None:
    """One request fails for good, without its effect or with it (a read has none), or storage does not respond from
    there on, so that what was written ahead cannot be rolled back."""
    seen = set[tuple[str, bool]]()
    for phase, lasting in ((Phase.BEFORE, False), (Phase.AFTER, False), (Phase.BEFORE, True)):
        fault = partial(FailAt, phase=phase, lasting=lasting)
        _at_every_request(scenario, partial(_with, scenario, fault), _finish, seen, only_writes=phase is Phase.AFTER)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_write_sent_twice(scenario: Scenario) -> None:
    """The answer is lost and the SDK sends the request again: no call fails for what it has done itself."""

    def make(number: int) -> Attempt:
        done = attempt(scenario, FailAt(number, Phase.AFTER, Resent))
        assert done.outcome is None, repr(done.outcome)
        return done

    _at_every_request(scenario, make, Attempt.finish, set(), only_writes=True)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_service_bus_is_down(scenario: Scenario) -> None:
    """Calls are acknowledged all the same; their events come when Service Bus does."""
    done = attempt(scenario, bus_is_down=True)
    assert done.outcome is None, repr(done.outcome)
    published = len(done.world.topics.messages)
    done.world.run(done.world.drain(60))
    assert len(done.world.topics.messages) == published
    _comes_back(done.world)
    invariants.check_announced(done.world)
    done.finish()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_service_bus_is_down_and_storage_fails(scenario: Scenario) -> None:
    """Where an event cannot even be kept, the call is not acknowledged, and its repeat announces.

    Before its first event is published, Service Bus makes no difference.
    """

    def finish(done: Attempt) -> None:
        if done.outcome is not None:
            done.repeat()
        _comes_back(done.world)
        if done.is_acknowledged:
            invariants.check_announced(done.world)
        done.finish()

    targets = [call.target for call in requests(scenario)]
    if SERVICE_BUS in targets:
        _at_every_request(
            scenario,
            lambda number: attempt(scenario, FailAt(number, Phase.BEFORE, lasting=True), bus_is_down=True),
            finish,
            set(),
            begin=targets.index(SERVICE_BUS) + 1,
        )


def _comes_back(world: World) -> None:
    """Service Bus is there again, and the host's next attempts at its messages are over."""
    world.topics.is_down = False
    world.run(world.drain(700))
    invariants.check(world)
