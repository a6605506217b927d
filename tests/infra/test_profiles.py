"""The two profiles: the same keys, values that Azure takes, settings that the app takes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from local.state import ROOT
from shared.settings import Settings
from shared.telemetry.instruments import INSTRUMENTS
from tests.infra import bicep, deployment

SMALL, LARGE = (bicep.document(f"profiles/{name}.json") for name in deployment.PROFILES)
PROFILES = pytest.mark.parametrize("profile", [SMALL, LARGE], ids=deployment.PROFILES)


def test_both_have_what_the_templates_ask_for() -> None:
    text = "".join(path.read_text() for path in bicep.FILES)
    asked = set(re.findall(r"\bscale\.(\w+)", text))
    assert SMALL.keys() == LARGE.keys() == asked
    thresholds = set(re.findall(r"\bthresholds\.(\w+)", text))
    assert SMALL["alerts"].keys() == LARGE["alerts"].keys() == thresholds


@PROFILES
def test_values_are_those_that_azure_takes(profile: dict[str, Any]) -> None:
    assert profile["instanceMemoryMB"] in {512, 2048, 4096}
    assert 40 <= profile["maximumInstanceCount"] <= 1000
    assert 1 < profile["httpConcurrency"] <= 1000
    assert 1 <= profile["queueBatchSize"] <= 32
    assert profile["serviceBusCapacity"] in ({0} if profile["serviceBusSku"] == "Standard" else {1, 2, 4, 8, 16})
    assert 30 <= profile["logRetentionDays"] <= 730
    assert 0 < float(profile["traceRatio"]) <= 1
    for span in (profile["duplicateWindow"], profile["eventTimeToLive"]):
        assert re.fullmatch(r"P(\d+D|T\d+[HM])", span)
    storage = bicep.parsed("modules/storage.bicep")["parameters"]["sku"]["decorators"]
    assert profile["storageSku"] in storage[0]["argument"]


@PROFILES
def test_what_is_always_ready_exists(profile: dict[str, Any]) -> None:
    text = "".join(path.read_text() for path in (ROOT / "functions").glob("*.py"))
    functions = {f"function:{name}" for name in re.findall(r'function_name\("([a-z-]+)"\)', text)}
    for group in profile["alwaysReady"]:
        assert group["name"] in {"http", *functions}
        assert group["instanceCount"] >= (2 if profile["zoneRedundant"] else 1), "one a zone"


@PROFILES
def test_an_event_fits_into_the_tier(profile: dict[str, Any]) -> None:
    largest = {"Standard": 256 * 1024, "Premium": 1024 * 1024}[profile["serviceBusSku"]]
    default = Settings.model_fields["event_size_limit"].default
    assert int(profile["settings"].get("EVENT_SIZE_LIMIT", default)) < largest


@PROFILES
def test_caches_and_uploads_fit_into_an_instance(profile: dict[str, Any]) -> None:
    """A process takes about 100 MB; the relay holds an upload about three times; some may come at once."""
    megabyte = 1024 * 1024

    def bytes_of(name: str) -> int:
        return int(profile["settings"].get(name, Settings.model_fields[name.lower()].default))

    needed = 100 * megabyte + bytes_of("DEFINITION_CACHE_BYTES") + 4 * 3 * bytes_of("ARTIFACT_RELAY_LIMIT_BYTES")
    assert needed <= profile["instanceMemoryMB"] * megabyte


def test_alerts_watch_what_is_measured() -> None:
    text = (bicep.INFRA / "modules" / "alerts.bicep").read_text()
    metrics = set(re.findall(r'Name == "(queue_\w+)"', text))
    assert metrics <= {instrument.name for instrument in INSTRUMENTS}
    rules = {rule["name"] for rule in bicep.parsed("modules/alerts.bicep")["variables"]["queries"]["value"]}
    assert {"poison-messages", "oldest-pending", "timer-lateness", "failed-calls", "event-backlog"} <= rules
    timers = set(re.findall(r'Name in \("([a-z]+)", "([a-z]+)"\)', text)[0])
    functions = "".join(path.read_text() for path in (ROOT / "functions").glob("*.py"))
    assert timers <= set(re.findall(r'function_name\("([a-z-]+)"\)\n@blueprint.timer_trigger', functions))


def test_the_workbook_shows_what_is_measured() -> None:
    names = set(re.findall(r"queue_\w+", (bicep.INFRA / "workbook.json").read_text()))
    assert names
    assert names <= {instrument.name for instrument in INSTRUMENTS}
