"""A deployment is one description, from which a laptop and a pipeline make the same, and nothing dangerous unasked."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.promises.infra import dangers, templates
from tests.promises.infra.azure.cloud import PERSON as SIGNED_IN
from tests.promises.infra.azure.cloud import SUBSCRIPTION, Cloud
from tests.promises.infra.azure.stage import Stage
from tools.local.deployments import description, differences, grants
from tools.local.deployments.__main__ import az
from tools.local.templates import scenarios, syntax
from tools.local.templates.__main__ import evaluate, findings
from tools.local.templates.deployment import deploy
from tools.local.templates.values import Deployed

EXAMPLE = description.FOLDER / "example.json"
MAIN = templates.INFRA / "main.bicep"
PERSON = {"AZURE_PRINCIPAL_TYPE": "User", "AZURE_PRINCIPAL_ID": scenarios.DEPLOYER}
PIPELINE = {"AZURE_PRINCIPAL_TYPE": "ServicePrincipal", "QUEUE_BUILD": "v1.2.3"}
APPLY = "infra/hooks/apply-description.sh"


def _file(azure: Stage) -> Path:
    return Path(azure.environment["QUEUE_DEPLOYMENTS"]) / "example.json"


def _given(who: dict[str, str] = PERSON, **more: Any) -> dict[str, Any]:
    """Returns the parameters that the hook gives Azure for the example."""
    own = {"environmentName": "example", "appVersion": "v1.2.3", "principalType": who["AZURE_PRINCIPAL_TYPE"]}
    return {**description.read(EXAMPLE), **own, "principalId": who.get("AZURE_PRINCIPAL_ID", ""), **more}


def _deploy(azure: Stage, given: dict[str, Any]) -> None:
    azure.cloud.deploy("last", {"properties": {"parameters": {name: {"value": each} for name, each in given.items()}}})


@pytest.fixture
def described(azure: Stage) -> Stage:
    """Returns a stage with the example's description, deployed as it is."""
    _file(azure).parent.mkdir()
    shutil.copy(EXAMPLE, _file(azure))
    _deploy(azure, _given())
    azure.environment["QUEUE_BUILD"] = "v1.2.3"
    return azure


def _command(azure: Stage, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs `./dev deployment` with this stage's descriptions."""
    command = [sys.executable, "-m", "tools.local.deployments", "--folder", str(_file(azure).parent), *arguments]
    return subprocess.run(
        command, env={**azure.environment, **more}, cwd=azure.checkout, capture_output=True, text=True, check=False
    )


def _bodies(deployed: Deployed) -> dict[str, Any]:
    return {each.id: each.body for each in deployed.all_resources()}


def test_a_laptop_and_a_pipeline_deploy_the_same_and_so_does_az_alone(described: Stage) -> None:
    found: list[dict[str, Any]] = []
    for who in (PERSON, PIPELINE):
        described.values.clear()
        done = described.run(APPLY, **who)
        assert done.returncode == 0, done.stderr
        azd = {"AZURE_ENV_NAME": "example", "AZURE_LOCATION": "westeurope", **who, **described.values}
        found.append(_bodies(evaluate({name: value for name, value in azd.items() if value})))
    laptop, pipeline = found
    more = laptop.keys() - pipeline.keys()
    assert {each.split("/")[-2] for each in more} == {"roleDefinitions", "roleAssignments"}, "people alone define roles"
    assert len(more) == 2
    assert {name: body for name, body in laptop.items() if name not in more} == pipeline
    given = {**description.read(EXAMPLE), "environmentName": "example", "appVersion": "v1.2.3"}
    assert _bodies(deploy(MAIN, given)) == pipeline


def test_the_example_is_deployed_without_a_finding() -> None:
    assert list(findings(deploy(MAIN, {**description.read(EXAMPLE), "environmentName": "example"}))) == []


def test_what_an_earlier_environment_said_does_not_stay(described: Stage) -> None:
    """A value from an earlier environment does not stay: it must not open what the description closes."""
    left = {"QUEUE_APP_PUBLIC_ACCESS": "Enabled", "QUEUE_STORAGE_PUBLIC_ACCESS": "Enabled", "QUEUE_WORKERS": "old/pool"}
    done = described.run(APPLY, **PERSON, **left)
    assert (described.values["QUEUE_STORAGE_PUBLIC_ACCESS"], described.values["QUEUE_WORKERS"]) == ("Disabled", "")
    assert "QUEUE_STORAGE_PUBLIC_ACCESS was Enabled; " in done.stdout
    assert set(description.described().values()) - {"AZURE_LOCATION"} <= described.values.keys()


@pytest.mark.parametrize("person", [True, False])
def test_a_first_deployment_writes_its_description(azure: Stage, person: bool) -> None:
    given = {"QUEUE_PROFILE": "large", "QUEUE_ALERT_EMAILS": "ops@example.com", "QUEUE_VIRTUAL_NETWORK": "True"}
    azure.az.principal = "user" if person else "servicePrincipal"
    done = azure.run(APPLY, **given)
    assert done.returncode == 0, done.stderr
    assert description.read(_file(azure)) == {
        "location": "westeurope",
        "profile": "large",
        "alertEmails": "ops@example.com",
        "virtualNetwork": True,
        **({"operatorPrincipalId": SIGNED_IN} if person else {}),
    }
    assert "commit it" in done.stdout
    assert re.fullmatch(r"(v\d.*|[0-9a-f]{12})(-dirty)?", azure.values["QUEUE_APP_VERSION"])
    assert azure.values["AZURE_PRINCIPAL_TYPE"] == ("User" if person else "ServicePrincipal")


def test_what_is_deployed_is_not_deployed_again_without_its_description(described: Stage) -> None:
    _file(described).unlink()
    done = described.run(APPLY, **PERSON, QUEUE_PROFILE="small")
    assert (done.returncode, described.values) == (1, {})
    assert "python3 -m tools.local.deployments pull example" in done.stderr


@pytest.mark.parametrize("missing", ["AZURE_SUBSCRIPTION_ID", "AZURE_LOCATION"])
def test_what_azd_asks_for_later_has_to_be_said_before(azure: Stage, missing: str) -> None:
    done = azure.run(f"unset {missing}; {APPLY}")
    assert (done.returncode, f"{missing} is not set" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("profil", "large", "profil is no parameter"),
        ("rootAccessToken", "secret", "rootAccessToken is no parameter"),
        ("virtualNetwork", "true", "has to be bool"),
        ("monthlyBudget", True, "has to be int"),
        ("rootUrl", 'https://"', "azd cannot pass on"),
        ("location", "eastus2", "says eastus2, and azd's environment westeurope"),
        ("budgetStart", "", "needs its budgetStart"),
    ],
)
def test_a_description_that_is_wrong_is_refused(described: Stage, name: str, value: Any, says: str) -> None:
    file = _file(described)
    text = json.loads(file.read_text())
    text["parameters"][name] = {"value": value}
    file.write_text(json.dumps(text))
    done = described.run(APPLY, **PERSON)
    assert done.returncode == 1
    assert says in done.stderr
    assert described.values == {}


def test_defaults_of_lists_are_those_of_the_template() -> None:
    """Lists that a description leaves out get the template's defaults, although azd keeps lists in its environment."""
    values = description.to_variables({})
    bare, set_ = (
        _bodies(evaluate({**scenarios.BARE, **given}))
        for given in ({}, {key: value for key, value in values.items() if value})
    )
    assert bare == set_


# What would change


def _without(*names: str) -> Callable[[dict[str, Any]], object]:
    return lambda given: [given.pop(name) for name in names]


CHANGES: list[tuple[str, Callable[[dict[str, Any]], object], dict[str, Any], set[str]]] = [
    ("nothing", lambda _: None, {}, set()),
    (
        "a laptop without values",
        lambda given: [given.pop(name) for name in description.read(EXAMPLE) if name != "location"],
        {"appPublicAccess": "Enabled", "serviceBusPublicAccess": "Enabled"},
        {"doors", "sku", "alerts", "retention"},
    ),
    ("a door", _without("storagePublicAccess"), {}, {"doors"}),
    ("an address", lambda _: None, {"storageAllowedAddresses": ["203.0.113.0/24"]}, {"doors"}),
    ("public artifacts", lambda _: None, {"publicArtifacts": True}, {"doors"}),
    ("keys", lambda _: None, {"signWithAccountKey": True}, {"doors"}),
    ("no mail", _without("alertEmails"), {}, {"alerts"}),
    ("another mail", lambda _: None, {"alertEmails": "ops@example.com,more@example.com"}, set()),
    ("deaf", lambda given: given["profileOverrides"].update(alerts={"latenessSeconds": 9999}), {}, {"alerts"}),
    ("quicker", lambda given: given["profileOverrides"].update(alerts={"latenessSeconds": 60}), {}, set()),
    ("fewer units", lambda given: given["profileOverrides"].update(serviceBusCapacity=1), {}, {"sku"}),
    ("more units", lambda given: given["profileOverrides"].update(serviceBusCapacity=4), {}, set()),
    ("fewer copies", lambda given: given["profileOverrides"].update(storageSku="Standard_LRS"), {}, {"sku"}),
    ("more copies", lambda given: given["profileOverrides"].update(storageSku="Standard_GZRS"), {}, set()),
    ("fewer ready", lambda given: given["profileOverrides"].update(alwaysReady=[]), {}, {"sku"}),
    ("logs", lambda given: given["profileOverrides"].update(logRetentionDays=30), {}, {"retention"}),
    ("events", lambda given: given["profileOverrides"].update(eventTimeToLive="PT12H"), {}, {"retention"}),
    ("artifacts", lambda given: given["profileOverrides"].update(artifactDeleteAfterDays=30), {}, {"retention"}),
    ("undelete", lambda given: given["profileOverrides"].update(blobSoftDeleteDays=0), {}, {"retention"}),
    ("another account", lambda _: None, {"names": {"storage": "other"}}, {"replacement"}),
    ("another region", lambda _: None, {"location": "eastus2"}, {"replacement"}),
    ("apps beside it", lambda _: None, {"uploadsApp": True, "notifyApp": True}, set()),
    ("a version", lambda _: None, {"appVersion": "v2"}, set()),
    ("no budget", _without("monthlyBudget"), {}, set()),
]


@pytest.mark.parametrize(("change", "more", "kinds"), [each[1:] for each in CHANGES], ids=[each[0] for each in CHANGES])
def test_what_is_dangerous_is_named(
    change: Callable[[dict[str, Any]], object], more: dict[str, Any], kinds: set[str]
) -> None:
    closed = _given(appPublicAccess="Disabled", serviceBusPublicAccess="Disabled", artifactCorsOrigins=["*"])
    cloud = Cloud(templates.INFRA)
    cloud.deploy("last", {"properties": {"parameters": {name: {"value": each} for name, each in closed.items()}}})
    changed = copy.deepcopy(closed)
    change(changed)
    predicted = cloud.predicted({**changed, **more})
    assert predicted["diagnostics"] == []
    assert {each.kind for each in differences.dangers(predicted["changes"])} == kinds
    assert kinds <= differences.KINDS.keys()


def test_every_guard_is_about_what_the_templates_set() -> None:
    """Every guard is about a property that the templates set: with another path it would guard nothing."""
    full = evaluate(
        {**scenarios.CLOSED, "QUEUE_PROFILE": "large", "QUEUE_MONTHLY_BUDGET": "5", "QUEUE_BUDGET_START": "2026-01-01"}
    )
    small = evaluate({**scenarios.BARE, "QUEUE_PROFILE_OVERRIDES": '{"artifactDeleteAfterDays": 9}'})
    bodies = [(each.type.lower(), each.body) for one in (full, small) for each in one.all_resources()]
    for guard in differences.GUARDS:
        values = [differences.at(body, guard.path) for kind, body in bodies if kind == guard.type]
        assert any(value is not None for value in values), guard


def test_which_changes_are_dangerous_is_what_was_read_and_kept() -> None:
    """The changes that count as dangerous are those of dangers.txt. After a change that is meant: python -m
    tests.promises.infra.dangers"""
    assert dangers.text() == dangers.FILE.read_text()


def test_a_dangerous_change_is_shown_and_refused_until_its_word_is_given(described: Stage) -> None:
    for parameter, value in (("storagePublicAccess", ""), ("profileOverrides.serviceBusCapacity", "1")):
        assert _command(described, "set", parameter, value).returncode == 0
    assert _command(described, "set", "settingOverrides.CONSOLE_SOURCES", '"hidden"').returncode == 0
    done = described.run(APPLY, **PERSON)
    assert done.returncode == 1
    assert "properties.publicNetworkAccess: Disabled → Enabled" in done.stdout
    assert "properties.CONSOLE_SOURCES" in done.stdout
    assert "hidden" not in done.stdout + done.stderr, "a setting may be a secret"
    assert "DANGEROUS doors: microsoft.storage/storageaccounts st" in done.stdout
    assert "QUEUE_CONFIRM=doors,sku azd provision" in done.stderr
    assert described.run(APPLY, **PERSON, QUEUE_CONFIRM="doors").returncode == 1
    done = described.run(APPLY, **PERSON, QUEUE_CONFIRM="doors, sku")
    assert done.returncode == 0, done.stderr
    assert "confirmed doors" in done.stdout


LEFT_OUT = {"status": "Succeeded", "changes": [], "diagnostics": [{"code": "X", "level": "Warning", "target": "app"}]}


@pytest.mark.parametrize("answer", [None, {"status": "Failed", "error": {"code": "X"}}, [], LEFT_OUT])
def test_what_cannot_be_seen_is_refused_too(described: Stage, answer: Any) -> None:
    described.az.what_if = answer
    if answer is None:
        described.az.fails.add("deployment sub what-if")
    done = described.run(APPLY, **PERSON)
    assert done.returncode == 1
    assert "QUEUE_CONFIRM=unseen azd provision" in done.stderr
    assert described.run(APPLY, **PERSON, QUEUE_CONFIRM="unseen").returncode == 0


def test_what_is_gone_is_a_deletion() -> None:
    gone = {
        "resourceId": "/subscriptions/s/resourceGroups/g/providers/Microsoft.KeyVault/vaults/kv",
        "changeType": "Delete",
    }
    assert [each.kind for each in differences.dangers([gone])] == ["deletion"]


def test_a_description_is_written_from_what_was_deployed_last(azure: Stage) -> None:
    """A description can be written from the last deployment, also for one that was made before there were
    descriptions."""
    for name, given in (
        ("old", {"profile": "small"}),
        ("new", {"profile": "large", "rootUrl": "", "tags": {"a": "b"}}),
    ):
        body = {
            "environmentName": "example",
            "location": "westeurope",
            "rootAccessToken": "t",
            "principalId": "p",
            **given,
        }
        azure.cloud.deploy(name, {"properties": {"parameters": {key: {"value": each} for key, each in body.items()}}})
    pull = ("pull", "example", "--subscription", SUBSCRIPTION)
    done = _command(azure, *pull)
    assert done.returncode == 0, done.stderr
    assert description.read(_file(azure)) == {"location": "westeurope", "profile": "large", "tags": {"a": "b"}}
    assert _command(azure, *pull).returncode == 1, "a file of the operator stays"
    assert "no deployment of other" in _command(azure, "pull", "other", "--subscription", SUBSCRIPTION).stderr


OLD = "/subscriptions/s/resourceGroups/rg-old/providers/Microsoft.Storage/storageAccounts/stold"


def test_the_roles_that_are_granted_are_those_that_templates_give() -> None:
    """The roles that are granted on an account that is taken are those that templates give. After the loss of a region,
    the account lies in a group in which nothing can be deployed."""
    own = deploy(MAIN, {**description.read(EXAMPLE), "environmentName": "example"})
    wanted = set()
    for each in own.all_resources():
        scope = each.id.partition("/providers/Microsoft.Authorization/")[0]
        if each.type == "Microsoft.Authorization/roleAssignments" and "/storageAccounts/" in scope:
            properties = each.body["properties"]
            role = properties["roleDefinitionId"].rpartition("/")[2]
            wanted.add((role, scope, str(properties["principalId"]), properties["principalType"]))
    account = next(each.id for each in own.all_resources() if each.type == "Microsoft.Storage/storageAccounts")
    kind = "Microsoft.ManagedIdentity/userAssignedIdentities"
    deployment, app = sorted(
        (each for each in own.all_resources() if each.type == kind), key=lambda each: "deploy" not in each.name
    )
    of_app, of_deployment = (templates.principal(each.name) for each in (app, deployment))
    operator = (description.read(EXAMPLE)["operatorPrincipalId"], "Group")
    assert set(grants.needed(account, of_app, of_deployment, operator)) == wanted


def test_roles_on_a_taken_account_are_granted_by_a_command(described: Stage) -> None:
    _deploy(described, _given(notifyApp=True, workers="my-team/linux", workerImage="example.org/worker:1"))
    grant = ("grant", "example", "--subscription", SUBSCRIPTION)
    assert "takes no storage account" in _command(described, *grant).stderr
    assert _command(described, "set", "storageAccountId", OLD).returncode == 0
    done = _command(described, *grant)
    assert done.returncode == 0, done.stderr
    given = [call for call in described.called if call.startswith("az role assignment create")]
    entities = templates.document("entities.json")
    assert len(given) == 4 + len(entities["containers"]) + len(entities["hostContainers"]) + 1 + 3
    assert all(f"--scope {OLD}" in call for call in given)
    there = described.cloud.resources.values()
    others = [each["properties"]["principalId"] for each in there if re.search("id-(worker|notify)-", each["id"])]
    assert len(others) == 2
    assert not [call for call in given if any(each in call for each in others)]


def test_a_value_is_changed_by_a_command_and_nothing_else_with_it(described: Stage) -> None:
    before = description.read(EXAMPLE)
    sets = (
        ("profile", "small"),
        ("acceptPreviousRootToken", "true"),
        ("rootUrl", ""),
        ("profileOverrides.logRetentionDays", "60"),
        ("profileOverrides.updateStrategy", ""),
    )
    for arguments in sets:
        assert _command(described, "set", *arguments, "--environment", "example").returncode == 0
    after = description.read(_file(described))
    before.pop("rootUrl")
    overrides = {"serviceBusCapacity": 2, "logRetentionDays": 60}
    assert after == {**before, "profile": "small", "acceptPreviousRootToken": True, "profileOverrides": overrides}
    for arguments, says in (
        (("profil", "1"), "no parameter"),
        (("monthlyBudget", "a lot"), "takes JSON"),
        (("profile.small", "1"), "is no object"),
    ):
        done = _command(described, "set", *arguments)
        assert (done.returncode, says in done.stderr) == (1, True), done.stderr
    assert description.read(_file(described)) == after
    assert "there is no " in _command(described, "set", "profile", "small", AZURE_ENV_NAME="other").stderr


def test_without_the_programs_that_it_needs_a_command_says_which(described: Stage) -> None:
    done = _command(described, "set", "profile", "small", AZURE_ENV_NAME="", PATH="/nonexistent")
    assert (done.returncode, done.stderr) == (1, "deployment: azd is not installed, or not on the PATH\n")


def test_main_bicep_and_descriptions_know_the_same_types() -> None:
    declared = {each.name: each.target for each in syntax.read(MAIN).of("param")}
    assert description.types() == declared
    assert description.variables().keys() == declared.keys()


@pytest.mark.parametrize("answer", ["", "true"])
def test_an_az_that_fails_is_not_believed_whatever_it_prints(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An az that fails is not believed, whatever it prints: an ended sign-in would look like a deployment that is not
    there yet."""
    (tmp_path / "az").write_text(f"#!/bin/sh\necho {answer}\necho sign in >&2\nexit 1\n")
    (tmp_path / "az").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(description.Refused, match="sign in"):
        az("group", "exists")
