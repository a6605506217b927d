"""The simulation: it serves what it can, limits and deaths have their documented effects, its document is fresh."""

from __future__ import annotations

import dataclasses
import json

from tools.bench.cost_model.model import INPUTS, Model
from tools.bench.cost_model.tables import DOCUMENT
from tools.bench.simulation.__main__ import MARKS
from tools.bench.simulation.charts import Line, chart
from tools.bench.simulation.deployment import Deployment, Load
from tools.bench.simulation.listeners import LOST
from tools.bench.simulation.scenarios import fingerprint
from tools.bench.simulation.storage import Allowance, Latency

LARGE = Model.of("large", json.loads(INPUTS.read_text()))
SMALL = Model.of("small", json.loads(INPUTS.read_text()))
QUICK = Load(0.2, seconds=10, warm=0, settled=True)


def test_a_load_far_below_the_limits_is_served() -> None:
    run = Deployment(LARGE, QUICK).run()
    assert not run.account.refused
    assert not run.counts["failed calls"]
    assert 0 < run.counts["resolved"] < run.counts["created"] < run.counts["calls"]
    assert 0 < run.counts["handled resolved"] <= run.counts["resolved"]
    assert 0 < run.percentile("call", 0.5) < run.percentile("call", 0.99) < run.percentile("start", 0.99)
    assert all(dollars > 0 for dollars in run.dollars_an_hour().values())


def test_the_same_seed_gives_the_same_run() -> None:
    first, again = (Deployment(LARGE, QUICK).run() for _ in range(2))
    other = Deployment(LARGE, dataclasses.replace(QUICK, seed=2)).run()
    assert first.samples == again.samples
    assert first.samples != other.samples


def test_a_throttled_account_delays_calls_and_recovers() -> None:
    load = dataclasses.replace(QUICK, seconds=20, throttled=(5, 10, 300))
    run = Deployment(LARGE, load).run()
    assert run.account.refused["account"]
    before, during, after = (run.percentile("call", 0.99, *part) for part in ((0, 5), (6, 10), (15, 20)))
    assert during > 5 * before
    assert after < 2 * before


def test_messages_of_an_instance_that_dies_are_late_by_the_time_they_are_hidden() -> None:
    slow = Latency(1.0, 1.5)  # so that an instance always has messages under way
    load = Load(0.05, seconds=LOST + 30, warm=0, calls=False, kill_at=(20.0,), lost=0.01, latency=slow)
    run = Deployment(LARGE, load).run()
    assert run.percentile("follow-up", 0.5) < 15
    assert LOST - 1 < run.percentile("follow-up", 1) < LOST + 20


def test_the_first_call_after_nothing_waits_for_an_instance() -> None:
    run = Deployment(SMALL, Load(seconds=20, warm=0, cold=True)).run()
    start = run.front.size.start
    assert start < run.percentile("call", 1)
    assert run.percentile("call", 0.99, 15, 20) < start


def test_an_allowance_is_its_rate() -> None:
    allowance = Allowance(100, burst=0.1)
    taken = sum(allowance.take(step / 1000, 1) for step in range(10_000))
    assert 1000 <= taken <= 1011
    allowance.change(10, 10.0)
    assert sum(allowance.take(10 + step / 1000, 1) for step in range(10_000)) <= 101


def test_a_chart_has_its_lines() -> None:
    drawing = chart("title", "x", "s", [Line("a<b", [(1, 0.1), (2, 1.0)]), Line("c", [(1, 0.2), (2, 0)])])
    assert drawing.count("<polyline") == 2
    assert "a&lt;b" in drawing


def test_the_document_is_of_these_inputs() -> None:
    text = DOCUMENT.read_text()
    assert all(text.count(mark) == 1 for mark in MARKS)
    assert f"Of the inputs {fingerprint()}." in text, "run: python -m tools.bench.simulation --write"
