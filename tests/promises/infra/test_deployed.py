"""In each scenario, what is deployed is what deployed.txt says, and what Azure takes."""

from __future__ import annotations

import functools
import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.base.settings import Settings
from tests.promises.infra import expected, templates
from tools.local import settings_docs
from tools.local.deployments import description
from tools.local.deployments.differences import seconds
from tools.local.state import ROOT
from tools.local.templates import __main__ as command
from tools.local.templates import naming, scenarios, shapes
from tools.local.templates.__main__ import check, evaluate, findings
from tools.local.templates.values import Deployed

SMALL, LARGE = (templates.document(f"profiles/{name}.json") for name in templates.PROFILES)
README = (templates.INFRA / "README.md").read_text()


def test_secrets_stay_secret() -> None:
    assert list(command.of_files(templates.INFRA)) == []


@pytest.mark.parametrize("scenario", templates.SCENARIOS)
def test_what_is_deployed_is_what_is_said_of_it(scenario: str) -> None:
    assert list(templates.wrong(templates.INFRA, scenario)) == []


def test_everything_that_is_said_is_about_something() -> None:
    kinds = {
        expected.kind_of(each)
        for scenario in templates.SCENARIOS
        for each in templates.deployed(scenario).all_resources()
    }
    said = list(expected.rows())
    assert {kind for kind, *_ in said} == kinds
    assert all(why for *_, of_kind in said for *_, why in of_kind)


def test_ids_of_roles_are_those_of_azure_and_in_one_file() -> None:
    roles = templates.document("roles.json")
    assert {identity: name for name, identity in roles.items()} == expected.ROLE_IDS
    for path in templates.FILES:
        assert not re.search(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", path.read_text()), path.name


def test_no_file_and_no_output_has_a_secret() -> None:
    for path in [*templates.FILES, *templates.INFRA.rglob("*.json"), ROOT / "azure.yaml"]:
        text = path.read_text()
        assert not re.search(r"AccountKey=|SharedAccessKey=|[?&]sig=|[A-Za-z0-9+/]{60,}={0,2}", text), path.name
    for module in templates.deployed("large, closed").everything():
        for name, value in module.outputs.items():
            assert not any(each in str(value) for each in (*scenarios.SECRETS.values(), "InstrumentationKey")), name


@pytest.mark.parametrize("scenario", ["small, bare", "large, closed"])
def test_keys_of_accounts_are_read_only_where_that_is_asked_for(scenario: str) -> None:
    read = [each.partition(":")[0] for module in templates.deployed(scenario).everything() for each in module.keys_read]
    asked = "QUEUE_SIGN_WITH_ACCOUNT_KEY" in templates.SCENARIOS[scenario]
    assert read == (["storagekey.bicep"] if asked else [])


def test_what_is_secret_in_the_code_comes_from_the_vault() -> None:
    secret = {name.upper() for name, field in Settings.model_fields.items() if "SecretStr" in repr(field.annotation)}
    given = templates.resource("Microsoft.Web/sites/config")["properties"]
    references = {name for name, value in given.items() if value.startswith("@Microsoft.KeyVault(")}
    # A connection string of Application Insights without local authentication opens nothing.
    others = {*settings_docs.KEYS_INSTEAD_OF_IDENTITIES, "APPLICATIONINSIGHTS_CONNECTION_STRING"}
    assert references == secret - others


def test_nothing_reads_the_environment_but_the_settings() -> None:
    for path in [*(ROOT / "shared").rglob("*.py"), *(ROOT / "functions").rglob("*.py")]:
        for line in [] if path.name == "settings.py" else path.read_text().splitlines():
            if re.search(r"os\.environ|getenv", line):
                assert re.search(r"OTEL_SERVICE_NAME|OwnChoice\.of|_EXPORTER|STATSBEAT", line), path.name


def test_settings_of_the_templates_are_the_defaults_of_the_code() -> None:
    for name, value in templates.document("settings.json").items():
        default = Settings.model_fields[name.lower()].default
        assert value.lower() == str("" if default is None else default).lower(), name


def test_both_profiles_have_what_the_templates_ask_for() -> None:
    text = "".join(path.read_text() for path in templates.FILES)
    assert SMALL.keys() == LARGE.keys() == set(re.findall(r"\bscale\.(\w+)", text))
    assert SMALL["alerts"].keys() == LARGE["alerts"].keys() == set(re.findall(r"\bthresholds\.(\w+)", text))
    assert SMALL["artifactDeleteAfterDays"] == LARGE["artifactDeleteAfterDays"] == 0, "artifacts expire when they say"
    host = json.loads((ROOT / "host.json").read_text())["extensions"]["queues"]
    assert host.keys() >= {"batchSize", "newBatchThreshold"}, "a profile overrides what is there"


def _cell(name: str, value: Any) -> str:
    """Returns a value of a profile as docs/scaling.md writes it."""
    if name == "alwaysReady":
        return "none" if not value else f"{value[0]['instanceCount']} for HTTP, {value[1]['instanceCount']} each for"
    if name == "zoneRedundant":
        return "yes" if value else "no"
    if name == "storageSku":
        return f"`{value}`"
    if name == "artifactCoolAfterDays" and not value:
        return "never"
    if name == "traceRatio":
        return f"{float(value) * 100:g} %"
    if name.endswith("_LIMIT"):
        return f"{int(value) / 2**20:.3g} MiB"
    if name == "uploads":
        return f"{value['instanceMemoryMB']} MB, {value['httpConcurrency']} at a time"
    if length := timedelta(seconds=seconds(value) or 0):
        return f"{length.days} d" if length.days else f"{length.seconds // 3600} h"
    return str(value)


def test_the_page_has_the_numbers_of_the_profiles() -> None:
    page = (ROOT / "docs" / "scaling.md").read_text().partition("## The profiles, and why")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \| ([^|]+) \|", page, re.MULTILINE)
    told: set[str] = set()
    for names, *cells in rows:
        for profile, cell in zip((SMALL, LARGE), cells, strict=True):
            for name in re.findall(r"`(\w+)`", names):
                told.add(name)
                value = {**templates.document("settings.json"), **profile, **profile["settings"]}[name]
                assert _cell(name, value) in cell, f"{name} is {value}, and the page says {cell}"
    assert told >= SMALL.keys() - {
        "settings",
        "alerts",
        "serviceBusCapacity",
        "artifactDeleteAfterDays",
        "updateStrategy",
    }


ODD = ["q", "My_Queue.v2(test)", "0-starts-with-a-digit", "-", "sb", "x" * 64, "UPPER" * 12, "a--b", "queue-mgmt"]


@pytest.mark.parametrize("environment", ODD)
def test_names_are_legal_for_long_and_odd_environments(environment: str) -> None:
    deployed = evaluate({**scenarios.CLOSED, "AZURE_ENV_NAME": environment, "QUEUE_PROFILE": "large"})
    assert list(findings(deployed)) == []


def test_an_environment_that_is_too_long_is_refused_by_the_template() -> None:
    deployed = evaluate({**scenarios.BARE, "AZURE_ENV_NAME": "x" * 65})
    assert any("breaks its maxLength of 64" in str(each) for each in deployed.all_findings())


def _taken(deployed: Deployed) -> set[str]:
    return {each.name for each in deployed.all_resources() if each.type in naming.GLOBAL}


def test_two_deployments_in_one_tenant_do_not_collide() -> None:
    first, second, elsewhere = (
        evaluate({**scenarios.PERSON, "AZURE_ENV_NAME": name, "AZURE_LOCATION": location})
        for name, location in (("one", "westeurope"), ("two", "westeurope"), ("one", "eastus2"))
    )
    assert len(_taken(first)) == 4
    assert not _taken(first) & _taken(second)
    assert not _taken(first) & _taken(elsewhere)
    assert not {each.id for each in first.all_resources()} & {each.id for each in second.all_resources()}


@pytest.mark.parametrize("scenario", ["small, everything", "large, closed"])
def test_a_second_deployment_changes_nothing(scenario: str) -> None:
    """A second deployment without secrets changes nothing: the vault keeps those that it has."""
    again = {**templates.SCENARIOS[scenario], **dict.fromkeys(scenarios.SECRETS, "")}
    first, second = (
        {each.id: each.body for each in found.all_resources()}
        for found in (templates.deployed(scenario), evaluate(again))
    )
    assert {key: first[key] for key in second} == second
    assert {key.rpartition("/")[2] for key in first.keys() - second.keys()} == {
        "root-access-token",
        "message-signing-keys",
        "access-token-keys",
    }


def test_no_version_of_an_api_is_three_years_older_than_the_newest() -> None:
    """No version of an API is three years older than the newest one, as Azure ends old versions. CI asks weekly, with
    the compiler's own list, for those that are two years old."""
    document = shapes.document()
    for name in document["used"]:
        kind, _, version = name.partition("@")
        stable = [each for each in document["versions"][kind] if "preview" not in each] or [version]
        age = date.fromisoformat(max(stable)) - date.fromisoformat(version[:10])
        first = kind == "Microsoft.Insights/metricAlerts" and len(stable) == 2  # its first new version in eight years
        assert age < timedelta(days=1095) or first, f"{name} is older than {max(stable)}"


HOOKS_OWN = re.compile(r"QUEUE_NEW_\w+|AZURE_PRINCIPAL_ID|QUEUE_APP_VERSION")
"""Matches variables that hooks set, or that azd knows by itself."""


def _variables() -> set[str]:
    """Returns the variables that main.parameters.json takes."""
    given = set(re.findall(r"\$\{(\w+)", (templates.INFRA / "main.parameters.json").read_text()))
    return {name for name in given if not HOOKS_OWN.fullmatch(name)}


def test_every_parameter_is_documented_and_no_others() -> None:
    rows = re.findall(r"^\| `[^|]+\| (`QUEUE_[^|]+)\|", README, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(QUEUE_\w+)`", row)}
    assert documented == {name for name in _variables() if name.startswith("QUEUE_")}
    for name in description.described():
        assert re.search(rf"^\| [^|]*`{name}`", README, re.MULTILINE), name


OTHER = {
    "AZURE_ENV_NAME": "other",
    "AZURE_LOCATION": "eastus2",
    "AZURE_PRINCIPAL_TYPE": "User",
    "QUEUE_PROFILE": "small",
    "QUEUE_OPENID_CLIENT_ID": "cccccccc-bbbb-cccc-dddd-eeeeeeeeeeee",
    "QUEUE_OPENID_SCOPES": "openid groups",
    "QUEUE_OPENID_ROLES": "*=login:other",
    "QUEUE_PUBLIC_ARTIFACTS": "false",
    "QUEUE_UPLOADS_APP": "true",
    "QUEUE_NOTIFY_APP": "true",
    "QUEUE_NOTIFY": '{"chat": true}',
    "QUEUE_ACCEPT_PREVIOUS_ROOT_TOKEN": "false",
    "QUEUE_SIGN_WITH_ACCOUNT_KEY": "false",
    "QUEUE_OPERATOR_ID": "none",
    "QUEUE_OPERATOR_TYPE": "ServicePrincipal",
    "QUEUE_VIRTUAL_NETWORK": "false",
    "QUEUE_VIRTUAL_NETWORK_PREFIX": "10.9.0.0/16",
    **dict.fromkeys(
        (f"QUEUE_{each}_PUBLIC_ACCESS" for each in ("APP", "STORAGE", "SERVICEBUS", "KEY_VAULT")), "Disabled"
    ),
    "QUEUE_WORKERS": "my-team/linux",
    "QUEUE_WORKER_OVERRIDES": '{"my-team/linux": {"maxExecutions": 3}}',
    "QUEUE_PROFILE_OVERRIDES": '{"updateStrategy": "RollingUpdate"}',
    "QUEUE_SETTING_OVERRIDES": '{"POLL_VISIBILITY_SECONDS": "240"}',
    "QUEUE_STORAGE_ALLOWED_ADDRESSES": '["203.0.113.0/24"]',
    "QUEUE_STORAGE_ACCOUNT_ID": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/stold",
    "QUEUE_ARTIFACT_CORS_ORIGINS": '["https://example.com"]',
    "QUEUE_MONTHLY_BUDGET": "100",
    "QUEUE_BUDGET_START": "2026-02-01",
    "QUEUE_TAGS": '{"a": "b"}',
    "QUEUE_NAMES": '{"storage": "stother"}',
}


@functools.cache
def _bodies(environment: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return {each.id: each.body for each in evaluate(dict(environment)).all_resources()}


@pytest.mark.parametrize("variable", sorted(_variables()))
def test_every_parameter_changes_what_is_deployed(variable: str) -> None:
    environment = {**scenarios.EVERYTHING, "QUEUE_PROFILE": "large"}
    if variable.startswith("AZURE_PRINCIPAL"):
        environment |= {"QUEUE_OPERATOR_ID": "", "AZURE_PRINCIPAL_ID": "p", "AZURE_PRINCIPAL_TYPE": ""}
    if variable == "QUEUE_BUDGET_START":
        environment |= {"QUEUE_MONTHLY_BUDGET": "5", "QUEUE_BUDGET_START": "2026-01-01"}
    if variable == "QUEUE_NOTIFY":
        environment |= {"QUEUE_NOTIFY_APP": "true"}
    changed = {**environment, variable: OTHER.get(variable, "https://other.example.com/")}
    assert _bodies(tuple(environment.items())) != _bodies(tuple(changed.items()))


def test_the_command_says_what_is_wrong_and_what_was_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "main.bicep").write_text("targetScope = 'tenant'\noutput x int = nothing\n")
    (tmp_path / "main.parameters.json").write_text('{"parameters": {}}')
    assert check(tmp_path, {"one": {}}) == ["main.bicep:2: there is no nothing (one)"]
    (tmp_path / "main.bicep").write_text("param x string = \n")
    assert check(tmp_path, {"one": {}}) == ["main.bicep:1: this cannot be parsed"]
    monkeypatch.setattr("sys.argv", ["python -m tools.local.templates", "--unchecked"])
    assert command.main() == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("0 findings. Not checked: ")
    (key,) = rest
    assert key.startswith("storagekey.bicep:"), "a value that only Azure knows goes unchecked: this is all of them"
