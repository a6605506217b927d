"""Each mistake that only a look at what arrives can tell fails the assertion that is about it."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.infra import templates, test_alerts, test_as_wired
from tools.local.templates.__main__ import evaluate

SCENARIO = "large, closed"
ALERTS, APP, MONITORING = "modules/alerts.bicep", "modules/app.bicep", "modules/monitoring.bicep"
BUS, STORAGE, VAULT = "modules/servicebus.bicep", "modules/storage.bicep", "modules/keyvault.bicep"
ENVIRONMENT, POOL = "workers/environment.bicep", "workers/pool.bicep"

Assertion = Callable[[str], Any]


def of_profile(kind: str) -> Assertion:
    """All values of the profile that arrive in resources of a type."""

    def assertion(scenario: str) -> None:
        for each, path, key in test_as_wired.WIRED:
            if each == kind:
                test_as_wired.test_each_value_of_the_profile_is_what_is_deployed(scenario, kind, path, key)

    return assertion


telemetry = test_as_wired.test_telemetry_and_logs_go_to_the_workspace_that_alerts_ask
secrets = test_as_wired.test_a_scaler_has_its_bewit_and_a_worker_its_token
cors = test_as_wired.test_pages_of_other_origins_may_read_artifacts_and_nothing_else
cool = test_as_wired.test_only_artifacts_move_to_the_cool_tier_and_when_the_profile_says
restored = test_as_wired.test_what_is_deleted_can_be_restored
topics = test_as_wired.test_a_topic_holds_what_gathers_and_takes_events_together
batches = test_as_wired.test_an_instance_fetches_more_messages_before_it_has_none
interval = test_as_wired.test_a_scaler_looks_often_enough_and_costs_little
tenant = test_as_wired.test_the_vault_is_of_the_tenant_and_not_of_the_subscription
reaches = test_alerts.test_every_alert_is_on_and_reaches_those_who_are_named
metrics = test_alerts.test_a_rule_about_a_metric_looks_at_all_of_its_values
topic_alerts = test_alerts.test_each_topic_that_nobody_reads_or_that_fails_is_seen_by_itself
calls = test_alerts.test_calls_that_fail_are_those_with_5xx
columns = test_alerts.test_queries_ask_for_columns_that_their_table_has

IN_BAND = "enabled: true\n    autoMitigate"
OF_QUERIES = "    actions: {\n      actionGroups: [\n        group.id\n      ]\n    }\n"
OF_METRICS = "    actions: [\n      {\n        actionGroupId: group.id\n      }\n    ]\n"
SYSTEM_LOGS = "'ContainerAppSystemLogs'\n        enabled: true"
DEAD = "${rule.name}'\n    severity: 3\n    enabled: "
COOL = "        'public-artifacts/'\n      ]\n    }\n    actions: {\n      baseBlob: {\n        tierToCool"
LATE = "aggregation: 'Maximum'\n    query: 'AppMetrics | where Name == \"queue_timer"

MISTAKES: list[tuple[str, str, str, Assertion]] = [
    (MONITORING, "    WorkspaceResourceId: workspace.id\n", "", telemetry),
    (MONITORING, " sourceId: workspace.id", " sourceId: insights.id", telemetry),
    (ENVIRONMENT, SYSTEM_LOGS, SYSTEM_LOGS.replace("true", "false"), telemetry),
    (MONITORING, "InDays: retentionDays", "InDays: retentionDays > 30 ? 30 : 31", of_profile(test_as_wired.WORKSPACE)),
    (MONITORING, "Gb: dailyCapGb", "Gb: min(dailyCapGb, 1)", of_profile(test_as_wired.WORKSPACE)),
    (BUS, "Window: duplicateWindow", "Window: empty(duplicateWindow) ? '' : 'PT1M'", of_profile(test_as_wired.BUS)),
    (BUS, "Live: timeToLive", "Live: empty(timeToLive) ? '' : 'PT5M'", of_profile(test_as_wired.BUS)),
    (BUS, "duplicateDetectionHistoryTimeWindow: dup", "autoDeleteOnIdle: dup", of_profile(test_as_wired.BUS)),
    (BUS, "maxSizeInMegabytes: 5120", "maxSizeInMegabytes: 1024", topics),
    (BUS, "    enableBatchedOperations: true\n", "", topics),
    (APP, "cy: scale.httpConcurrency", "cy: min(scale.httpConcurrency, 1)", of_profile(test_as_wired.APP)),
    (APP, "t: scale.maximumInst", "t: scale.instanceMemoryMB - scale.maximumInst", of_profile(test_as_wired.APP)),
    (APP, "string(scale.queueBatchSize / 2)", "'0'", batches),
    (APP, "string(scale.queueBatchSize / 2)", "string(scale.queueBatchSize)", batches),
    (STORAGE, COOL, COOL.replace("public-artifacts", "definitions"), cool),
    (STORAGE, "coolAfterDays\n        }", "coolAfterDays + 300\n        }", cool),
    (STORAGE, "            'OPTIONS'\n", "            'PUT'\n", cors),
    (STORAGE, "            'content-range'\n", "", cors),
    (STORAGE, "true\n      days: softDeleteDays", "false\n      days: softDeleteDays", restored),
    (STORAGE, "      enabled: true\n      days: 7", "      enabled: false\n      days: 7", restored),
    (VAULT, "tenantId: tenant().tenantId", "tenantId: subscription().subscriptionId", tenant),
    (POOL, "secrets/${bewit.name}", "secrets/${accessToken.name}", secrets),
    (POOL, "secretRef: 'bewit'", "secretRef: 'access-token'", secrets),
    (POOL, "pollingInterval: sizes.pollingInterval", "pollingInterval: sizes.replicaTimeout", interval),
    (ALERTS, OF_QUERIES, "", reaches),
    (ALERTS, OF_METRICS, "", reaches),
    (ALERTS, IN_BAND, IN_BAND.replace("true", "false"), reaches),
    (ALERTS, f"{DEAD}true", f"{DEAD}false", reaches),
    (ALERTS, "'tc-queue'\n    enabled: true", "'tc-queue'\n    enabled: false", reaches),
    (ALERTS, "name: 'event-backlog'", "name: 'events'", reaches),
    (ALERTS, '"queue_poison_messages" | project', '"queue_poison_messages" and Sum > 100 | project', metrics),
    (ALERTS, '"queue_event_backlog"', '"queue_deferred_events"', metrics),
    (ALERTS, '"queue_lost_events", ', '"queue_deferred_events", ', metrics),
    (ALERTS, LATE, LATE.replace("Maximum", "Average"), metrics),
    (ALERTS, "Properties.state", "Properties.status", metrics),
    (ALERTS, "'ActiveMessages'", "'DeadletteredMessages'", topic_alerts),
    (ALERTS, "'*'", "'one-topic'", topic_alerts),
    (ALERTS, "aggregation: 'Minimum'", "aggregation: 'Average'", topic_alerts),
    (ALERTS, "toint(ResultCode) >= 500", "toint(ResultCode) >= 600", calls),
    (ALERTS, "isnotempty(Url)", "isnotempty(Uri)", columns),
]


@pytest.mark.large
@pytest.mark.parametrize(("file", "old", "new", "assertion"), MISTAKES)
def test_a_mistake_in_the_wiring_is_found(
    file: str, old: str, new: str, assertion: Assertion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    infra = tmp_path / "infra"
    shutil.copytree(templates.INFRA, infra)
    text = (infra / file).read_text()
    assert old in text, "nothing to replace: adapt the mistake"
    (infra / file).write_text(text.replace(old, new, 1))
    deployed = functools.cache(lambda scenario: evaluate(templates.SCENARIOS[scenario], infra))
    monkeypatch.setattr(templates, "deployed", deployed)
    assert list(deployed(SCENARIO).all_resources())
    with pytest.raises((AssertionError, KeyError)):
        assertion(SCENARIO)
