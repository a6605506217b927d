"""Storage and Service Bus fail at each request of every call and handler, once or from there on, or answer too late.

A fault is never more than a call that is sent again: it fails retryably, its repeat succeeds, and the invariants hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from shared.base.errors import ServiceUnavailable
from shared.queue.events.failures import EventsUnavailable
from shared.store.interface import StorageUnavailable
from tests.simulator import invariants
from tests.simulator.running import READS, VICTIM, Attempt, attempt, requests
from tests.simulator.scenarios import SCENARIOS, Scenario
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

    async def __call__(self, call: Call, phase: Phase) -> None:
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


def _ends_well(done: Attempt) -> None:
    """The call was answered, or may be sent again; then everything that is due is handled."""
    assert done.outcome is None or isinstance(done.outcome, RETRYABLE), repr(done.outcome)
    if done.outcome is not None:
        done.repeat()
    done.finish()


def _at_every_request(scenario: Scenario, run: Callable[[int], None], *, only_writes: bool = False) -> None:
    for number, at in enumerate(requests(scenario), 1):
        if only_writes and at.kind in READS:
            continue
        try:
            run(number)
        except BaseException as failure:
            failure.add_note(f"request {number}: {at}")
            raise


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_503_at_every_request(scenario: Scenario, phase: Phase) -> None:
    """One request fails for good, without its effect or with it: a read has none."""
    only_writes = phase is Phase.AFTER
    _at_every_request(
        scenario, lambda number: _ends_well(attempt(scenario, FailAt(number, phase))), only_writes=only_writes
    )


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_an_outage_from_every_request_on(scenario: Scenario) -> None:
    """Storage does not respond any more, so what was written ahead cannot be rolled back."""
    _at_every_request(
        scenario, lambda number: _ends_well(attempt(scenario, FailAt(number, Phase.BEFORE, lasting=True)))
    )


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_write_sent_twice(scenario: Scenario) -> None:
    """The answer is lost and the SDK sends the request again: no call fails for what it has done itself."""

    def run(number: int) -> None:
        done = attempt(scenario, FailAt(number, Phase.AFTER, Resent))
        assert done.outcome is None, repr(done.outcome)
        done.finish()

    _at_every_request(scenario, run, only_writes=True)


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
    """Where an event cannot even be kept, the call is not acknowledged, and its repeat announces."""

    def run(number: int) -> None:
        done = attempt(scenario, FailAt(number, Phase.BEFORE, lasting=True), bus_is_down=True)
        assert done.outcome is None or isinstance(done.outcome, RETRYABLE), repr(done.outcome)
        if done.outcome is not None:
            done.repeat()
        _comes_back(done.world)
        if done.is_acknowledged:
            invariants.check_announced(done.world)
        done.finish()

    _at_every_request(scenario, run)


def _comes_back(world: World) -> None:
    """Service Bus is there again, and the host's next attempts at its messages are over."""
    world.topics.is_down = False
    world.run(world.drain(700))
    invariants.check(world)
