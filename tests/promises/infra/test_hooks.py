"""The hooks of azd around a deployment, with an az that answers from the state of a subscription."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from shared.base.settings import Settings
from shared.base.vault import Vault
from tests.promises.infra import templates
from tests.promises.infra.azure.arm import answered
from tests.promises.infra.azure.cloud import SUBSCRIPTION
from tests.promises.infra.azure.stage import Stage
from tools.local.state import ROOT
from tools.local.templates import scenarios
from tools.local.templates.__main__ import parameters

HOOKS = templates.INFRA / "hooks"
VARIABLES = tuple(scenarios.SECRETS)
GIVEN = {**scenarios.BARE, **scenarios.SECRETS, "AZURE_ENV_NAME": "example"}
AZURE = yaml.safe_load((ROOT / "azure.yaml").read_text())


def _run(azure: Stage, hook: str, **more: str) -> subprocess.CompletedProcess[str]:
    return azure.run(f"infra/hooks/{hook}", **more)


def _deployed(azure: Stage, **more: str) -> dict[str, str]:
    """Returns what a first deployment leaves in azd's environment."""
    given = {name: {"value": value} for name, value in parameters({**GIVEN, **more}).items()}
    done = azure.cloud.deploy("first", {"properties": {"parameters": given}})
    return {name: each["value"] for name, each in done["properties"]["outputs"].items()}


def test_a_new_deployment_gets_secrets_that_the_app_takes(azure: Stage) -> None:
    assert _run(azure, "make-secrets.sh").returncode == 0
    made = dict(
        zip(
            ("root_access_token", "message_signing_keys", "access_token_keys"),
            (azure.values[each] for each in VARIABLES),
            strict=True,
        )
    )
    values = {name.lower(): value for name, value in templates.settings("small, bare").items() if value}
    settings = Settings.model_validate({**values, **made})
    vault = Vault([key.get_secret_value() for key in settings.access_token_keys])
    assert vault.open("client", vault.seal("client", "token")) == "token"
    first = dict(azure.values)
    _run(azure, "make-secrets.sh")
    assert all(first[name] != azure.values[name] for name in VARIABLES), "they are new at each run"
    assert _run(azure, "forget-secrets.sh").returncode == 0
    assert azure.values == dict.fromkeys(VARIABLES, "")


def test_no_key_is_made_that_a_command_would_take_for_an_option(azure: Stage) -> None:
    played = azure.home.parent / "tools" / "openssl"
    played.write_text(
        f"#!/bin/sh\nif [ -e {azure.home}/again ]; then echo AAAA; else echo +AAA; fi\ntouch {azure.home}/again\n"
    )
    played.chmod(0o755)
    assert _run(azure, "make-secrets.sh").returncode == 0
    assert set(azure.values.values()) == {"AAAA"}, "base64 of the first begins with +, which is - in a URL"


@pytest.mark.parametrize(
    "has", [(), ("root-access-token",), ("root-access-token", "message-signing-keys", "access-token-keys")]
)
def test_what_the_vault_has_is_never_made_again(azure: Stage, has: tuple[str, ...]) -> None:
    """A secret that the vault has is never made again: new keys would make stored access tokens unreadable, and end
    every claim."""
    _deployed(azure)
    (vault,) = azure.cloud.secrets
    for name in [*azure.cloud.secrets[vault]]:
        if name not in has:
            azure.cloud.resources = {key: each for key, each in azure.cloud.resources.items() if not key.endswith(name)}
    assert _run(azure, "make-secrets.sh").returncode == 0
    assert [bool(azure.values[each]) for each in VARIABLES] == [
        each not in has for each in ("root-access-token", "message-signing-keys", "access-token-keys")
    ]


def test_secrets_of_another_deployment_are_taken_over(azure: Stage) -> None:
    """Secrets of another deployment are taken over: after the loss of a region, claims and clients go on with them."""
    assert _run(azure, "make-secrets.sh", QUEUE_NEW_ACCESS_TOKEN_KEYS="the-old-keys").returncode == 0
    assert "QUEUE_NEW_ACCESS_TOKEN_KEYS" not in azure.values, "azd's environment keeps what it has"
    assert azure.values["QUEUE_NEW_ROOT_ACCESS_TOKEN"]


@pytest.mark.parametrize("fails", ["group exists", "resource list", "resource show"])
def test_in_doubt_no_secret_is_made(azure: Stage, fails: str) -> None:
    _deployed(azure)
    azure.az.fails.add(fails)
    done = _run(azure, "make-secrets.sh")
    assert (done.returncode, azure.values) == (1, {})
    assert "make-secrets:" in done.stderr


def test_of_two_vaults_none_is_asked(azure: Stage) -> None:
    _deployed(azure)
    _deployed(azure, QUEUE_NAMES='{"keyVault": "kv-other"}')
    done = _run(azure, "make-secrets.sh")
    assert (done.returncode, "several key vaults" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("location", "profile", "works"),
    [
        ("westeurope", "small", True),
        ("West Europe", "large", True),
        ("eastus2", "small", True),
        ("eastus2", "large", False),
        ("moon", "small", False),
    ],
)
def test_the_region_has_to_offer_the_plan(azure: Stage, location: str, profile: str, works: bool) -> None:
    done = _run(azure, "check-subscription.sh", AZURE_LOCATION=location, QUEUE_PROFILE=profile)
    assert (done.returncode == 0) == works
    assert works or f"cannot run in {location}" in done.stderr
    azure.az.fails.add("functionapp list-flexconsumption-locations")
    assert _run(azure, "check-subscription.sh", AZURE_LOCATION=location).returncode == 0, "Azure itself refuses later"


def test_the_provider_of_the_subnet_is_registered(azure: Stage) -> None:
    azure.cloud.unregistered.add("Microsoft.App")
    assert _run(azure, "check-subscription.sh").returncode == 0
    assert not azure.cloud.unregistered
    azure.cloud.unregistered.add("Microsoft.App")
    azure.az.fails.add("provider register")
    done = _run(azure, "check-subscription.sh")
    assert (done.returncode, "have an owner of the subscription run" in done.stderr) == (1, True)


@pytest.mark.parametrize(("group", "stops"), [("rg-example", True), ("rg-another", False)])
def test_a_deleted_vault_of_the_same_name_stops_a_new_one(azure: Stage, group: str, stops: bool) -> None:
    azure.cloud.deleted_vaults["kv-abc"] = group
    done = _run(azure, "check-subscription.sh")
    assert (done.returncode == 1) == stops
    assert (f"az keyvault recover --subscription {SUBSCRIPTION} --name kv-abc" in done.stderr) == stops


def test_a_name_that_no_resource_group_can_have(azure: Stage) -> None:
    done = _run(azure, "check-subscription.sh", AZURE_ENV_NAME="test.")
    assert (done.returncode, "cannot end with a dot" in done.stderr) == (1, True)


def test_the_app_gets_its_secrets_as_soon_as_its_role_is_in_force(azure: Stage) -> None:
    outputs = _deployed(azure)
    app = outputs["AZURE_FUNCTION_APP_NAME"]
    assert azure.cloud.fetched[app]["ROOT_ACCESS_TOKEN"].startswith("@Microsoft.KeyVault("), "it is not yet"
    done = _run(azure, "resolve-secrets.sh", **outputs)
    assert done.returncode == 0, done.stderr
    assert "waiting for ROOT_ACCESS_TOKEN" in done.stdout
    assert azure.cloud.fetched[app]["ROOT_ACCESS_TOKEN"] == GIVEN["QUEUE_NEW_ROOT_ACCESS_TOKEN"]
    asked = len(azure.called)
    assert _run(azure, "resolve-secrets.sh", **outputs).returncode == 0
    assert len(azure.called) == asked + 1, "secrets that are there are not waited for"


def test_a_secret_that_was_changed_reaches_the_app_by_a_refresh_and_not_by_a_restart(azure: Stage) -> None:
    outputs = _deployed(azure)
    app, vault = outputs["AZURE_FUNCTION_APP_NAME"], outputs["AZURE_KEY_VAULT_NAME"]
    assert _run(azure, "resolve-secrets.sh", **outputs).returncode == 0
    azure.values.update(outputs, AZURE_SUBSCRIPTION_ID=SUBSCRIPTION)
    azure.cloud.set_secret(vault, "root-access-token", "new")
    assert _run(azure, "resolve-secrets.sh").returncode == 0
    azure.run(f"az functionapp restart --resource-group {outputs['AZURE_RESOURCE_GROUP']} --name {app}")
    assert azure.cloud.fetched[app]["ROOT_ACCESS_TOKEN"] == GIVEN["QUEUE_NEW_ROOT_ACCESS_TOKEN"]
    done = _run(azure, "resolve-secrets.sh --refresh")
    assert done.returncode == 0, done.stderr
    assert azure.cloud.fetched[app]["ROOT_ACCESS_TOKEN"] == "new"
    assert azure.cloud.events[-2:] == [f"fetched secrets of {app}", f"restarted {app}"]


def test_secrets_that_stay_away_stop_the_deployment(azure: Stage) -> None:
    outputs = _deployed(azure, QUEUE_NEW_ACCESS_TOKEN_KEYS="")
    done = _run(azure, "resolve-secrets.sh", RESOLVE_TRIES="3", **outputs)
    assert (done.returncode, "ACCESS_TOKEN_KEYS\tSecretNotFound" in done.stderr) == (1, True)
    assert len([call for call in azure.called if "--method get" in call]) == 3


def _smoke(azure: Stage, codes: dict[str, list[int]], **more: str) -> subprocess.CompletedProcess[str]:
    """Runs the smoke test on an app that answers with these codes, by the end of the path; the last one stays."""
    outputs = _deployed(azure)
    azure.cloud.publish(outputs["AZURE_FUNCTION_APP_NAME"], b"")
    version = {"version": "v1", "commit": ""}

    def serve(_: str, __: Any, path: str) -> Any:
        left = codes.get(path.partition("/")[0], [200])
        return answered(left.pop(0) if len(left) > 1 else left[0], version if path == "__version__" else {})

    azure.arm.serve = serve
    return _run(azure, "smoke-test.sh", **{**outputs, "SMOKE_TRIES": "3", **more})


WORKS = {"ping": [200], "__version__": [200], "task": [404]}


@pytest.mark.parametrize("codes", [{}, {"ping": [404, 503, 200]}, {"task": [403]}])
def test_an_app_that_works(azure: Stage, codes: dict[str, list[int]]) -> None:
    done = _smoke(azure, {**WORKS, **codes}, QUEUE_APP_VERSION="v1")
    assert (done.returncode, "works" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("codes", "version", "advice"),
    [
        ({"ping": [404]}, "v1", "resolve-secrets.sh"),
        ({"ping": [403]}, "v1", "appPublicAccess"),
        ({"ping": [500]}, "v1", "AppExceptions"),
        ({"__version__": [404]}, "v1", "deploy once more"),
        ({}, "v0", "azd provision, then azd deploy"),
        ({}, "v1.1", "azd provision, then azd deploy"),
        ({"task": [503]}, "v1", "roles may need up to ten minutes"),
        ({"task": [200]}, "v1", "should be 403 or 404"),
        ({"task": [500]}, "v1", "should be 403 or 404"),
    ],
)
def test_an_app_that_does_not_work_and_what_to_do(
    azure: Stage, codes: dict[str, list[int]], version: str, advice: str
) -> None:
    done = _smoke(azure, {**WORKS, **codes}, QUEUE_APP_VERSION=version)
    assert (done.returncode, advice in done.stderr) == (1, True), done.stderr


def test_an_app_that_is_not_there(azure: Stage) -> None:
    done = _run(azure, "smoke-test.sh", TASKCLUSTER_ROOT_URL="http://127.0.0.1:9", SMOKE_TRIES="2")
    assert (done.returncode, "does not answer" in done.stderr) == (1, True)


def test_a_closed_app_is_not_asked_from_outside(azure: Stage) -> None:
    done = _smoke(azure, {"ping": [403]}, QUEUE_APP_PUBLIC_ACCESS="Disabled")
    assert (done.returncode, "Run this inside the network" in done.stdout) == (0, True)
    inside = _smoke(azure, {**WORKS, "task": [503]}, QUEUE_APP_PUBLIC_ACCESS="Disabled")
    assert inside.returncode == 1, "inside it is asked"


@pytest.mark.parametrize(
    ("hook", "prefix", "seconds"), [("resolve-secrets.sh", "RESOLVE", 600), ("smoke-test.sh", "SMOKE", 180)]
)
def test_hooks_wait_for_as_long_as_azure_may_take(hook: str, prefix: str, seconds: int) -> None:
    """Hooks wait for as long as Azure may take: ten minutes until a new role is in force, three until a new app
    answers."""
    text = (HOOKS / hook).read_text()
    pause, tries = (int(re.findall(rf"\$\{{{prefix}_{each}:-(\d+)\}}", text)[0]) for each in ("SECONDS", "TRIES"))
    assert 5 <= pause <= 60, "a question each second would be throttled"
    assert pause * tries >= seconds


def test_azure_yaml_runs_each_hook_where_it_belongs() -> None:
    """azure.yaml runs each hook where it belongs. What azd does with the file is tested with azd itself in
    test_azd.py."""
    hooks = {
        name: [each["run"].removeprefix("infra/hooks/") for each in (given if isinstance(given, list) else [given])]
        for name, given in AZURE["hooks"].items()
    }
    assert hooks == {
        "preprovision": ["apply-description.sh", "check-subscription.sh", "make-secrets.sh"],
        "postprovision": ["forget-secrets.sh", "resolve-secrets.sh"],
        "postdeploy": ["smoke-test.sh"],
        "postdown": ["say-what-stays.sh"],
    }
    assert {each for names in hooks.values() for each in names} == {path.name for path in HOOKS.iterdir()}
    assert all(path.stat().st_mode & 0o111 for path in HOOKS.iterdir())
    services = AZURE["services"]
    sites = templates.sites({**scenarios.BARE, "QUEUE_UPLOADS_APP": "true", "QUEUE_NOTIFY_APP": "true"})
    assert sites.keys() == services.keys() == {"queue", "uploads", "notify"}
    assert templates.sites(scenarios.BARE).keys() == {"queue"}
    for entry in services.values():
        assert (entry["language"], entry["host"], entry["remoteBuild"]) == ("python", "function", False)
    assert (services["uploads"]["condition"], services["uploads"]["uses"]) == ("${QUEUE_UPLOADS_APP}", ["queue"])
    assert services["notify"]["condition"] == "${QUEUE_NOTIFY_APP}"
    given = json.dumps(templates.document("main.parameters.json"))
    assert all(f"${{{name}=}}" in given for name in VARIABLES)


AZDS_OWN = {"AZURE_ENV_NAME", "AZURE_SUBSCRIPTION_ID", "AZURE_PRINCIPAL_ID", "AZURE_PRINCIPAL_TYPE"}
"""Variables of the environment that azd sets without a template."""


def test_what_is_asked_of_azd_is_an_output_of_the_templates() -> None:
    """What hooks and documents ask azd for is an output of the templates, or set by hooks."""
    found = set(re.findall(r"\$\{?(AZURE_\w+)", "".join(path.read_text() for path in HOOKS.iterdir())))
    for path in [*HOOKS.iterdir(), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md"), ROOT / "README.md"]:
        found |= set(re.findall(r"azd env get-value\s+([A-Z_]+)", path.read_text()))
    assert {"AZURE_KEY_VAULT_NAME", "AZURE_FUNCTION_APP_NAME", "TASKCLUSTER_ROOT_URL"} <= found
    outputs = templates.deployed("small, bare").outputs.keys()
    # Those of azd's environment that hooks set, or that the description has.
    assert {each for each in found - AZDS_OWN - outputs if not each.startswith("QUEUE_")} == set()
