"""A deployment is one description: a laptop and a pipeline make the same of it, and nothing dangerous unasked."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.infra import templates
from tests.infra.play import Play
from tools.local.deployments import description, differences, grants
from tools.local.deployments.__main__ import az
from tools.local.templates import scenarios, syntax
from tools.local.templates.__main__ import evaluate, findings
from tools.local.templates.deployment import deploy
from tools.local.templates.values import Deployed, Later, Reference, Unknown

EXAMPLE = description.FOLDER / "example.json"
SITE = {"AZURE_ENV_NAME": "example", "AZURE_RESOURCE_GROUP": "rg-example"}
PERSON = {**SITE, "AZURE_PRINCIPAL_TYPE": "User", "AZURE_PRINCIPAL_ID": "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee"}
PIPELINE = {**SITE, "AZURE_PRINCIPAL_TYPE": "ServicePrincipal", "QUEUE_BUILD": "v1.2.3"}


@pytest.fixture
def described(play: Play) -> Play:
    """A stage with the example's description, and nothing that would change."""
    (play.folder / "deployments").mkdir()
    shutil.copy(EXAMPLE, play.folder / "deployments" / "example.json")
    would(play)
    return play


def would(play: Play, *changes: Mapping[str, Any]) -> None:
    """What Azure says that a deployment would change."""
    play.set("what-if", json.dumps({"status": "Succeeded", "changes": list(changes)}))


def _bodies(deployed: Deployed) -> dict[str, Any]:
    return {each.id: each.body for each in deployed.all_resources()}


def test_a_laptop_and_a_pipeline_deploy_the_same_and_so_does_az_alone(described: Play) -> None:
    found: list[dict[str, Any]] = []
    for who in (PERSON, PIPELINE):
        (described.folder / "env").unlink(missing_ok=True)
        done = described.run("apply-description.sh", **{**who, "QUEUE_BUILD": "v1.2.3"})
        assert done.returncode == 0, done.stderr
        azd = {**who, **described.env, "AZURE_LOCATION": "westeurope"}
        found.append(_bodies(evaluate({name: value for name, value in azd.items() if value})))
    laptop, pipeline = found
    more = laptop.keys() - pipeline.keys()
    assert {each.split("/")[-2] for each in more} == {"roleDefinitions", "roleAssignments"}, "people alone define roles"
    assert len(more) == 2
    assert {name: body for name, body in laptop.items() if name not in more} == pipeline
    given = {**description.read(EXAMPLE), "environmentName": "example", "appVersion": "v1.2.3"}
    assert _bodies(deploy(templates.INFRA / "main.bicep", given)) == pipeline
    asked = json.loads((described.folder / "asked").read_text())["parameters"]
    assert {
        name: entry["value"] for name, entry in asked.items() if name in description.described()
    } == description.read(EXAMPLE)


def test_the_example_is_deployed_without_a_finding() -> None:
    given = {**description.read(EXAMPLE), "environmentName": "example"}
    assert list(map(str, findings(deploy(templates.INFRA / "main.bicep", given)))) == []


def test_who_gets_alerts_is_told_before_a_month_has_cost_too_much() -> None:
    given = {**description.read(EXAMPLE), "environmentName": "example"}
    resources = {each.type: each for each in deploy(templates.INFRA / "main.bicep", given).all_resources()}
    budget = resources["Microsoft.Consumption/budgets"].body["properties"]
    assert (budget["amount"], budget["timeGrain"], budget["category"]) == (2000, "Monthly", "Cost")
    assert budget["timePeriod"] == {"startDate": "2026-01-01T00:00:00Z"}
    told = {each["thresholdType"]: each for each in budget["notifications"].values()}
    assert {kind: each["threshold"] for kind, each in told.items()} == {"Actual": 80, "Forecasted": 100}
    for each in told.values():
        assert (each["enabled"], each["operator"]) == (True, "GreaterThan")
        assert each["contactGroups"] == [resources["Microsoft.Insights/actionGroups"].id]
    bare = {each.type for each in templates.deployed("small, bare").all_resources()}
    assert "Microsoft.Consumption/budgets" not in bare


def test_what_an_earlier_environment_said_does_not_stay(described: Play) -> None:
    """A variable of another day, or of another person's laptop, must not open what the description closes."""
    left = {"QUEUE_APP_PUBLIC_ACCESS": "Enabled", "QUEUE_STORAGE_PUBLIC_ACCESS": "Enabled", "QUEUE_WORKERS": "old/pool"}
    done = described.run("apply-description.sh", **PERSON, **left)
    assert (described.env["QUEUE_STORAGE_PUBLIC_ACCESS"], described.env["QUEUE_WORKERS"]) == ("Disabled", "")
    assert "QUEUE_STORAGE_PUBLIC_ACCESS was Enabled; " in done.stdout
    assert set(description.described().values()) - {"AZURE_LOCATION"} <= described.env.keys()


def test_a_first_deployment_writes_its_description(play: Play) -> None:
    play.set("group", "false")
    given = {"QUEUE_PROFILE": "large", "QUEUE_ALERT_EMAILS": "ops@example.com", "QUEUE_VIRTUAL_NETWORK": "True"}
    done = play.run("apply-description.sh", **SITE, **given)
    assert done.returncode == 0, done.stderr
    assert description.read(play.folder / "deployments" / "example.json") == {
        "location": "westeurope",
        "profile": "large",
        "alertEmails": "ops@example.com",
        "virtualNetwork": True,
        "operatorPrincipalId": "the-person",
    }
    assert "commit it" in done.stdout
    assert re.fullmatch(r"(v\d.*|[0-9a-f]{12})(-dirty)?", play.env["QUEUE_APP_VERSION"])
    assert play.env["AZURE_PRINCIPAL_TYPE"] == "User"


def test_a_pipeline_is_no_person(play: Play) -> None:
    play.set("group", "false")
    play.set("account", "servicePrincipal")
    assert play.run("apply-description.sh", **SITE).returncode == 0
    assert play.env["AZURE_PRINCIPAL_TYPE"] == "ServicePrincipal"
    assert "operatorPrincipalId" not in description.read(play.folder / "deployments" / "example.json")


def test_what_is_deployed_is_not_deployed_again_without_its_description(play: Play) -> None:
    done = play.run("apply-description.sh", **PERSON, QUEUE_PROFILE="small")
    assert done.returncode == 1
    assert "python3 -m tools.local.deployments pull example" in done.stderr
    assert play.env == {}


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
def test_a_description_that_is_wrong_is_refused(described: Play, name: str, value: Any, says: str) -> None:
    file = described.folder / "deployments" / "example.json"
    text = json.loads(file.read_text())
    text["parameters"][name] = {"value": value}
    file.write_text(json.dumps(text))
    done = described.run("apply-description.sh", **PERSON)
    assert done.returncode == 1
    assert says in done.stderr
    assert described.env == {}


def test_defaults_of_lists_are_those_of_the_template() -> None:
    """azd cannot leave a list out that was once in its environment."""
    values = description.to_variables({})
    bare, set_ = (
        _bodies(evaluate({**scenarios.BARE, **given}))
        for given in ({}, {key: value for key, value in values.items() if value})
    )
    assert bare == set_


# What would change


def _id(kind: str, name: str) -> str:
    return f"/subscriptions/s/resourceGroups/rg-example/providers/{kind}/{name}"


def _answer(before: Deployed, after: Deployed) -> list[dict[str, Any]]:
    """As Azure answers, by resource, of a change from one deployment to another; both evaluated."""
    old, new = (
        {each.id.lower(): (each.id, _payload(each.body)) for each in one.all_resources()} for one in (before, after)
    )
    changes = []
    for key, (name, body) in {**old, **new}.items():
        kind = "Create" if key not in old else "Ignore" if key not in new else "Modify"
        if kind == "Modify" and old[key][1] == body:
            kind = "NoChange"
        changes.append(
            {
                "resourceId": name,
                "changeType": kind,
                "before": old.get(key, ("", None))[1],
                "after": None if kind == "Ignore" else new[key][1],
                "delta": [
                    {"path": "properties", "propertyChangeType": "Modify", "before": 1, "after": 2, "children": []}
                ],
            }
        )
    return changes


def _payload(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _payload(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_payload(each) for each in value]
    return str(value) if isinstance(value, Later | Unknown | Reference) else value


def _large(changes: Callable[[dict[str, Any]], object] = lambda _: None, **more: Any) -> Deployed:
    given = {**copy.deepcopy(description.read(EXAMPLE)), "environmentName": "example", "appPublicAccess": "Disabled"}
    given |= {"serviceBusPublicAccess": "Disabled", "artifactCorsOrigins": ["*"], **more}
    changes(given)
    return deploy(templates.INFRA / "main.bicep", given)


def _without(*names: str) -> Callable[[dict[str, Any]], object]:
    return lambda given: [given.pop(name) for name in names]


CHANGES: list[tuple[str, Callable[[dict[str, Any]], object], dict[str, Any], set[str]]] = [
    ("nothing", lambda _: None, {}, set()),
    (
        "a laptop without values",
        lambda given: given.clear(),
        {"environmentName": "example", "location": "westeurope"},
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
    ("a version", lambda _: None, {"appVersion": "v2"}, set()),
    ("no budget", _without("monthlyBudget"), {}, set()),
]


@pytest.mark.parametrize(("change", "more", "kinds"), [each[1:] for each in CHANGES], ids=[each[0] for each in CHANGES])
def test_what_is_dangerous_is_named(
    change: Callable[[dict[str, Any]], object], more: dict[str, Any], kinds: set[str]
) -> None:
    after = _large(change, **({} if "environmentName" in more else more))
    if "environmentName" in more:
        after = deploy(templates.INFRA / "main.bicep", more)
    assert {each.kind for each in differences.dangers(_answer(_large(), after))} == kinds
    assert kinds <= differences.KINDS.keys()


def test_every_guard_is_about_what_the_templates_set() -> None:
    """A path that is written in another way would guard nothing."""
    full = evaluate(
        {**scenarios.CLOSED, "QUEUE_PROFILE": "large", "QUEUE_MONTHLY_BUDGET": "5", "QUEUE_BUDGET_START": "2026-01-01"}
    )
    small = evaluate({**scenarios.BARE, "QUEUE_PROFILE_OVERRIDES": '{"artifactDeleteAfterDays": 9}'})
    bodies = [(each.type.lower(), each.body) for one in (full, small) for each in one.all_resources()]
    for guard in differences.GUARDS:
        values = [differences.at(body, guard.path) for kind, body in bodies if kind == guard.type]
        assert any(value is not None for value in values), guard


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [("PT1H", "PT30M", True), ("P1D", "PT24H", False), ("P3D", "P1W", False), ("P14D", "P1W", True)],
)
def test_durations_are_compared_by_their_length(before: str, after: str, worse: bool) -> None:
    assert (differences.seconds(after) or 0) < (differences.seconds(before) or 0) or not worse
    change = {"resourceId": _id("Microsoft.ServiceBus/namespaces", "n/topics/t"), "changeType": "Modify"}
    sides = {
        "before": {"properties": {"defaultMessageTimeToLive": before}},
        "after": {"properties": {"defaultMessageTimeToLive": after}},
    }
    assert bool(list(differences.dangers([{**change, **sides}]))) == worse


OPENED = {
    "resourceId": _id("Microsoft.Storage/storageAccounts", "st"),
    "changeType": "Modify",
    "before": {"properties": {"publicNetworkAccess": "Disabled"}},
    "after": {"properties": {"publicNetworkAccess": "Enabled"}},
    "delta": [
        {
            "path": "properties",
            "propertyChangeType": "Modify",
            "children": [
                {
                    "path": "publicNetworkAccess",
                    "propertyChangeType": "Modify",
                    "before": "Disabled",
                    "after": "Enabled",
                    "children": None,
                }
            ],
        }
    ],
}
SETTINGS = {
    "resourceId": _id("Microsoft.Web/sites", "func/config/appsettings"),
    "changeType": "Modify",
    "before": {},
    "after": {},
    "delta": [
        {"path": "properties.SOME_SETTING", "propertyChangeType": "Modify", "before": "hidden-1", "after": "hidden-2"}
    ],
}
DELETED: dict[str, Any] = {
    "resourceId": _id("Microsoft.KeyVault/vaults", "kv"),
    "changeType": "Delete",
    "before": {},
    "after": None,
}


def test_a_dangerous_change_is_shown_and_refused_until_its_word_is_given(described: Play) -> None:
    would(described, OPENED, SETTINGS, DELETED)
    done = described.run("apply-description.sh", **PERSON)
    assert done.returncode == 1
    assert "properties.publicNetworkAccess: Disabled → Enabled" in done.stdout
    assert "properties.SOME_SETTING" in done.stdout
    assert "hidden" not in done.stdout + done.stderr, "a setting may be a secret"
    assert "DANGEROUS doors: microsoft.storage/storageaccounts st" in done.stdout
    assert "QUEUE_CONFIRM=doors,deletion azd provision" in done.stderr
    assert described.run("apply-description.sh", **PERSON, QUEUE_CONFIRM="doors").returncode == 1
    done = described.run("apply-description.sh", **PERSON, QUEUE_CONFIRM="doors, deletion")
    assert done.returncode == 0, done.stderr
    assert "confirmed doors" in done.stdout


@pytest.mark.parametrize("answer", ["", '{"status": "Failed", "error": {"code": "X"}}', "[]"])
def test_what_cannot_be_seen_is_refused_too(described: Play, answer: str) -> None:
    described.set("what-if", answer)
    done = described.run("apply-description.sh", **PERSON)
    assert done.returncode == 1
    assert "QUEUE_CONFIRM=unseen azd provision" in done.stderr
    assert described.run("apply-description.sh", **PERSON, QUEUE_CONFIRM="unseen").returncode == 0


def test_a_description_is_written_from_what_was_deployed_last(play: Play) -> None:
    """Also the first one of a deployment of before there were descriptions."""
    older, newer = (
        {
            "name": name,
            "properties": {
                "timestamp": f"2026-01-0{day}T00:00:00Z",
                "parameters": {
                    "environmentName": {"type": "String", "value": "example"},
                    "profile": {"type": "String", "value": profile},
                    "rootAccessToken": {"type": "SecureString"},
                    "principalId": {"type": "String", "value": "someone"},
                    "rootUrl": {"type": "String", "value": ""},
                    "tags": {"type": "Object", "value": {"a": "b"}},
                },
            },
        }
        for name, day, profile in (("old", 1, "small"), ("new", 2, "large"))
    )
    play.set("deployments-of-azure", json.dumps([newer, older]))
    done = play.deployments("pull", "example", "--subscription", "s")
    assert done.returncode == 0, done.stderr
    assert description.read(play.folder / "deployments" / "example.json") == {"profile": "large", "tags": {"a": "b"}}
    assert play.deployments("pull", "example", "--subscription", "s").returncode == 1, "a file of the operator stays"
    play.set("deployments-of-azure", "[]")
    assert "no deployment of other" in play.deployments("pull", "other", "--subscription", "s").stderr


OLD = "/subscriptions/s/resourceGroups/rg-old/providers/Microsoft.Storage/storageAccounts/stold"


def _taking() -> tuple[Deployed, Deployed]:
    """The example with an account of its own, and with one that it takes."""
    given = {**description.read(EXAMPLE), "environmentName": "example"}
    main = templates.INFRA / "main.bicep"
    return deploy(main, given), deploy(main, {**given, "storageAccountId": OLD})


def test_an_account_that_is_taken_is_left_alone_and_used() -> None:
    """After the loss of a region it lies in a group in which nothing can be deployed."""
    own, taking = _taking()
    assert [str(each) for each in taking.all_findings()] == []
    resources = list(taking.all_resources())
    assert not [each.id for each in resources if "/storageAccounts/" in each.id]
    assert not [each.id for each in resources if "/rg-old/" in each.id]
    kinds = [{each.type for each in one.all_resources()} for one in (own, taking)]
    assert {kind.split("/")[0] for kind in kinds[0] - kinds[1]} == {"Microsoft.Storage"}
    by_type = {each.type: each.body for each in resources}
    settings = by_type["Microsoft.Web/sites/config"]["properties"]
    assert settings["STORAGE_ACCOUNT_NAME"] == "stold"
    for service in ("blob", "queue", "table"):
        assert settings[f"AzureWebJobsStorage__{service}ServiceUri"] == f"https://stold.{service}.core.windows.net/"
    site = by_type["Microsoft.Web/sites"]["properties"]["functionAppConfig"]["deployment"]["storage"]
    assert site["value"] == "https://stold.blob.core.windows.net/deployments"
    targets = [
        connection["properties"]["privateLinkServiceId"]
        for each in resources
        if each.type == "Microsoft.Network/privateEndpoints"
        for connection in each.body["properties"]["privateLinkServiceConnections"]
    ]
    assert targets.count(OLD) == 3, "blobs, queues and tables by private endpoints"
    scopes = [each.body["properties"]["scopes"] for each in resources if each.type == "Microsoft.Insights/metricAlerts"]
    assert [OLD] in scopes
    assert taking.outputs["STORAGE_ACCOUNT_ID"] == OLD


def test_the_roles_that_are_granted_are_those_that_templates_give() -> None:
    own, _ = _taking()
    wanted = set()
    for each in own.all_resources():
        scope = each.id.partition("/providers/Microsoft.Authorization/")[0]
        if each.type == "Microsoft.Authorization/roleAssignments" and "/storageAccounts/" in scope:
            properties = each.body["properties"]
            role = properties["roleDefinitionId"].rpartition("/")[2]
            wanted.add((role, scope, str(properties["principalId"]), properties["principalType"]))
    account = next(each.id for each in own.all_resources() if each.type == "Microsoft.Storage/storageAccounts")
    app, deployment = (own.modules[name].outputs["principalId"] for name in ("identity", "deploymentIdentity"))
    operator = (description.read(EXAMPLE)["operatorPrincipalId"], "Group")
    assert set(grants.needed(account, str(app), str(deployment), operator)) == wanted


def test_roles_on_a_taken_account_are_granted_by_a_command(described: Play) -> None:
    described.set(
        "identities",
        json.dumps([{"name": f"id-{name}", "principalId": name} for name in ("deploy-x", "worker-x", "x")]),
    )
    refused = described.deployments("grant", "example", "--subscription", "s")
    assert "takes no storage account" in refused.stderr
    assert described.deployments("set", "storageAccountId", OLD, "--environment", "example").returncode == 0
    done = described.deployments("grant", "example", "--subscription", "s")
    assert done.returncode == 0, done.stderr
    given = [call for call in described.calls if call.startswith("role assignment create")]
    entities = templates.document("entities.json")
    assert len(given) == 4 + len(entities["containers"]) + len(entities["hostContainers"]) + 1 + 3
    assert all(f"--scope {OLD}" in call for call in given)
    assert not any("--assignee-object-id worker-x" in call for call in given)


def test_a_value_is_changed_by_a_command_and_nothing_else_with_it(described: Play) -> None:
    before = description.read(EXAMPLE)
    for arguments in (("profile", "small"), ("acceptPreviousRootToken", "true"), ("rootUrl", "")):
        assert described.deployments("set", *arguments, "--environment", "example").returncode == 0
    after = description.read(described.folder / "deployments" / "example.json")
    before.pop("rootUrl")
    assert after == {**before, "profile": "small", "acceptPreviousRootToken": True}
    for arguments, says in ((("profil", "1"), "no parameter"), (("monthlyBudget", "a lot"), "takes JSON")):
        done = described.deployments("set", *arguments, "--environment", "example")
        assert (done.returncode, says in done.stderr) == (1, True), done.stderr
    assert description.read(described.folder / "deployments" / "example.json") == after
    assert "there is no " in described.deployments("set", "profile", "small", AZURE_ENV_NAME="other").stderr


def test_without_the_programs_that_it_needs_a_command_says_which(described: Play) -> None:
    done = described.deployments("set", "profile", "small", AZURE_ENV_NAME="", PATH="/nonexistent")
    assert (done.returncode, done.stderr) == (1, "deployment: azd is not installed, or not on the PATH\n")


def test_main_bicep_and_descriptions_know_the_same_types() -> None:
    declared = {each.name: each.target for each in syntax.read(templates.INFRA / "main.bicep").of("param")}
    assert description.types() == declared
    assert description.variables().keys() == declared.keys()


@pytest.mark.parametrize("answer", ["", "true"])
def test_an_az_that_fails_is_not_believed_whatever_it_prints(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for an answer, a sign-in that has ended would be a deployment that is not there yet."""
    (tmp_path / "az").write_text(f"#!/bin/sh\necho {answer}\necho sign in >&2\nexit 1\n")
    (tmp_path / "az").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(description.Refused, match="sign in"):
        az("group", "exists")
