"""The two profiles: the same keys, values that Azure takes, settings that the app takes."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from shared.base import protocol
from shared.base.settings import Settings
from shared.telemetry.instruments import INSTRUMENTS
from tests.infra import templates
from tools.local.state import ROOT
from tools.local.templates import limits, scenarios
from tools.local.templates.__main__ import evaluate

SMALL, LARGE = (templates.document(f"profiles/{name}.json") for name in templates.PROFILES)
PROFILES = pytest.mark.parametrize("profile", [SMALL, LARGE], ids=templates.PROFILES)


def test_both_have_what_the_templates_ask_for() -> None:
    text = "".join(path.read_text() for path in templates.FILES)
    asked = set(re.findall(r"\bscale\.(\w+)", text))
    assert SMALL.keys() == LARGE.keys() == asked
    thresholds = set(re.findall(r"\bthresholds\.(\w+)", text))
    assert SMALL["alerts"].keys() == LARGE["alerts"].keys() == thresholds


@PROFILES
def test_values_are_those_that_azure_takes(profile: dict[str, Any]) -> None:
    assert 1 < profile["httpConcurrency"] <= 1000
    assert 1 <= profile["queueBatchSize"] <= 32
    assert profile["serviceBusCapacity"] in ({0} if profile["serviceBusSku"] == "Standard" else {1, 2, 4, 8, 16})
    assert 30 <= profile["logRetentionDays"] <= 730
    assert 0 < float(profile["traceRatio"]) <= 1
    for span in (profile["duplicateWindow"], profile["eventTimeToLive"]):
        assert re.fullmatch(r"P(\d+D|T\d+[HM])", span)


@PROFILES
def test_what_is_always_ready_is_in_each_zone(profile: dict[str, Any]) -> None:
    for group in profile["alwaysReady"]:
        assert group["instanceCount"] >= (2 if profile["zoneRedundant"] else 1), "one a zone"


@PROFILES
def test_an_event_fits_into_the_tier(profile: dict[str, Any]) -> None:
    largest = {"Standard": 256 * 1024, "Premium": 1024 * 1024}[profile["serviceBusSku"]]
    default = Settings.model_fields["event_size_limit"].default
    assert int(profile["settings"].get("EVENT_SIZE_LIMIT", default)) < largest


def _doubts(profile: dict[str, Any]) -> list[str]:
    """What Azure takes, and loses something."""

    def given(name: str) -> int:
        return int(profile["settings"].get(name, Settings.model_fields[name.lower()].default))

    window, life = (limits.duration(profile[name]) for name in ("duplicateWindow", "eventTimeToLive"))
    assert window is not None
    assert life is not None
    wrong = {
        "events are announced twice": window < protocol.REPEATS_RECOGNISED,
        "events are gone before a listener that was down for a night reads them": life < timedelta(days=1),
        "artifacts are deleted before they expire": profile["artifactDeleteAfterDays"] != 0,
        "an instance gets calls that it refuses": (
            profile["httpConcurrency"] > given("MAX_CONCURRENT_CALLS") + given("MAX_LONG_POLLS")
        ),
    }
    return [text for text, holds in wrong.items() if holds]


@PROFILES
def test_a_profile_loses_nothing(profile: dict[str, Any]) -> None:
    assert _doubts(profile) == []


@pytest.mark.parametrize(
    ("changed", "doubt"),
    [
        ({"duplicateWindow": "PT30M"}, "events are announced twice"),
        ({"eventTimeToLive": "PT1H"}, "events are gone before a listener that was down for a night reads them"),
        ({"artifactDeleteAfterDays": 90}, "artifacts are deleted before they expire"),
        ({"httpConcurrency": 900}, "an instance gets calls that it refuses"),
        ({"settings": {"MAX_LONG_POLLS": "40"}}, "an instance gets calls that it refuses"),
    ],
)
def test_a_value_that_would_lose_something_is_found(changed: dict[str, Any], doubt: str) -> None:
    assert _doubts({**LARGE, **changed}) == [doubt]


def test_alerts_watch_what_is_measured() -> None:
    text = (templates.INFRA / "modules" / "alerts.bicep").read_text()
    metrics = set(re.findall(r'Name == "(queue_\w+)"', text))
    assert metrics <= {instrument.name for instrument in INSTRUMENTS}
    named = (each.name for each in templates.resources("Microsoft.Insights/scheduledQueryRules"))
    rules = {re.sub(r"^alert-\w+-", "", name) for name in named}
    assert {"poison-messages", "oldest-pending", "timer-lateness", "failed-calls", "event-backlog"} <= rules
    timers = set(re.findall(r'call\) in \("([a-z]+)", "([a-z]+)"\)', text)[0])
    functions = "".join(path.read_text() for path in (ROOT / "functions").glob("*.py"))
    assert timers <= set(re.findall(r'function_name\("([a-z-]+)"\)\n@blueprint.timer_trigger', functions))


def test_the_workbook_shows_what_is_measured() -> None:
    names = set(re.findall(r"queue_\w+", (templates.INFRA / "workbook.json").read_text()))
    assert names
    assert names <= {instrument.name for instrument in INSTRUMENTS}


def _queries() -> dict[str, dict[str, Any]]:
    rules = templates.resources("Microsoft.Insights/scheduledQueryRules")
    return {each.name: each.body["properties"]["criteria"]["allOf"][0] for each in rules}


def test_queries_of_alerts_begin_with_a_table_and_measure_a_column_that_they_make() -> None:
    """A rule whose query begins with anything else is accepted (the check is switched off) and never fires."""
    assert len(_queries()) > 5
    for name, criterion in _queries().items():
        assert re.match(r"(App(Metrics|Requests)|_LogOperation) \|", criterion["query"]), name
        column = criterion["metricMeasureColumn"]
        assert (column is None) == (criterion["timeAggregation"] == "Count"), name
        made = rf"project TimeGenerated( = now\(\))?, {column} = "
        assert column is None or re.search(made, criterion["query"]), name


def test_gauges_are_read_where_the_exporter_puts_them() -> None:
    """Its gauges have a value and a count, and no maximum."""
    texts = [each["query"] for each in _queries().values()]
    texts += [item["content"]["query"] for item in templates.document("workbook.json")["items"] if item["type"] == 3]
    assert any("Max" in text for text in texts)
    for text in texts:
        assert not re.search(r"(?<!coalesce\()\bMax\b", text), text


def test_one_failed_call_at_night_raises_no_alert() -> None:
    (query,) = (each["query"] for name, each in _queries().items() if name.endswith("failed-calls"))
    floor = re.search(r"where Calls >= (\d+)", query)
    assert floor is not None
    assert int(floor[1]) >= 10


@pytest.mark.parametrize(
    ("emails", "receivers"),
    [("", []), ("a@x.org", ["a@x.org"]), (" a@x.org, b@x.org ,", ["a@x.org", "b@x.org"])],
)
def test_addresses_for_alerts_may_have_blanks_between_them(emails: str, receivers: list[str]) -> None:
    deployed = evaluate({**scenarios.BARE, "QUEUE_ALERT_EMAILS": emails})
    (group,) = (each for each in deployed.all_resources() if each.type == "Microsoft.Insights/actionGroups")
    assert [each["emailAddress"] for each in group.body["properties"]["emailReceivers"]] == receivers
