"""Each alert fires on the incident that docs/operations.md names, and on no other, and not on a quiet day."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.promises.infra import expected, templates
from tests.promises.infra.kql import NotKnown, Row, run
from tools.local.state import ROOT

NOW = datetime(2030, 5, 6, 12, 0, tzinfo=UTC)
Logs = dict[str, list[Row]]
NOTIFIES = "large, of an account that is taken"
"""Name of a scenario that has all alerts."""


def metric(name: str, value: float, **labels: str) -> list[Row]:
    """Returns a value each minute, as the exporter sends it: gauges have no maximum, histograms have one besides the
    sum."""
    largest = value if name == "queue_timer_lateness_seconds" else None
    times = [NOW - timedelta(minutes=minute) for minute in range(1, 15)]
    return [{"TimeGenerated": at, "Name": name, "Max": largest, "Sum": value, "Properties": labels} for at in times]


DURATION = "queue_call_duration_seconds"


def counted(call: str, outcome: str, count: int, ago: int) -> Row:
    """Returns what a process counts of its calls and runs in a minute: one row stands for all of one outcome."""
    row = {"TimeGenerated": NOW - timedelta(minutes=ago), "Name": DURATION, "Max": 0.1, "Sum": 1.0}
    return {**row, "ItemCount": count, "Properties": {"call": call, "outcome": outcome}}


def calls(count: int, status: str, *, ago: int = 3) -> list[Row]:
    """Returns calls of the same minute, by default one of the last five."""
    return [counted("task", status, count, ago)]


def timers(ago: int = 5, name: str = "expire") -> list[Row]:
    """Returns runs of a timer function, the last one `ago` minutes ago."""
    return [counted(name, "done", 1, minute) for minute in range(ago, ago + 55, 10)]


def ended(count: int, category: str = "Host.Results") -> list[Row]:
    """Returns requests of calls that ended their process, which the host sends."""
    row = {"TimeGenerated": NOW - timedelta(minutes=3), "Name": "http", "Url": "https://x/y", "ResultCode": "500"}
    return [{**row, "ItemCount": 1, "Properties": {"Category": category}} for _ in range(count)]


def day(metrics: Sequence[Row] = (), requests: Sequence[Row] = (), *, last_timer: int = 5, log: str = "") -> Logs:
    """Returns the logs of a quiet day, and of what happens besides."""
    quiet = [
        *metric("queue_poison_messages", 0, queue="claim"),
        *metric("queue_oldest_pending_task_age_seconds", 20, provisionerId="p", workerType="w"),
        *metric("queue_event_backlog", 3),
        *metric("queue_ending_credentials", 0, state="ended"),
        *metric("queue_ending_credentials", 0, state="refused"),
        *metric("queue_timer_lateness_seconds", 1, timer="claim"),
    ]
    usual = [*calls(200, "200"), *timers(last_timer)]
    return {"AppMetrics": [*quiet, *usual, *metrics], "AppRequests": list(requests), "_LogOperation": operations(log)}


def operations(detail: str) -> list[Row]:
    """Returns what the workspace says of itself."""
    at = NOW - timedelta(minutes=3)
    schema = {"TimeGenerated": at, "Category": "Schema", "Detail": "a column was added; OverQuota is none of it"}
    return [schema, *([{"TimeGenerated": at, "Category": "Ingestion", "Detail": detail}] if detail else [])]


INCIDENTS: Mapping[str, tuple[set[str], Logs]] = {
    "a quiet day": (set(), day()),
    "nobody takes mail": (
        {"notifications-given-up"},
        {**day(), "AppTraces": [{"TimeGenerated": NOW, "Message": "Given up: notifications of message m"}]},
    ),
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
    "our own code fails": ({"failed-calls"}, day(calls(30, "500"))),
    "a call ends its process again and again": ({"functions-end"}, day(requests=ended(4))),
    "a process ends": (set(), day(requests=ended(1))),
    "traces of calls that fail": (set(), day(requests=ended(9, ""))),
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
    "the reconciler alone runs": (set(), day(timers(5, "reconcile"), last_timer=3000)),
    "somebody mistypes": (set(), day(calls(20, "401"))),
    "the log is full": ({"logs-full"}, day(log="Data collection stopped due to daily limit (OverQuota)")),
    "the log takes in late": (set(), day(log="The rate limit was exceeded")),
}


def fires(properties: Mapping[str, Any], logs: Logs) -> bool:
    """Whether a rule finds trouble in its window."""
    (criterion,) = properties["criteria"]["allOf"]
    window = expected.duration(properties["windowSize"])
    seen = {
        name: [row for row in rows if row["TimeGenerated"] >= NOW - window]
        for name, rows in {"AppTraces": [], **logs}.items()
    }
    rows = run(criterion["query"], seen, NOW)
    assert criterion["timeAggregation"] == "Maximum"
    values = [value for row in rows if (value := row[criterion["metricMeasureColumn"]]) is not None]
    value = max(values, default=0)
    limit = criterion["threshold"]
    return bool({"GreaterThan": value > limit, "LessThan": value < limit}[criterion["operator"]])


Series = dict[tuple[str, str], list[float]]
"""A value a minute, the oldest first, by metric and entity (a topic, or nothing)."""
HOUR = 60


def hour(**changes: dict[str, list[float]]) -> Series:
    """Returns an hour of two topics and the account that is quiet except for the given changes."""
    quiet = {
        "ActiveMessages": {"task-pending": [0.0, 40.0] * 30, "task-completed": [3.0] * HOUR},
        "DeadletteredMessages": {"task-pending": [0.0] * HOUR, "task-completed": [2.0] * HOUR},
        "Availability": {"": [100.0] * HOUR},
    }
    return {
        (metric, entity): values
        for metric, entities in quiet.items()
        for entity, values in {**entities, **changes.get(metric, {})}.items()
    }


MANY = 50_000.0
OF_METRICS: Mapping[str, tuple[set[str], Series]] = {
    "a quiet hour": (set(), hour()),
    "a subscriber of one topic fails": ({"dead-letters"}, hour(DeadletteredMessages={"task-pending": [MANY] * HOUR})),
    "it has just begun to fail": (
        {"dead-letters"},
        hour(DeadletteredMessages={"task-pending": [0.0] * 55 + [MANY] * 5}),
    ),
    "nobody reads one topic": ({"unread-events"}, hour(ActiveMessages={"task-pending": [MANY] * HOUR})),
    "a burst that is read": (set(), hour(ActiveMessages={"task-pending": [MANY] * 50 + [0.0] * 10})),
    "storage fails": ({"storage-availability"}, hour(Availability={"": [100.0] * 45 + [90.0] * 15})),
    "storage fails for a minute": (set(), hour(Availability={"": [100.0] * 59 + [90.0]})),
    "a deployment has just begun": (set(), {}),
}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


AGGREGATED: Mapping[str, Callable[[Sequence[float]], float]] = {"Maximum": max, "Minimum": min, "Average": _mean}


def fires_on(properties: Mapping[str, Any], series: Series) -> bool:
    """Whether all criteria of a rule hold for an entity. A rule without values is silent: there is nothing to
    compare."""
    minutes = expected.duration(properties["windowSize"]) // timedelta(minutes=1)
    (criterion,) = properties["criteria"]["allOf"]
    split = [each["name"] for each in criterion.get("dimensions", [])]
    assert split in ([], ["EntityName"])
    found = [values[-minutes:] for (metric, _), values in series.items() if metric == criterion["metricName"]]
    if not split and found:  # over all entities together
        found = [[_mean(at) for at in zip(*found, strict=True)]]
    limit = criterion["threshold"]
    for values in found:
        value = AGGREGATED[criterion["timeAggregation"]](values)
        if {"GreaterThan": value > limit, "LessThan": value < limit}[criterion["operator"]]:
            return True
    return False


@pytest.mark.parametrize("profile", ["small, with a notifier that has no mail yet", NOTIFIES])
@pytest.mark.parametrize("incident", [*INCIDENTS, *OF_METRICS])
def test_an_incident_raises_its_own_alert_alone(incident: str, profile: str) -> None:
    def fired(kind: str, holds: Callable[[Any, Any], bool], what: Any) -> set[str]:
        rules = templates.resources(f"Microsoft.Insights/{kind}", profile)
        return {re.sub(r"^alert-[a-z0-9]+-", "", each.name) for each in rules if holds(each.body["properties"], what)}

    if incident in INCIDENTS:
        wanted, logs = INCIDENTS[incident]
        assert fired("scheduledQueryRules", fires, logs) == wanted
    else:
        wanted, series = OF_METRICS[incident]
        assert fired("metricAlerts", fires_on, series) == wanted


def test_each_alert_has_its_incident_and_a_line_of_the_page() -> None:
    rules = [
        *templates.resources("Microsoft.Insights/scheduledQueryRules", NOTIFIES),
        *templates.resources("Microsoft.Insights/metricAlerts", NOTIFIES),
    ]
    names = {re.sub(r"^alert-[a-z0-9]+-", "", each.name) for each in rules}
    assert names == {name for wanted, _ in (*INCIDENTS.values(), *OF_METRICS.values()) for name in wanted}
    page = (ROOT / "docs" / "operations.md").read_text().partition("\n## Alerts\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == names | {"budget"}


def test_what_is_asked_for_is_measured() -> None:
    """Every name that a rule asks for is measured: with another name it would be silent, as queries are not checked."""
    rules = templates.resources("Microsoft.Insights/scheduledQueryRules")
    queries = {
        re.sub(r"^alert-[a-z0-9]+-", "", each.name): each.body["properties"]["criteria"]["allOf"][0]["query"]
        for each in rules
    }
    for name, metrics in expected.METRICS.items():
        named = ", ".join(f'"{metric}"' for metric in metrics)
        which = f"== {named}" if len(metrics) == 1 else f"in ({named})"
        assert queries[name].startswith(
            f"AppMetrics | where Name {which} | project TimeGenerated, Value = coalesce(Max, Sum)"
        )
    functions = "".join(path.read_text() for path in (ROOT / "functions").glob("*.py"))
    timers = set(re.findall(r'function_name\("([a-z-]+)"\)\n@blueprint.timer_trigger', functions))
    assert set(re.findall(r'"([a-z]+)"', queries["timers-stand-still"].partition("summarize")[0])) == timers & {
        "expire",
        "reconcile",
    }
    for item in templates.document("workbook.json")["items"]:
        if item["type"] == 3:
            assert expected.unknown_names(item["content"]["query"]) == set()
            assert not re.search(r"(?<!coalesce\()\bMax\b", item["content"]["query"]), "gauges have no maximum"
    assert expected.unknown_names('AppMetrics | where Nam == "Name" | project X = coalesce(Max, Summ)') == {
        "Nam",
        "Summ",
    }


@pytest.mark.parametrize(
    "query", ["take 5", "where A startswith 'x'", "extend B = A", "where strlen(A) > 3", "where A > 1 and A > 2"]
)
def test_what_is_not_known_is_refused(query: str) -> None:
    with pytest.raises(NotKnown):
        run(f"T | {query}", {"T": [{"A": 1.0}]})


def test_the_words_mean_what_they_mean_in_kusto() -> None:
    """The words of queries mean what Kusto's reference says: null compares with nothing, toint of no number is null,
    bin rounds down."""
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
    assert run("T | summarize N = sum(B), M = sumif(B, A >= 0)", table) == [{"N": 4.0, "M": 2.0}]
    assert run("T | where isnotempty(A) | project X = 100.0 * B / 4", table) == [{"X": 50.0}]
    assert len(run('T | where C in ("x", "y")', table)) == 1
