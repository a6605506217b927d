"""Values that a template could have otherwise without anybody noticing until they are needed."""

from __future__ import annotations

from typing import Any

import pytest

from shared.base.settings import Settings
from tests.infra import templates
from tools.local.templates import scenarios
from tools.local.templates.__main__ import evaluate

CLOSED = "large, closed"
SCENARIO = pytest.mark.parametrize("scenario", ["small, bare", CLOSED])
OWN_DOMAIN = "https://queue.example.com"


@SCENARIO
def test_an_alert_is_raised_by_one_look_ends_by_itself_and_is_mailed_in_the_common_form(scenario: str) -> None:
    rules = list(templates.resources("Microsoft.Insights/scheduledQueryRules", scenario))
    assert rules
    for rule in rules:
        properties = rule.body["properties"]
        assert properties["autoMitigate"] is True, "one that is over would be silent when it begins again"
        (criterion,) = properties["criteria"]["allOf"]
        assert criterion["failingPeriods"] == {"numberOfEvaluationPeriods": 1, "minFailingPeriodsToAlert": 1}
    receivers = templates.resource("Microsoft.Insights/actionGroups", CLOSED)["properties"]["emailReceivers"]
    assert receivers
    assert all(receiver["useCommonAlertSchema"] for receiver in receivers)


@SCENARIO
def test_a_signed_url_that_lives_too_long_is_logged_and_not_refused(scenario: str) -> None:
    accounts = templates.resources("Microsoft.Storage/storageAccounts", scenario)
    assert [each.body["properties"]["sasPolicy"]["expirationAction"] for each in accounts] == ["Log"]


def test_an_own_domain_is_the_root_url_of_the_app_and_of_what_is_told() -> None:
    deployed = evaluate({**scenarios.scenarios()["small, bare"], "QUEUE_ROOT_URL": OWN_DOMAIN})
    (settings,) = (each.body for each in deployed.all_resources() if each.type == "Microsoft.Web/sites/config")
    assert settings["properties"]["TASKCLUSTER_ROOT_URL"] == OWN_DOMAIN


def test_each_private_endpoint_is_found_in_the_zone_of_its_own_service() -> None:
    endpoints = {each.name.rpartition("-")[2] for each in templates.resources("Microsoft.Network/privateEndpoints")}
    assert endpoints
    zones = set()
    for group in templates.resources("Microsoft.Network/privateEndpoints/privateDnsZoneGroups"):
        (configured,) = group.body["properties"]["privateDnsZoneConfigs"]
        zone = str(configured["properties"]["privateDnsZoneId"])
        zones.add(zone)
        service = {"sites": "azurewebsites", "namespace": "servicebus"}.get(configured["name"], configured["name"])
        assert f"privatelink.{service}" in zone, (configured["name"], zone)
    assert len(zones) == len(endpoints)
    links = list(templates.resources("Microsoft.Network/privateDnsZones/virtualNetworkLinks"))
    assert len(links) == len(endpoints)
    assert not any(link.body["properties"]["registrationEnabled"] for link in links)


def test_subnets_let_private_endpoints_in() -> None:
    subnets: Any = templates.resource("Microsoft.Network/virtualNetworks")["properties"]["subnets"]
    (endpoints,) = (each["properties"] for each in subnets if each["name"] == "endpoints")
    assert endpoints["privateEndpointNetworkPolicies"] == "Disabled"


def test_workers_are_reached_from_inside_alone_and_what_they_print_is_kept() -> None:
    environment = templates.resource("Microsoft.App/managedEnvironments")["properties"]
    assert environment["vnetConfiguration"]["internal"] is True
    kept = {
        log["category"]: log["enabled"]
        for each in templates.resources("Microsoft.Insights/diagnosticSettings")
        for log in each.body["properties"]["logs"]
        if "category" in log
    }
    assert kept == {"ContainerAppConsoleLogs": True, "ContainerAppSystemLogs": True}


@SCENARIO
def test_azures_own_services_may_pass_closed_doors(scenario: str) -> None:
    for kind in ("Microsoft.KeyVault/vaults", "Microsoft.Storage/storageAccounts"):
        assert templates.resource(kind, scenario)["properties"]["networkAcls"]["bypass"] == "AzureServices"


@SCENARIO
def test_references_to_secrets_have_the_form_that_follows_a_rotation(scenario: str) -> None:
    references = [value for value in templates.raw_settings(scenario).values() if str(value).startswith("@Microsoft")]
    assert references
    assert all(reference.endswith("/)") for reference in references)


def test_settings_of_the_templates_are_the_defaults_of_the_code() -> None:
    for name, value in templates.document("settings.json").items():
        default = Settings.model_fields[name.lower()].default
        assert value.lower() == str("" if default is None else default).lower(), name
