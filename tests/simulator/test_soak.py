"""The soak that `./dev chaos --simulated` runs for an hour, for two short cycles; and what it notices."""

from __future__ import annotations

import itertools
import runpy
import sys
from collections.abc import Mapping

import pytest
from typer.testing import CliRunner

from shared.store import keys
from shared.store.interface import Upsert
from tests.simulator.soak.deployment import Deployment
from tests.simulator.soak.measures import ENOUGH, Sample, growth, report
from tests.simulator.soak.run import Extent, Soak
from tools.local import cli

SHORT = Extent(days=2, busy_hours=1, groups=4, workers=5)
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
    assert last.counts.keys() <= {"rows of Directory", "rows of Expiry", "rows of History"}
    assert last.counts.get("rows of Directory", 0) <= 1, "the reconciler's cursor, which a page that ended early leaves"
    assert short.deployment.restarts > 0
    assert short.deployment.trouble.counts
    assert any(line.startswith("trouble: ") for line in said)


def test_rows_that_stay_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    forget = Deployment.forget
    numbers = itertools.count()

    def leave_a_row(deployment: Deployment) -> None:
        forget(deployment)
        tables = deployment.world.account.connect().tables
        deployment.world.run(tables.transact(keys.POOLS, f"left {next(numbers)}", [Upsert("row", {})]))

    monkeypatch.setattr(Deployment, "forget", leave_a_row)
    short, _ = soak(extent=VERY_SHORT)
    assert any(line.startswith("rows of Pools: ") for line in short.run(cycles=2))


def test_a_broken_invariant_ends_the_soak_and_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(deployment: Deployment) -> None:
        raise AssertionError("something is lost")

    monkeypatch.setattr(Deployment, "check", fail)
    short, _ = soak(7, VERY_SHORT)
    (problem,) = short.run(cycles=2)
    assert "something is lost" in problem
    assert "--seed 7" in problem


def sample(number: int, megabytes: float, counts: Mapping[str, int]) -> Sample:
    sums = {"rows": 1, "messages": 0, "blobs": 0}
    return Sample(
        cycle=number,
        seconds=number,
        days=number,
        tasks=number,
        busiest=sums,
        counts=counts,
        megabytes=megabytes,
    )


@pytest.mark.parametrize(("step", "is_flat"), [(0.1, True), (3.0, False)])
def test_memory_that_grows_is_noticed(step: float, is_flat: bool) -> None:
    samples = [sample(number, 100 + step * number, {}) for number in range(4 * ENOUGH)]
    found = list(growth(samples))
    assert (found == []) == is_flat
    assert all(line.startswith("memory: ") for line in found)
    assert len(list(report(samples))) <= 45


def test_less_than_after_the_first_cycle_is_no_growth() -> None:
    assert list(growth([sample(0, 100, {"rows of Tasks": 3}), sample(1, 100, {"rows of Tasks": 2})])) == []
    (line,) = growth([sample(0, 100, {}), sample(1, 100, {"messages of claim": 1})])
    assert line == "messages of claim: 0 after the first cycle, 1 after the last one"


def test_the_command_shows_its_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--minutes" in CliRunner().invoke(cli.app, ["chaos", "--help"], catch_exceptions=False).output
    monkeypatch.setattr(sys, "argv", ["soak", "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_module("tests.simulator.soak", run_name="__main__")
    assert "--minutes" in capsys.readouterr().out
