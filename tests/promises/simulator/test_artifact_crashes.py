"""Calls on artifacts, killed at each of their requests: nothing acknowledged is lost, nothing is left over."""

from __future__ import annotations

import pytest

from tests.promises.simulator import invariants
from tests.promises.simulator.artifact_invariants import finish
from tests.promises.simulator.artifact_scenarios import ARTIFACT_SCENARIOS
from tests.promises.simulator.running import Harmed, attempt
from tests.promises.simulator.scenarios import Scenario


@pytest.mark.parametrize("scenario", ARTIFACT_SCENARIOS, ids=lambda scenario: scenario.name)
def test_without_a_crash(scenario: Scenario) -> None:
    """Without a crash, the scenario does what it says, and the checks accept it."""
    done = attempt(scenario)
    assert done.outcome is None, repr(done.outcome)
    assert scenario.effect is None or scenario.effect(done.world)
    done.world.run(done.world.drain(60))
    invariants.check_undisturbed(done.world)
    finish(done)


@pytest.mark.parametrize("scenario", ARTIFACT_SCENARIOS, ids=lambda scenario: scenario.name)
def test_killed_at_every_request(scenario: Scenario) -> None:
    """A call that is killed at any of its requests loses nothing, whether or not it is repeated."""
    harmed = Harmed(scenario, finish)
    harmed.die()
    harmed.repeat()
