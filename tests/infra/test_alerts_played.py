"""Each alert over logs fires on the incident that docs/operations.md names, and on no other, and not on a quiet day."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.infra import templates
from tests.infra.kql import NotKnown, Row, run
from tools.local.templates import limits

NOW = datetime(2030, 5, 6, 12, 0, tzinfo=UTC)
Logs = dict[str, list[Row]]


def metric(name: str, value: float, **labels: str) -> list[Row]:
    """A value each minute, as the exporter sends it: gauges have no maximum, histograms have one besides the sum."""
    largest = value if name == "queue_timer_lateness_seconds" else None
    times = [NOW - timedelta(minutes=minute) for minute in range(1, 15)]
    return [{"TimeGenerated": at, "Name": name, "Max": largest, "Sum": value, "Properties": labels} for at in times]


DURATION = "queue_call_duration_seconds"


def calls(count: int, status: str, *, ago: int = 3) -> list[Row]:
    """Calls of the same minute, by default one of the last five: what a process counts of them."""
    row = {"TimeGenerated": NOW - timedelta(minutes=ago), "Name": DURATION, "Max": 0.1, "Sum": 1.0}
    return [{**row, "ItemCount": count, "Properties": {"call": "task", "outcome": status}}]


def timers(ago: int = 5) -> list[Row]:
    """Runs of the timer functions, the last one so many minutes ago."""
    row = {
        "Name": DURATION,
        "Max": 1.0,
        "Sum": 1.0,
        "ItemCount": 1,
        "Properties": {"call": "expire", "outcome": "done"},
    }
    return [{**row, "TimeGenerated": NOW - timedelta(minutes=minute)} for minute in range(ago, ago + 55, 10)]


def ended(count: int) -> list[Row]:
    """Calls that ended their process: the requests that the host sends."""
    row = {"TimeGenerated": NOW - timedelta(minutes=3), "Name": "http", "Url": "https://x/y", "ResultCode": "500"}
    return [{**row, "ItemCount": 1, "Properties": {"Category": "Host.Results"}} for _ in range(count)]


def day(metrics: Sequence[Row] = (), requests: Sequence[Row] = (), *, last_timer: int = 5, log: str = "") -> Logs:
    """A quiet day, and what happens besides."""
    quiet = [
        *metric("queue_poison_messages", 0, queue="claim"),
        *metric("queue_oldest_pending_task_age_seconds", 20, provisionerId="p", workerType="w"),
        *metric("queue_event_backlog", 3),
        *metric("queue_ending_credentials", 0, state="ended"),
        *metric("queue_ending_credentials", 0, state="refused"),
        *metric("queue_timer_lateness_seconds", 1, timer="claim"),
    ]
    counted = [*calls(200, "200"), *timers(last_timer), *metrics]
    traces = [{"TimeGenerated": NOW, "Name": "task", "Url": "", "ResultCode": "0", "ItemCount": 5, "Properties": {}}]
    return {
        "AppMetrics": [*quiet, *counted],
        "AppRequests": [*traces, *requests],
        "_LogOperation": operations(log),
    }


def operations(detail: str) -> list[Row]:
    """What the workspace says of itself."""
    at = NOW - timedelta(minutes=3)
    schema = {"TimeGenerated": at, "Category": "Schema", "Detail": "a column was added; OverQuota is none of it"}
    return [schema, *([{"TimeGenerated": at, "Category": "Ingestion", "Detail": detail}] if detail else [])]


INCIDENTS: Mapping[str, tuple[set[str], Logs]] = {
    "a quiet day": (set(), day()),
    "a message is given up": ({"poison-messages"}, day(metric("queue_poison_messages", 1, queue="claim"))),
    "a message is given up, and telemetry is late": (
        {"poison-messages"},
        day(metric("queue_poison_messages", 1, queue="claim")[9:]),
    ),
    "no worker comes": ({"oldest-pending"}, day(metric("queue_oldest_pending_task_age_seconds", 20_000))),
    "claims are noticed late": ({"timer-lateness"}, day(metric("queue_timer_lateness_seconds", 1000, timer="claim"))),
    "Service Bus is down": ({"event-backlog"}, day(metric("queue_event_backlog", 20_000))),
    "an outage outlasts the events of tasks": ({"events-lost"}, day(metric("queue_lost_events", 2))),
    "an outage outlasts tasks": ({"events-lost"}, day(metric("queue_unannounced_expirations", 1))),
    "a client ends": ({"credentials-end"}, day(metric("queue_ending_credentials", 1, state="ending"))),
    "a client that exists is refused": (
        {"credentials-end"},
        day(metric("queue_ending_credentials", 1, state="refused")),
    ),
    "storage fails": ({"failed-calls"}, day(calls(30, "503"))),
    "a call ends its process again and again": ({"functions-end"}, day(requests=ended(4))),
    "a process ends": (set(), day(requests=ended(1))),
    "callers make mistakes": (set(), day(calls(300, "404"))),
    "a few calls fail every five minutes": (
        set(),
        {**day(), "AppMetrics": [*timers(), *(row for ago in (3, 8, 13) for row in calls(8, "500", ago=ago))]},
    ),
    "one call fails at night": (set(), {**day(), "AppMetrics": [*timers(), *calls(1, "500")]}),
    "the app stands still": ({"timers-stand-still"}, day(last_timer=70)),
    "the app has stood still for a day": ({"timers-stand-still"}, day(last_timer=1500)),
    "a timer is late by some minutes": (set(), day(last_timer=50)),
    "a deployment has just begun": (set(), {"AppMetrics": [], "AppRequests": [], "_LogOperation": operations("")}),
    "the first timers of a deployment": (
        set(),
        {"AppMetrics": timers()[:1], "AppRequests": [], "_LogOperation": operations("")},
    ),
    "nothing takes tasks of one queue": (
        {"stalled-tasks"},
        day([*metric("queue_stalled_tasks", 4, workerType="a"), *metric("queue_stalled_tasks", 0, workerType="b")]),
    ),
    "workers have a token that has ended": ({"refused-credentials"}, day(calls(700, "401"))),
    "somebody mistypes": (set(), day(calls(20, "401"))),
    "the log is full": ({"logs-full"}, day(log="Data collection stopped due to daily limit (OverQuota)")),
    "the log takes in late": (set(), day(log="The rate limit was exceeded")),
}


def fires(properties: Mapping[str, Any], logs: Logs) -> bool:
    """Whether a rule sees trouble in its window."""
    (criterion,) = properties["criteria"]["allOf"]
    window = limits.duration(properties["windowSize"])
    assert window is not None
    seen = {name: [row for row in rows if row["TimeGenerated"] >= NOW - window] for name, rows in logs.items()}
    rows = run(criterion["query"], seen, NOW)
    if criterion["timeAggregation"] == "Count":
        value = float(len(rows))
    else:
        assert criterion["timeAggregation"] == "Maximum"
        values = [value for row in rows if (value := row[criterion["metricMeasureColumn"]]) is not None]
        value = max(values, default=0)
    limit = criterion["threshold"]
    return bool({"GreaterThan": value > limit, "LessThan": value < limit}[criterion["operator"]])


@pytest.mark.parametrize("profile", ["small, bare", "large, closed"])
@pytest.mark.parametrize("incident", INCIDENTS)
def test_an_incident_raises_its_own_alert_alone(incident: str, profile: str) -> None:
    wanted, logs = INCIDENTS[incident]
    rules = templates.resources("Microsoft.Insights/scheduledQueryRules", profile)
    fired = {re.sub(r"^alert-[a-z0-9]+-", "", each.name) for each in rules if fires(each.body["properties"], logs)}
    assert fired == wanted


def test_each_alert_over_logs_has_its_incident() -> None:
    rules = templates.resources("Microsoft.Insights/scheduledQueryRules")
    names = {re.sub(r"^alert-[a-z0-9]+-", "", each.name) for each in rules}
    assert names == {name for wanted, _ in INCIDENTS.values() for name in wanted}


@pytest.mark.parametrize(
    "query",
    [
        "T | take 5",
        "T | where A startswith 'x'",
        "T | extend B = A",
        "T | where strlen(A) > 3",
        "T | where A > 1 and A > 2",
    ],
)
def test_what_is_not_known_is_refused(query: str) -> None:
    with pytest.raises(NotKnown):
        run(query, {"T": [{"A": 1.0}]})


def test_the_words_mean_what_they_mean_in_kusto() -> None:
    """As in the reference of the language: null compares with nothing, toint of no number is null, bin rounds down."""
    at = datetime(2030, 1, 1, 10, 7, 31, tzinfo=UTC)
    table: Logs = {"T": [{"At": at, "A": None, "B": 2.0, "C": "12"}, {"At": at, "A": 1.0, "B": 2.0, "C": "x"}]}
    assert run("T | where A >= 0 | project B", table) == [{"B": 2.0}]
    assert run("T | project X = coalesce(A, B)", table) == [{"X": 2.0}, {"X": 1.0}]
    assert run("T | where toint(C) >= 5 | project C", table) == [{"C": "12"}]
    assert len(run('T | where C contains "X"', table)) == 1, "regardless of case"
    later = at + timedelta(minutes=2, seconds=30)
    last = 'T | summarize L = max(At) | project V = datetime_diff("minute", now(), L)'
    assert run(last, table, later) == [{"V": 3}], "boundaries are counted, not what lies between"
    assert run(last, {"T": []}, later) == [{"V": None}], "one row, also of nothing"
    binned = run("T | summarize N = count(), M = countif(A >= 0) by S = bin(At, 5m)", table)
    assert binned == [{"S": at.replace(minute=5, second=0), "N": 2, "M": 1}]
    assert run("T | where isnotempty(A) | project X = 100.0 * B / 4", table) == [{"X": 50.0}]
    assert len(run('T | where C in ("x", "y")', table)) == 1
