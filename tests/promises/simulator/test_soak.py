"""Runs the soak of `./dev chaos --simulated` for two short cycles, and tests what it notices."""

from __future__ import annotations

import itertools

import pytest

from tests.promises.simulator.soak.deployment import Deployment
from tests.promises.simulator.soak.run import Extent, Soak

SHORT = Extent(days=2, busy_hours=1, groups=4, workers=5)
BUSY = Extent(days=2, busy_hours=1, groups=12, workers=10, quiet_days=2)
VERY_SHORT = Extent(days=1, busy_hours=1, groups=1, workers=1, quiet_days=2)


def soak(seed: int = 3, extent: Extent = SHORT) -> tuple[Soak, list[str]]:
    said: list[str] = []
    return Soak(seed, extent, said.append, itertools.count().__next__), said


def test_nothing_stays_and_all_invariants_hold() -> None:
    short, said = soak()
    assert short.run(cycles=2) == [], said
    first, last = short.samples
    assert last.tasks > first.tasks > 10
    assert last.busiest["rows"] > 100
    assert last.counts.keys() <= {"rows of Directory", "rows of Expiry", "rows of Health"}
    assert last.counts.get("rows of Directory", 0) <= 1, "the reconciler's cursor, which a page that ended early leaves"
    assert short.deployment.restarts > 0
    assert short.deployment.trouble.counts
    assert any(line.startswith("trouble: ") for line in said)


@pytest.mark.large
@pytest.mark.parametrize("seed", range(20, 40))
def test_random_lives_of_processes_whose_clocks_differ(seed: int) -> None:
    busy, said = soak(seed, BUSY)
    assert busy.run(cycles=1) == [], said


def test_a_broken_invariant_ends_the_soak_and_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(deployment: Deployment) -> None:
        raise AssertionError("something is lost")

    monkeypatch.setattr(Deployment, "check", fail)
    short, _ = soak(7, VERY_SHORT)
    (problem,) = short.run(cycles=2)
    assert "something is lost" in problem
    assert "--seed 7" in problem
