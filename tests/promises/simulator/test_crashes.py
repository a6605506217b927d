"""Every call and every handler is killed at each of its requests, before it is sent and before its answer is read, or
the request fails, or storage does not respond from there on. Then everything that is due is handled, after a repeat by
the client or without one, and the invariants must hold (design 7). What was acknowledged must have been announced."""

from __future__ import annotations

import pytest

from tests.promises.simulator import invariants
from tests.promises.simulator.failing import fail
from tests.promises.simulator.running import Attempt, Harmed, attempt
from tests.promises.simulator.scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_without_a_crash(scenario: Scenario) -> None:
    """Without a crash, the scenario does what it says, and the checks accept it."""
    done = attempt(scenario)
    assert done.outcome is None, repr(done.outcome)
    invariants.check_announced(done.world)
    done.world.run(done.world.drain(60))
    invariants.check_undisturbed(done.world)
    done.finish()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_killed_or_failing_at_every_request(scenario: Scenario) -> None:
    """A call that is killed, or fails, at any request breaks no invariant."""
    harmed = Harmed(scenario, Attempt.finish, one_in=3)
    harmed.die()
    fail(harmed)
    harmed.repeat()
