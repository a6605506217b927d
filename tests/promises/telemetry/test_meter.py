"""The meter, and what Prometheus reads of it."""

from __future__ import annotations

import re

import pytest

from shared.telemetry.instruments import (
    CLAIMED,
    COMPLETED,
    FAN_OUT_LAG,
    INSTRUMENTS,
    PENDING,
    WAITING,
    WAITING_WORKERS,
)
from shared.telemetry.meter import Distribution, Meter, exposition

SERIES = re.compile(r'([a-z_]+)(?:\{((?:[A-Za-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'([A-Za-z]+)="((?:[^"\\\n]|\\.)*)"')


def parsed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Returns the samples of an exposition, read as Prometheus reads it."""
    found = {}
    for line in text.split("\n")[:-1]:
        if line.startswith("#"):
            continue
        match = SERIES.fullmatch(line)
        assert match, line
        labels = {
            name: re.sub(r"\\(.)", lambda escape: {"n": "\n"}.get(escape[1], escape[1]), value)
            for name, value in LABEL.findall(match[2] or "")
        }
        found[match[1], frozenset(labels.items())] = float(match[3])
    return found


def test_names_are_prometheus_names_and_each_is_once() -> None:
    names = [instrument.name for instrument in INSTRUMENTS]
    assert len(names) == len(set(names))
    for instrument in INSTRUMENTS:
        assert re.fullmatch(r"queue_[a-z_]+", instrument.name)
        assert (instrument.kind == "histogram") == bool(instrument.buckets)
        assert list(instrument.buckets) == sorted(instrument.buckets)


def test_upstreams_names_and_labels_are_kept() -> None:
    kept = {instrument.name: (instrument.kind, instrument.labels) for instrument in INSTRUMENTS}
    pool = ("provisionerId", "workerType")
    assert kept["queue_pending_tasks"] == kept["queue_claimed_tasks"] == ("gauge", pool)
    assert kept["queue_completed_tasks"] == ("counter", pool)
    assert kept["queue_failed_tasks"] == kept["queue_exception_tasks"] == ("counter", (*pool, "reasonResolved"))


def test_counters_add_up_and_gauges_are_replaced() -> None:
    meter = Meter("here")
    meter.add(COMPLETED, "p", "w")
    meter.add(COMPLETED, "p", "w")
    meter.add(COMPLETED, "p", "w")
    meter.add(COMPLETED, "p", "other")
    meter.set(PENDING, 5, "p", "w")
    meter.set(PENDING, 0, "p", "w")
    assert meter.values_of(COMPLETED) == {("p", "w"): 3, ("p", "other"): 1}
    assert meter.values_of(PENDING) == {("p", "w"): 0}
    assert meter.values_of(CLAIMED) == {}


def test_a_histogram_counts_up_to_and_including_its_bounds() -> None:
    meter = Meter("here")
    for value in (0.05, 0.1, 0.2, 3600, 3601):
        meter.record(FAN_OUT_LAG, value)
    text = exposition(meter)
    assert 'queue_fan_out_lag_seconds_bucket{process="here",le="0.1"} 2\n' in text
    assert 'queue_fan_out_lag_seconds_bucket{process="here",le="0.25"} 3\n' in text
    assert 'queue_fan_out_lag_seconds_bucket{process="here",le="3600"} 4\n' in text
    assert 'queue_fan_out_lag_seconds_bucket{process="here",le="+Inf"} 5\n' in text
    assert 'queue_fan_out_lag_seconds_count{process="here"} 5\n' in text
    assert 'queue_fan_out_lag_seconds_sum{process="here"} 7201.35\n' in text


def test_what_only_a_process_knows_names_it_and_gauges_do_not() -> None:
    meter = Meter("here")
    meter.add(COMPLETED, "p", "w")
    meter.set(PENDING, 7, "p", "w")
    assert exposition(meter) == (
        "# HELP queue_pending_tasks Pending tasks of a task queue.\n"
        "# TYPE queue_pending_tasks gauge\n"
        'queue_pending_tasks{provisionerId="p",workerType="w"} 7\n'
        "# HELP queue_completed_tasks Runs that were resolved as completed.\n"
        "# TYPE queue_completed_tasks counter\n"
        'queue_completed_tasks{provisionerId="p",workerType="w",process="here"} 1\n'
    )


def test_series_of_one_name_are_bounded_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.base.bounds.SERIES", 3)
    meter = Meter("here")
    for number in range(10):
        meter.add(COMPLETED, "p", f"w{number}")
        meter.record(WAITING, number, "p", f"w{number}")
    meter.add(COMPLETED, "p", "w1")
    assert meter.values_of(COMPLETED) == {("p", "w0"): 1, ("p", "w1"): 2, ("p", "w2"): 1, ("(others)", "(others)"): 7}
    (waits,) = (series for instrument, series in meter.series() if instrument is WAITING)
    assert len(waits) == 4
    assert sum(found.count for found in waits.values() if isinstance(found, Distribution)) == 10


def test_gauges_of_a_process_name_it() -> None:
    meter = Meter("here")
    meter.set(WAITING_WORKERS, 2, "p", "w", "claimWork")
    assert parsed(exposition(meter)) == {
        (
            "queue_waiting_workers",
            frozenset({"provisionerId": "p", "workerType": "w", "way": "claimWork", "process": "here"}.items()),
        ): 2
    }
    meter.forget(WAITING_WORKERS, ("p", "w", "claimWork"))
    assert parsed(exposition(meter)) == {}
