"""Rules of alerts that Azure takes and that never fire, or always, or that it refuses although the types allow them.

Sources: Azure's documentation of log and metric alerts; the tables of Application Insights in a workspace; for metrics
"Supported metrics with Azure Monitor".
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.local.templates.values import Deployed, Finding, Resource

_HOURS = tuple(f"PT{hours}H" for hours in (1, 2, 3, 4, 5, 6))
QUERY_FREQUENCIES = ("PT1M", "PT5M", "PT10M", "PT15M", "PT30M", "PT45M", *_HOURS, "P1D")
QUERY_WINDOWS = (*QUERY_FREQUENCIES, "P2D")
METRIC_FREQUENCIES = ("PT1M", "PT5M", "PT15M", "PT30M", "PT1H")
METRIC_WINDOWS = (*METRIC_FREQUENCIES, "PT6H", "PT12H", "P1D")
SEVERITIES = range(5)
LOG_TABLES = {
    "AppAvailabilityResults",
    "AppDependencies",
    "AppEvents",
    "AppExceptions",
    "AppMetrics",
    "AppPerformanceCounters",
    "AppRequests",
    "AppTraces",
    "_LogOperation",
}
"""Tables that the app's telemetry fills, and one in which the workspace reports on itself."""
METRICS = {
    ("Microsoft.ServiceBus/namespaces", "ActiveMessages"): "GreaterThan",
    ("Microsoft.ServiceBus/namespaces", "DeadletteredMessages"): "GreaterThan",
    ("Microsoft.Storage/storageAccounts", "Availability"): "LessThan",
}
"""Metrics that rules use, with the type of their resource, and the operator with which a rule must compare them."""
METRIC_AGGREGATIONS = {"Average", "Minimum", "Maximum"}
"""Aggregations that these metrics support."""


def problems(root: Deployed) -> Iterator[Finding]:
    """What is wrong with the rules of alerts in a deployment."""
    deployed = {each.id.lower(): each for each in root.all_resources()}
    for each in deployed.values():
        match each.type:
            case "Microsoft.Insights/scheduledQueryRules":
                yield from (Finding(each.place, text) for text in _query_alert(each))
            case "Microsoft.Insights/metricAlerts":
                yield from (Finding(each.place, text) for text in _metric_alert(each, deployed))


def _alert(rule: Resource, frequencies: tuple[str, ...], windows: tuple[str, ...]) -> Iterator[str]:
    properties = rule.body["properties"]
    frequency, window = properties.get("evaluationFrequency"), properties.get("windowSize")
    if frequency not in frequencies:
        yield f"rules are evaluated every {', '.join(frequencies)}, not {frequency}"
    if window not in windows:
        yield f"rules look back for {', '.join(windows)}, not {window}"
    if properties.get("severity") not in SEVERITIES:
        yield f"severity is 0 to 4, not {properties.get('severity')}"
    if frequency in frequencies and window in windows and windows.index(window) < windows.index(frequency):
        yield f"a rule that looks back for {window} every {frequency} leaves time out"


def _query_alert(rule: Resource) -> Iterator[str]:
    yield from _alert(rule, QUERY_FREQUENCIES, QUERY_WINDOWS)
    for criterion in rule.body["properties"]["criteria"]["allOf"]:
        table = str(criterion["query"]).partition("|")[0].strip()
        if table not in LOG_TABLES:
            yield f"{table} is no table that telemetry fills"
        periods = criterion.get("failingPeriods", {})
        if periods.get("minFailingPeriodsToAlert", 1) > periods.get("numberOfEvaluationPeriods", 1):
            yield "more periods have to fail than are looked at"
        wanted = "LessThan" if criterion["timeAggregation"] == "Count" else "GreaterThan"
        if criterion["operator"] != wanted:
            yield f"{rule.name}: few rows or a large value are trouble, so {wanted}, not {criterion['operator']}"


def _metric_alert(rule: Resource, deployed: dict[str, Resource]) -> Iterator[str]:
    yield from _alert(rule, METRIC_FREQUENCIES, METRIC_WINDOWS)
    properties = rule.body["properties"]
    targets = [target for scope in properties["scopes"] if (target := deployed.get(str(scope).lower()))]
    for criterion in properties["criteria"]["allOf"]:
        name, operator, aggregation = (criterion[key] for key in ("metricName", "operator", "timeAggregation"))
        if aggregation not in METRIC_AGGREGATIONS:
            yield f"{name} has {', '.join(sorted(METRIC_AGGREGATIONS))}, not {aggregation}"
        for target in targets:
            wanted = METRICS.get((target.type, name))
            if wanted is None:
                yield f"{target.type} has no metric {name}"
            elif wanted != operator:
                yield f"{rule.name}: {name} is trouble if it is {wanted}, not {operator}"
