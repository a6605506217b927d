"""Each alert over metrics of the platform fires, by its rule, on the incident that docs/operations.md names alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.infra import templates
from tools.local.templates import limits

Series = dict[tuple[str, str], list[float]]
"""By metric and entity (a topic, or nothing): a value a minute, the oldest first."""
HOUR = 60


def day(**changes: dict[str, list[float]]) -> Series:
    """A quiet hour of two topics and the account, and what is otherwise."""
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
INCIDENTS: Mapping[str, tuple[set[str], Series]] = {
    "a quiet hour": (set(), day()),
    "a subscriber of one topic fails": ({"dead-letters"}, day(DeadletteredMessages={"task-pending": [MANY] * HOUR})),
    "it has just begun to fail": (
        {"dead-letters"},
        day(DeadletteredMessages={"task-pending": [0.0] * 55 + [MANY] * 5}),
    ),
    "nobody reads one topic": ({"unread-events"}, day(ActiveMessages={"task-pending": [MANY] * HOUR})),
    "a burst that is read": (set(), day(ActiveMessages={"task-pending": [MANY] * 50 + [0.0] * 10})),
    "storage fails": ({"storage-availability"}, day(Availability={"": [100.0] * 45 + [90.0] * 15})),
    "storage fails for a minute": (set(), day(Availability={"": [100.0] * 59 + [90.0]})),
    "a deployment has just begun": (set(), {}),
}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


AGGREGATED: Mapping[str, Callable[[Sequence[float]], float]] = {"Maximum": max, "Minimum": min, "Average": _mean}


def fires(properties: Mapping[str, Any], series: Series) -> bool:
    """Whether all criteria of a rule hold for an entity. Without values there is nothing to compare: it is silent."""
    window = limits.duration(properties["windowSize"])
    assert window is not None
    minutes = window // timedelta(minutes=1)
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


@pytest.mark.parametrize("profile", ["small, bare", "large, closed"])
@pytest.mark.parametrize("incident", INCIDENTS)
def test_an_incident_raises_its_own_alert_alone(incident: str, profile: str) -> None:
    wanted, series = INCIDENTS[incident]
    rules = templates.resources("Microsoft.Insights/metricAlerts", profile)
    fired = {re.sub(r"^alert-[a-z0-9]+-", "", each.name) for each in rules if fires(each.body["properties"], series)}
    assert fired == wanted


def test_each_alert_over_metrics_has_its_incident() -> None:
    rules = templates.resources("Microsoft.Insights/metricAlerts")
    names = {re.sub(r"^alert-[a-z0-9]+-", "", each.name) for each in rules}
    assert names == {name for wanted, _ in INCIDENTS.values() for name in wanted}
