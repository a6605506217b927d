"""What is deployed with values that no scenario has: open to some, deleted by age, larger workers, a budget."""

from __future__ import annotations

import json
from typing import Any

from tests.infra import templates
from tools.local.templates import scenarios
from tools.local.templates.__main__ import evaluate
from tools.local.templates.values import Deployed, Resource

ADDRESS = "203.0.113.0/24"


def _deployed(**environment: str) -> Deployed:
    return evaluate({**scenarios.EVERYTHING, "QUEUE_PROFILE": "small", **environment})


def _resources(deployed: Deployed, kind: str) -> list[Resource]:
    found = [each for each in deployed.all_resources() if each.type == kind]
    assert found, kind
    return found


def _properties(deployed: Deployed, kind: str) -> Any:
    (found,) = _resources(deployed, kind)
    return found.body["properties"]


def test_addresses_that_may_come_in_close_the_account_to_all_others() -> None:
    deployed = _deployed(QUEUE_VIRTUAL_NETWORK="false", QUEUE_STORAGE_ALLOWED_ADDRESSES=json.dumps([ADDRESS]))
    rules = _properties(deployed, "Microsoft.Storage/storageAccounts")["networkAcls"]
    assert rules["defaultAction"] == "Deny"
    assert rules["ipRules"] == [{"value": ADDRESS, "action": "Allow"}]
    assert _properties(deployed, "Microsoft.Web/sites")["virtualNetworkSubnetId"], "the app has none of the addresses"


def test_only_artifacts_are_deleted_by_age_and_when_the_profile_says() -> None:
    """A definition that were deleted would make its task unreadable; a package, the app unable to start."""
    given = json.dumps({"artifactDeleteAfterDays": 90, "artifactCoolAfterDays": 30})
    policy = _properties(
        _deployed(QUEUE_PROFILE_OVERRIDES=given), "Microsoft.Storage/storageAccounts/managementPolicies"
    )
    rules = [rule["definition"] for rule in policy["policy"]["rules"]]
    assert all(set(rule["filters"]["prefixMatch"]) == {"artifacts/", "public-artifacts/"} for rule in rules)
    assert [rule["actions"]["baseBlob"] for rule in rules] == [
        {"tierToCool": {"daysAfterModificationGreaterThan": 30}},
        {"delete": {"daysAfterModificationGreaterThan": 90}},
    ]


def test_an_execution_of_several_workers_is_for_as_many_tasks() -> None:
    queues = {"my-team/linux": {"parallelism": 2}}
    (job,) = _resources(
        _deployed(QUEUE_WORKERS="my-team/linux", QUEUE_WORKER_OVERRIDES=json.dumps(queues)), "Microsoft.App/jobs"
    )
    trigger = job.body["properties"]["configuration"]["eventTriggerConfig"]
    assert trigger["scale"]["rules"][0]["metadata"]["targetValue"] == "2"
    assert trigger["parallelism"] == trigger["replicaCompletionCount"] == 2


def test_workers_are_counted_by_what_is_unresolved() -> None:
    """The platform subtracts executions that run: of what only waits, busy workers would be taken off once more."""
    for job in templates.resources("Microsoft.App/jobs"):
        (rule,) = job.body["properties"]["configuration"]["eventTriggerConfig"]["scale"]["rules"]
        assert rule["metadata"]["valueLocation"] == "unresolvedTasks"


def test_what_only_the_templates_know_is_not_overridden() -> None:
    """A setting that names an account is that of the account which is deployed."""
    own = templates.raw_settings("small, everything")
    names = ["STORAGE_ACCOUNT_NAME", "ROOT_ACCESS_TOKEN", "AzureWebJobsStorage__credential"]
    given = {"QUEUE_SETTING_OVERRIDES": json.dumps(dict.fromkeys(names, "other"))}
    settings = _properties(_deployed(**given), "Microsoft.Web/sites/config")
    assert {name: settings[name] for name in names} == {name: own[name] for name in names}


def test_a_budget_tells_of_what_is_spent_and_of_what_will_be() -> None:
    budget = _properties(
        _deployed(QUEUE_MONTHLY_BUDGET="500", QUEUE_BUDGET_START="2026-01-01"), "Microsoft.Consumption/budgets"
    )
    told = {each["thresholdType"]: each for each in budget["notifications"].values()}
    assert {kind: (each["enabled"], each["threshold"]) for kind, each in told.items()} == {
        "Actual": (True, 80),
        "Forecasted": (True, 100),
    }
    for each in told.values():
        assert each["contactEmails"] == ["ops@example.com", "more@example.com"]
        assert each["contactGroups"]


def test_each_subnet_has_those_whom_it_is_for() -> None:
    """A subnet is delegated to one of them, and the app needs all addresses of its own to grow."""
    deployed = templates.deployed("large, closed")
    app = _properties(deployed, "Microsoft.Web/sites")["virtualNetworkSubnetId"]
    workers = _properties(deployed, "Microsoft.App/managedEnvironments")["vnetConfiguration"]["infrastructureSubnetId"]
    endpoints = {
        each.body["properties"]["subnet"]["id"] for each in _resources(deployed, "Microsoft.Network/privateEndpoints")
    }
    assert {subnet.rpartition("/")[2] for subnet in (app, workers, *endpoints)} == {"app", "workers", "endpoints"}
    assert (app.rpartition("/")[2], workers.rpartition("/")[2]) == ("app", "workers")


def test_each_subnet_is_as_large_as_azure_wants_it_for_those_whom_it_is_for() -> None:
    """A /27 at least, for the app as for an environment of Container Apps."""
    network = _properties(templates.deployed("large, closed"), "Microsoft.Network/virtualNetworks")
    lengths = {each["name"]: int(each["properties"]["addressPrefix"].partition("/")[2]) for each in network["subnets"]}
    assert lengths.keys() == {"app", "workers", "endpoints"}
    assert max(lengths.values()) <= 27, lengths


def test_traces_are_sampled_by_the_share_of_the_profile() -> None:
    """Other samplers take all or nothing, and leave the share unread."""
    for scenario in templates.SCENARIOS:
        assert templates.raw_settings(scenario)["OTEL_TRACES_SAMPLER"] == "parentbased_traceidratio"


def test_an_hour_of_storage_that_fails_now_and_then_is_told() -> None:
    (rule,) = (
        each.body["properties"]["criteria"]["allOf"][0]
        for each in templates.resources("Microsoft.Insights/metricAlerts")
        if each.name.endswith("storage-availability")
    )
    assert (rule["operator"], rule["timeAggregation"]) == ("LessThan", "Average")
    assert rule["threshold"] >= 99, "one request in a hundred is what retries still hide"
