"""Service Bus fails, and storage with it or not, and answers of storage are lost, at each request of every call and
handler. A fault is never more than a call that is sent again: it fails retryably, its repeat succeeds, and the
invariants hold."""

from __future__ import annotations

from itertools import dropwhile

import pytest

from tests.parts.twin.gate import Phase, Resent
from tests.promises.simulator import invariants
from tests.promises.simulator.daily import some
from tests.promises.simulator.failing import FailAt, finish_each
from tests.promises.simulator.running import READS, Attempt, attempt, requests
from tests.promises.simulator.scenarios import SCENARIOS, Scenario
from tests.promises.simulator.topics import SERVICE_BUS
from tests.promises.simulator.world import World


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_write_sent_twice(scenario: Scenario) -> None:
    """If an answer is lost and the SDK sends the write again, no call fails because of its own first try."""

    def make(number: int) -> Attempt:
        done = attempt(scenario, FailAt(number, Phase.AFTER, Resent))
        assert done.outcome is None, repr(done.outcome)
        return done

    writes = [(number, call) for number, call in enumerate(requests(scenario), 1) if call.kind not in READS]
    finish_each(some(writes, 3, f"sent twice, {scenario.name}"), make, Attempt.finish, set())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_service_bus_is_down(scenario: Scenario) -> None:
    """Without Service Bus, calls are acknowledged all the same; their events come when it is back."""
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
    """Without Service Bus and storage, an event cannot even be kept: the call is not acknowledged, and its repeat
    announces. Before its first event is published, Service Bus makes no difference."""

    def finish(done: Attempt) -> None:
        if done.outcome is not None:
            done.repeat()
        _comes_back(done.world)
        if done.is_acknowledged:
            invariants.check_announced(done.world)
        done.finish()

    numbered = dropwhile(lambda each: each[1].target != SERVICE_BUS, enumerate(requests(scenario), 1))
    finish_each(
        some(list(numbered), 3, f"Service Bus down, {scenario.name}"),
        lambda number: attempt(scenario, FailAt(number, Phase.BEFORE, lasting=True), bus_is_down=True),
        finish,
        set(),
    )


def _comes_back(world: World) -> None:
    """Brings Service Bus back, and lets the host's next attempts at its messages pass."""
    world.topics.is_down = False
    world.run(world.drain(700))
    invariants.check(world)
