"""Alerts and the workbook: what they ask for exists, and who is named hears of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from shared.telemetry.instruments import INSTRUMENTS
from tests.infra import templates
from tools.local.state import ROOT

SCENARIO = pytest.mark.parametrize("scenario", templates.SCENARIOS)
COMMON = {"TimeGenerated", "Name", "Properties", "AppRoleName", "AppRoleInstance", "OperationId"}
COLUMNS = {
    "AppMetrics": {*COMMON, "Sum", "Min", "Max", "ItemCount"},
    "_LogOperation": {"TimeGenerated", "Category", "Detail", "Level", "Operation"},
    "AppRequests": {*COMMON, "Url", "ResultCode", "Success", "DurationMs", "ItemCount", "OperationName", "Id"},
}
"""Those of Azure's reference of tables that queries may need."""
WORDS = {
    "where",
    "project",
    "summarize",
    "extend",
    "by",
    "in",
    "contains",
    "and",
    "or",
    "asc",
    "desc",
    "order",
    "render",
    "timechart",
}
OF_WORKBOOK = [item["content"]["query"] for item in templates.document("workbook.json")["items"] if item["type"] == 3]


def _unknown_columns(query: str) -> set[str]:
    """Names that are neither columns of the query's table nor made by the query before or there."""
    table = query.partition("|")[0].strip()
    text = re.sub(r'"[^"]*"', '""', query.partition("|")[2])
    made = set(re.findall(r"\b(\w+) =(?!=)", text))
    text = re.sub(r"\.\w+|\b\d\w*|\b\w+(?=\()", "", text)
    return set(re.findall(r"\b[A-Za-z_]\w*", text)) - made - COLUMNS[table] - WORDS


@SCENARIO
def test_queries_ask_for_columns_that_their_table_has(scenario: str) -> None:
    rules = templates.resources("Microsoft.Insights/scheduledQueryRules", scenario)
    of_rules = [each.body["properties"]["criteria"]["allOf"][0]["query"] for each in rules]
    assert {query: found for query in (*of_rules, *OF_WORKBOOK) if (found := _unknown_columns(query))} == {}


def test_a_column_that_is_misspelt_is_found() -> None:
    assert _unknown_columns('AppMetrics | where Nam == "Name" | project X = coalesce(Max, Summ)') == {"Nam", "Summ"}


@pytest.mark.parametrize("query", OF_WORKBOOK)
def test_the_workbook_asks_for_labels_that_its_metrics_have(query: str) -> None:
    labels = {each.name: set(each.labels) for each in INSTRUMENTS}
    names = set(re.findall(r'"(queue_\w+)"', query))
    had = {label for name in names for label in labels[name]}
    assert set(re.findall(r"Properties\.(\w+)", query)) <= had


METRICS = {
    "poison-messages": ("queue_poison_messages",),
    "oldest-pending": ("queue_oldest_pending_task_age_seconds",),
    "timer-lateness": ("queue_timer_lateness_seconds",),
    "event-backlog": ("queue_event_backlog",),
    "events-lost": ("queue_lost_events", "queue_unannounced_expirations"),
    "stalled-tasks": ("queue_stalled_tasks",),
    "credentials-end": ("queue_ending_credentials",),
}


def _alerts(kind: str, scenario: str) -> Iterator[tuple[str, Any]]:
    for each in templates.resources(kind, scenario):
        yield re.sub(r"^alert-[a-z0-9]+-", "", each.name), each.body["properties"]


@SCENARIO
def test_a_rule_about_a_metric_looks_at_all_of_its_values(scenario: str) -> None:
    found = dict(_alerts("Microsoft.Insights/scheduledQueryRules", scenario))
    for name, metrics in METRICS.items():
        (criterion,) = found[name]["criteria"]["allOf"]
        named = ", ".join(f'"{metric}"' for metric in metrics)
        which = f"== {named}" if len(metrics) == 1 else rf"in \({named}\)"
        wanted = rf"AppMetrics \| where Name {which} \| project TimeGenerated, Value = coalesce\(Max, Sum\)(, .*)?"
        assert re.fullmatch(wanted, criterion["query"]), criterion["query"]
        assert (criterion["timeAggregation"], criterion["metricMeasureColumn"]) == ("Maximum", "Value")
        of_metrics = [each for each in INSTRUMENTS if each.name in metrics]
        assert len(of_metrics) == len(metrics)
        labels = {label for each in of_metrics for label in each.labels}
        assert set(re.findall(r"Properties\.(\w+)", criterion["query"])) <= labels


@SCENARIO
def test_calls_that_fail_are_those_with_5xx(scenario: str) -> None:
    found = dict(_alerts("Microsoft.Insights/scheduledQueryRules", scenario))
    (criterion,) = found["failed-calls"]["criteria"]["allOf"]
    assert "sumif(ItemCount, toint(Properties.outcome) >= 500)" in criterion["query"]
    assert "100.0 * Failed / Calls" in criterion["query"]


@SCENARIO
def test_every_alert_is_on_and_reaches_those_who_are_named(scenario: str) -> None:
    (group,) = templates.resources("Microsoft.Insights/actionGroups", scenario)
    assert group.body["properties"]["enabled"]
    rules = [*_alerts("Microsoft.Insights/scheduledQueryRules", scenario)]
    for name, properties in rules:
        assert properties["enabled"], name
        assert properties["actions"]["actionGroups"] == [group.id], name
    metrics = [*_alerts("Microsoft.Insights/metricAlerts", scenario)]
    for name, properties in metrics:
        assert properties["enabled"], name
        assert [each["actionGroupId"] for each in properties["actions"]] == [group.id], name
    text = (ROOT / "docs" / "operations.md").read_text()
    documented = set(
        re.findall(r"^\| `([a-z-]+)` \|", text.partition("## Alerts")[2].partition("\n## ")[0], re.MULTILINE)
    )
    assert {name for name, _ in rules + metrics} == documented - {"budget"}, "which tests of budgets look at"


@SCENARIO
def test_each_topic_that_nobody_reads_or_that_fails_is_seen_by_itself(scenario: str) -> None:
    """Over all topics together the value would be their mean. Events that are read within the hour are no trouble."""
    found = dict(_alerts("Microsoft.Insights/metricAlerts", scenario))
    wanted = {"dead-letters": ("DeadletteredMessages", "Maximum"), "unread-events": ("ActiveMessages", "Minimum")}
    for name, (metric, aggregation) in wanted.items():
        (criterion,) = found[name]["criteria"]["allOf"]
        assert (criterion["metricName"], criterion["timeAggregation"]) == (metric, aggregation)
        assert criterion["dimensions"] == [{"name": "EntityName", "operator": "Include", "values": ["*"]}]
        assert found[name]["windowSize"] == "PT1H"


SEVERITIES = {
    "poison-messages": 1,
    "failed-calls": 1,
    "functions-end": 1,
    "events-lost": 1,
    "timers-stand-still": 1,
    "storage-availability": 1,
    "oldest-pending": 2,
    "timer-lateness": 2,
    "event-backlog": 2,
    "credentials-end": 2,
    "stalled-tasks": 2,
    "logs-full": 2,
    "refused-credentials": 3,
    "dead-letters": 3,
    "unread-events": 3,
}
"""1: something is lost or does not work; 2: it will, or it is late; 3: somebody else's trouble."""


@SCENARIO
def test_an_alert_is_as_severe_as_what_it_tells_and_is_looked_for_every_few_minutes(scenario: str) -> None:
    rules = [*_alerts("Microsoft.Insights/scheduledQueryRules", scenario)]
    rules += _alerts("Microsoft.Insights/metricAlerts", scenario)
    assert {name: rule["severity"] for name, rule in rules} == SEVERITIES
    frequencies = {rule["evaluationFrequency"] for _, rule in rules}
    assert all(frequency in {"PT5M", "PT15M"} for frequency in frequencies), frequencies


def test_thresholds_are_those_of_the_profile() -> None:
    wanted = {
        "poison-messages": "poisonMessages",
        "oldest-pending": "oldestPendingSeconds",
        "timer-lateness": "latenessSeconds",
        "failed-calls": "failedCallsPercent",
        "event-backlog": "eventBacklog",
        "refused-credentials": "refusedCalls",
    }
    for scenario in templates.SCENARIOS:
        found = dict(_alerts("Microsoft.Insights/scheduledQueryRules", scenario))
        thresholds = templates.document(f"profiles/{scenario.partition(',')[0]}.json")["alerts"]
        for name, key in wanted.items():
            (criterion,) = found[name]["criteria"]["allOf"]
            assert criterion["threshold"] == thresholds[key], name
