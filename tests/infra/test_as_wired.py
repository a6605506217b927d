"""What a profile, a document or the code says arrives in what is deployed: one value is not taken for another."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from tests.infra import templates
from tools.admin.worker_clients import secret_names, worker_client_id
from tools.local.host.config import parse_host_json
from tools.local.state import ROOT

SCENARIO = pytest.mark.parametrize("scenario", templates.SCENARIOS)
HOST = (ROOT / "host.json").read_text()
ROLES_IN_FORCE = timedelta(minutes=10)
"""How long Azure may take until a new role assignment is in force."""
FIRST_START = timedelta(minutes=3)
"""How long a new app may take until it answers."""


def _profile(scenario: str) -> Any:
    return templates.document(f"profiles/{scenario.partition(',')[0]}.json")


def _at(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body[int(name) if name.isdigit() else name]
    return body


APP, BUS = "Microsoft.Web/sites", "Microsoft.ServiceBus/namespaces/topics"
WORKSPACE, PLAN = "Microsoft.OperationalInsights/workspaces", "Microsoft.Web/serverfarms"
SCALE = "properties.functionAppConfig.scaleAndConcurrency"
WIRED = [
    (WORKSPACE, "properties.retentionInDays", "logRetentionDays"),
    (WORKSPACE, "properties.workspaceCapping.dailyQuotaGb", "logDailyCapGb"),
    (BUS, "properties.duplicateDetectionHistoryTimeWindow", "duplicateWindow"),
    (BUS, "properties.defaultMessageTimeToLive", "eventTimeToLive"),
    (APP, f"{SCALE}.instanceMemoryMB", "instanceMemoryMB"),
    (APP, f"{SCALE}.maximumInstanceCount", "maximumInstanceCount"),
    (APP, f"{SCALE}.alwaysReady", "alwaysReady"),
    (APP, f"{SCALE}.triggers.http.perInstanceConcurrency", "httpConcurrency"),
    (PLAN, "properties.zoneRedundant", "zoneRedundant"),
    ("Microsoft.Storage/storageAccounts", "sku.name", "storageSku"),
    ("Microsoft.Storage/storageAccounts/blobServices", "properties.deleteRetentionPolicy.days", "blobSoftDeleteDays"),
    ("Microsoft.ServiceBus/namespaces", "sku.name", "serviceBusSku"),
    ("Microsoft.Web/sites/config", "properties.OTEL_TRACES_SAMPLER_ARG", "traceRatio"),
]


@SCENARIO
@pytest.mark.parametrize(("kind", "path", "key"), WIRED)
def test_each_value_of_the_profile_is_what_is_deployed(scenario: str, kind: str, path: str, key: str) -> None:
    found = [_at(each.body, path) for each in templates.resources(kind, scenario)]
    assert found
    assert all(value == _profile(scenario)[key] for value in found), found


@SCENARIO
def test_what_is_deleted_can_be_restored(scenario: str) -> None:
    blobs = templates.resource("Microsoft.Storage/storageAccounts/blobServices", scenario)["properties"]
    assert blobs["deleteRetentionPolicy"]["enabled"]
    assert blobs["containerDeleteRetentionPolicy"]["enabled"]
    assert blobs["containerDeleteRetentionPolicy"]["days"] >= 7


@SCENARIO
def test_only_artifacts_move_to_the_cool_tier_and_when_the_profile_says(scenario: str) -> None:
    """Definitions are read for as long as their task lives: each read from the cool tier costs extra."""
    days = _profile(scenario)["artifactCoolAfterDays"]
    rules = [
        rule
        for each in templates.resources("Microsoft.Storage/storageAccounts/managementPolicies", scenario)
        for rule in each.body["properties"]["policy"]["rules"]
    ]
    assert len(rules) == (1 if days else 0)
    for rule in rules:
        definition = rule["definition"]
        assert set(definition["filters"]["prefixMatch"]) == {"artifacts/", "public-artifacts/"}
        assert definition["actions"] == {"baseBlob": {"tierToCool": {"daysAfterModificationGreaterThan": days}}}


@SCENARIO
def test_pages_of_other_origins_may_read_artifacts_and_nothing_else(scenario: str) -> None:
    blobs = templates.resource("Microsoft.Storage/storageAccounts/blobServices", scenario)["properties"]
    for rule in blobs["cors"]["corsRules"]:
        assert set(rule["allowedMethods"]) == {"GET", "HEAD", "OPTIONS"}
        assert {"content-length", "content-range", "content-type", "content-encoding"} <= set(rule["exposedHeaders"])
        assert "range" in rule["allowedHeaders"]


@SCENARIO
def test_a_topic_holds_what_gathers_and_takes_events_together(scenario: str) -> None:
    for topic in templates.resources(BUS, scenario):
        properties = topic.body["properties"]
        assert properties["maxSizeInMegabytes"] == 5120, "the largest that both tiers have: a full topic refuses events"
        assert properties["enableBatchedOperations"]


@SCENARIO
def test_an_instance_fetches_more_messages_before_it_has_none(scenario: str) -> None:
    """The threshold is how many may be left when the next ones are fetched: with 0 the slowest holds up all others."""
    prefix = "AzureFunctionsJobHost__extensions__queues__"
    settings = templates.raw_settings(scenario)
    size, threshold = (int(settings[prefix + name]) for name in ("batchSize", "newBatchThreshold"))
    assert size == _profile(scenario)["queueBatchSize"]
    assert 0 < threshold < size


def test_the_local_host_fetches_likewise_and_logs_what_alerts_and_people_read() -> None:
    host = parse_host_json(HOST)
    assert 0 < host.queues.new_batch_threshold < host.queues.batch_size
    levels = json.loads(HOST)["logging"]["logLevel"]
    assert levels["Function.*.User"] == "Information", "the app's own lines"
    assert set(levels.values()) <= {"Information", "Warning", "Error"}


@SCENARIO
def test_a_scaler_has_its_bewit_and_a_worker_its_token(scenario: str) -> None:
    """Both are secrets of the same form: exchanged, the scaler would show the worker's token in a URL."""
    for job in templates.resources("Microsoft.App/jobs", scenario):
        configuration = job.body["properties"]["configuration"]
        secrets = {each["name"]: each["keyVaultUrl"].rpartition("/")[2] for each in configuration["secrets"]}
        (container,) = job.body["properties"]["template"]["containers"]
        given = {each["name"]: each for each in container["env"]}
        token, bewit = secret_names(given["WORKER_TASK_QUEUE_ID"]["value"])
        assert given["TASKCLUSTER_CLIENT_ID"]["value"] == worker_client_id(given["WORKER_TASK_QUEUE_ID"]["value"])
        (rule,) = configuration["eventTriggerConfig"]["scale"]["rules"]
        assert [secrets[each["secretRef"]] for each in rule["auth"]] == [bewit]
        assert secrets[given["TASKCLUSTER_ACCESS_TOKEN"]["secretRef"]] == token


@SCENARIO
def test_a_scaler_looks_often_enough_and_costs_little(scenario: str) -> None:
    for job in templates.resources("Microsoft.App/jobs", scenario):
        interval = job.body["properties"]["configuration"]["eventTriggerConfig"]["scale"]["pollingInterval"]
        assert 10 <= interval <= 60


@SCENARIO
def test_telemetry_and_logs_go_to_the_workspace_that_alerts_ask(scenario: str) -> None:
    (workspace,) = templates.resources(WORKSPACE, scenario)
    insights = templates.resource("Microsoft.Insights/components", scenario)
    assert insights["properties"]["WorkspaceResourceId"] == workspace.id
    for rule in templates.resources("Microsoft.Insights/scheduledQueryRules", scenario):
        assert rule.body["properties"]["scopes"] == [workspace.id]
    assert templates.resource("Microsoft.Insights/workbooks", scenario)["properties"]["sourceId"] == workspace.id
    for each in templates.resources("Microsoft.Insights/diagnosticSettings", scenario):
        assert each.body["properties"]["workspaceId"] == workspace.id
        assert all(log["enabled"] for log in each.body["properties"]["logs"])


@SCENARIO
def test_the_vault_is_of_the_tenant_and_not_of_the_subscription(scenario: str) -> None:
    tenant = templates.resource("Microsoft.KeyVault/vaults", scenario)["properties"]["tenantId"]
    (vault,) = templates.resources("Microsoft.KeyVault/vaults", scenario)
    assert tenant not in vault.id
    issuer = templates.settings(scenario).get("OPENID_ISSUER", "")
    assert "microsoftonline" not in issuer or f"/{tenant}/" in issuer


def _default(hook: str, variable: str) -> int:
    match = re.search(rf"\$\{{{variable}:-(\d+)\}}", (templates.INFRA / "hooks" / hook).read_text())
    assert match is not None
    return int(match[1])


@pytest.mark.parametrize(
    ("hook", "prefix", "longest"),
    [("resolve-secrets.sh", "RESOLVE", ROLES_IN_FORCE), ("smoke-test.sh", "SMOKE", FIRST_START)],
)
def test_hooks_wait_for_as_long_as_azure_may_take(hook: str, prefix: str, longest: timedelta) -> None:
    pause = _default(hook, f"{prefix}_SECONDS")
    assert 5 <= pause <= 60, "a question each second would be throttled"
    assert timedelta(seconds=pause * _default(hook, f"{prefix}_TRIES")) >= longest


def test_the_upgrade_is_tested_with_the_releases_of_the_repository() -> None:
    """Without its tags a checkout knows no release, and the test would only ever see the present one."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    steps = [step for job in jobs.values() for step in job.get("steps", [])]
    assert any(step.get("with", {}).get("fetch-depth") == 0 for step in steps)


def test_azd_is_one_that_knows_what_azure_yaml_says() -> None:
    """`language: custom` with hooks of a service, and hooks as lists."""
    wanted = yaml.safe_load((ROOT / "azure.yaml").read_text())["requiredVersions"]["azd"]
    match = re.fullmatch(r">= (\d+)\.(\d+)\.\d+", wanted)
    assert match is not None
    assert (int(match[1]), int(match[2])) >= (1, 24)
