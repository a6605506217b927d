"""The simulator's crash suite on a real Azurite: the same scenarios and invariants, killed in the SDKs' transport.

The simulator's crash suite takes each kill point with a repeat and without one, so what is left to see here is that
storage behaves as the twin does: the default suite kills at one request of each kind, always the same one; a failure
says how to repeat it. The large suite runs each scenario undisturbed, and kills after every third request, beginning
with one of the first three.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.azurite.crashing import Worlds
from tests.simulator import artifact_invariants, invariants
from tests.simulator.artifact_scenarios import ARTIFACT_SCENARIOS
from tests.simulator.daily import todays_seed
from tests.simulator.running import VICTIM, Attempt, attempt, requests
from tests.simulator.scenarios import SCENARIOS, Scenario
from tests.twin.gate import Call, Kill, Killed, Phase

SEED_VARIABLE = "CRASH_SEED"
"""Environment variable that chooses the sample again which a failure names."""
ALL = [*SCENARIOS, *ARTIFACT_SCENARIOS]
SITES = [
    "BLOB_READ-public-artifacts",
    "BLOB_WRITE-artifacts",
    "BLOB_WRITE-public-artifacts",
    "MAKE-pending",
    "QUEUE_DELETE-claim",
    "QUEUE_DELETE-deadline",
    "QUEUE_DELETE-group-jobs",
    "QUEUE_DELETE-pending",
    "QUEUE_DELETE-resolved",
    "QUEUE_GET-pending",
    "QUEUE_PEEK-pending",
    "QUEUE_PUT-claim",
    "QUEUE_PUT-deadline",
    "QUEUE_PUT-group-jobs",
    "QUEUE_PUT-pending",
    "QUEUE_PUT-resolved",
    "QUEUE_PUT-service-bus",
    "QUEUE_UPDATE-claim",
    "QUEUE_UPDATE-pending",
    "TABLE_READ-Directory",
    "TABLE_READ-Expiry",
    "TABLE_READ-Groups",
    "TABLE_READ-Pools",
    "TABLE_READ-Tasks",
    "TABLE_WRITE-Directory",
    "TABLE_WRITE-Expiry",
    "TABLE_WRITE-Groups",
    "TABLE_WRITE-Pools",
    "TABLE_WRITE-Tasks",
]
"""The kinds of requests that the scenarios make: what is done, and to what."""
Points = dict[str, dict[str, tuple[Scenario, list[int]]]]
"""By kind of request and name of the scenario: the numbers of such requests, from 1."""


@pytest.fixture(scope="module")
def points() -> Points:
    """Where a call can be killed: it makes the same requests as on the twin."""
    found: Points = {}
    for scenario in ALL:
        for number, call in enumerate(requests(scenario), 1):
            numbers = found.setdefault(_site(call), {}).setdefault(scenario.name, (scenario, []))[1]
            numbers.append(number)
    return found


def test_each_kind_of_request_is_killed(points: Points) -> None:
    assert set(points) == set(SITES)


@pytest.mark.parametrize("site", SITES)
def test_killed_at_a_request_by_chance(site: str, points: Points, worlds: Worlds) -> None:
    """At one request of this kind, of one of the scenarios that make such."""
    chance = _chance(site)
    scenario, numbers = points[site][chance.choice(list(points[site]))]
    number, phase, repeat = chance.choice(numbers), chance.choice(list(Phase)), chance.choice([True, False])
    with _repeatable("by_chance", site):
        _killed(worlds, scenario, number, phase, repeat=repeat)


@pytest.mark.large
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_killed_after_every_third_request(scenario: Scenario, worlds: Worlds) -> None:
    """One kill point after the other; the client repeats its call after some.

    Dead before request n + 1 is mostly the same state as dead after request n, and left to chance and the simulator.
    """
    chance = _chance(scenario.name)
    with _repeatable("every_third", scenario.name):
        last = len(_undisturbed(scenario, worlds))
        for number in range(1 + chance.randrange(min(last, 3)), last + 1, 3):
            _killed(worlds, scenario, number, Phase.AFTER, repeat=chance.choice([True, False]))


def _seed() -> str:
    return os.environ.get(SEED_VARIABLE) or todays_seed()


def _site(call: Call) -> str:
    target = "pending" if call.target.startswith("pending-") else call.target
    return f"{call.kind.name}-{target}"


def _chance(name: str) -> random.Random:
    return random.Random(f"{_seed()} {name}")


@contextmanager
def _repeatable(test: str, name: str) -> Iterator[None]:
    """A failure within says how to repeat it."""
    seed = _seed()
    try:
        yield
    except BaseException as failure:
        again = f"./dev test --all tests/azurite/test_crashes.py -k '{test} and {name}'"
        failure.add_note(f"once more: {SEED_VARIABLE}={seed} {again}")
        raise


def _undisturbed(scenario: Scenario, worlds: Worlds) -> list[Call]:
    """The requests of the scenario's call when nothing is in its way."""
    unharmed = Kill(process=VICTIM)
    done = attempt(scenario, unharmed, open_world=worlds.open)
    assert done.outcome is None, repr(done.outcome)
    done.world.run(done.world.drain(60))
    invariants.check_undisturbed(done.world)
    return unharmed.calls


def _killed(worlds: Worlds, scenario: Scenario, number: int, phase: Phase, *, repeat: bool) -> None:
    """The call dies at its request of that number; then comes what is due, after a repeat by the client perhaps."""
    kill = Kill(number=number, phase=phase, process=VICTIM)
    try:
        killed = attempt(scenario, kill, open_world=worlds.open)
        assert len(kill.calls) >= number, "the scenario makes the same requests each time"
        assert isinstance(killed.outcome, Killed | None), repr(killed.outcome)
        if repeat and killed.outcome is not None:
            killed.repeat()
        _finish(killed)
    except BaseException as failure:
        at = kill.calls[number - 1] if number <= len(kill.calls) else "never sent"
        repeated = "repeated" if repeat else "not repeated"
        failure.add_note(f"{scenario.name}: killed {phase.value} request {number}, {repeated}: {at}")
        raise


def _finish(done: Attempt) -> None:
    if done.scenario in ARTIFACT_SCENARIOS:
        artifact_invariants.finish(done)
    else:
        done.finish()
