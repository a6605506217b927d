"""The hooks of azd that prepare a deployment, run with an az and an azd that play Azure."""

from __future__ import annotations

import json
import re

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from shared.base.settings import Settings
from shared.base.vault import Vault
from tests.infra import templates
from tests.infra.play import HOOKS, VAULT, Play
from tools.local import package
from tools.local.state import ROOT
from tools.local.templates import scenarios

VARIABLES = ("QUEUE_NEW_ROOT_ACCESS_TOKEN", "QUEUE_NEW_MESSAGE_SIGNING_KEYS", "QUEUE_NEW_ACCESS_TOKEN_KEYS")


def test_a_new_deployment_gets_secrets_that_the_app_takes(play: Play) -> None:
    play.set("group", "false")
    assert play.run("make-secrets.sh").returncode == 0
    made = [play.env[name] for name in VARIABLES]
    assert len(set(made)) == 3
    values = {name.lower(): value for name, value in templates.settings("small, bare").items() if value}
    values |= dict(zip(("root_access_token", "message_signing_keys", "access_token_keys"), made, strict=True))
    settings = Settings.model_validate(values)
    assert settings.root_access_token.get_secret_value() == made[0]
    vault = Vault([key.get_secret_value() for key in settings.access_token_keys])
    assert vault.open("client", vault.seal("client", "token")) == "token"


def test_secrets_are_new_at_each_run(play: Play) -> None:
    play.set("group", "false")
    play.run("make-secrets.sh")
    first = play.env
    play.run("make-secrets.sh")
    assert all(first[name] != play.env[name] for name in VARIABLES)


def test_secrets_of_another_deployment_are_taken_over(play: Play) -> None:
    """After the loss of a region: claims and clients go on with them."""
    play.set("group", "false")
    given = {"QUEUE_NEW_ACCESS_TOKEN_KEYS": "the-old-keys"}
    assert play.run("make-secrets.sh", **given).returncode == 0
    assert "QUEUE_NEW_ACCESS_TOKEN_KEYS" not in play.env, "azd's environment keeps what it has"
    assert play.env["QUEUE_NEW_ROOT_ACCESS_TOKEN"]


def test_what_the_vault_has_is_never_made_again(play: Play) -> None:
    assert play.run("make-secrets.sh").returncode == 0
    assert play.env == dict.fromkeys(VARIABLES, "")


def test_only_what_is_missing_is_made(play: Play) -> None:
    play.set("secrets", "root-access-token", "access-token-keys")
    assert play.run("make-secrets.sh").returncode == 0
    assert [name for name in VARIABLES if play.env[name]] == ["QUEUE_NEW_MESSAGE_SIGNING_KEYS"]


def test_a_vault_that_is_not_there_yet(play: Play) -> None:
    play.set("vaults")
    assert play.run("make-secrets.sh").returncode == 0
    assert all(play.env[name] for name in VARIABLES)


@pytest.mark.parametrize("trouble", ["throttled", "no vaults", "no group", "two vaults"])
def test_in_doubt_nothing_is_made(play: Play, trouble: str) -> None:
    match trouble:
        case "throttled":
            play.set("throttled")
        case "no vaults":
            (play.folder / "vaults").unlink()
        case "no group":
            (play.folder / "group").unlink()
        case _:
            play.set("vaults", VAULT, f"{VAULT}2")
    done = play.run("make-secrets.sh")
    assert done.returncode == 1
    assert "make-secrets:" in done.stderr
    assert not any(play.env.values())


def test_the_environment_forgets_them(play: Play) -> None:
    play.set("group", "false")
    play.run("make-secrets.sh")
    assert play.run("forget-secrets.sh").returncode == 0
    assert play.env == dict.fromkeys(VARIABLES, "")


def test_a_subscription_that_is_ready(play: Play) -> None:
    done = play.run("check-subscription.sh")
    assert (done.returncode, done.stderr) == (0, "")
    assert not [call for call in play.calls if call.startswith("provider register")]


@pytest.mark.parametrize(
    ("location", "profile", "works"),
    [
        ("westeurope", "small", True),
        ("eastus2", "small", True),
        ("East US 2", "large", True),
        ("westeurope", "large", False),
        ("moon", "small", False),
    ],
)
def test_the_region_has_to_offer_the_plan(play: Play, location: str, profile: str, works: bool) -> None:
    done = play.run("check-subscription.sh", AZURE_LOCATION=location, QUEUE_PROFILE=profile)
    assert (done.returncode == 0) == works
    assert works or f"cannot run in {location}" in done.stderr


def test_the_provider_of_the_subnet_is_registered(play: Play) -> None:
    play.set("provider", "NotRegistered")
    assert play.run("check-subscription.sh").returncode == 0
    assert play.calls[-2] == "provider register --subscription s --namespace Microsoft.App --wait"
    play.set("forbidden")
    done = play.run("check-subscription.sh")
    assert done.returncode == 1
    assert "have an owner of the subscription run" in done.stderr


def test_a_deleted_vault_stops_a_new_one(play: Play) -> None:
    play.set("deleted", "kv-abc")
    done = play.run("check-subscription.sh")
    assert done.returncode == 1
    assert "az keyvault recover --subscription s --name kv-abc" in done.stderr
    asked = next(call for call in play.calls if call.startswith("keyvault list-deleted"))
    assert "/resourceGroups/rg-test/" in asked


def test_a_name_that_no_resource_group_can_have(play: Play) -> None:
    done = play.run("check-subscription.sh", AZURE_ENV_NAME="test.")
    assert done.returncode == 1
    assert "cannot end with a dot" in done.stderr


def test_what_stays_after_a_deployment_is_taken_down(play: Play) -> None:
    done = play.run("say-what-stays.sh", AZURE_KEY_VAULT_NAME="kv-abc", AZURE_RESOURCE_GROUP="rg-test")
    assert "az keyvault recover --name kv-abc" in done.stdout


def _hooks() -> dict[str, list[str]]:
    document = yaml.safe_load((ROOT / "azure.yaml").read_text())
    return {
        name: [each["run"] for each in (hooks if isinstance(hooks, list) else [hooks])]
        for name, hooks in document["hooks"].items()
    }


def test_azure_yaml_runs_them() -> None:
    hooks = _hooks()
    assert hooks == {
        "preprovision": [
            "infra/hooks/apply-description.sh",
            "infra/hooks/check-subscription.sh",
            "infra/hooks/make-secrets.sh",
        ],
        "postprovision": ["infra/hooks/forget-secrets.sh", "infra/hooks/resolve-secrets.sh"],
        "postdeploy": ["infra/hooks/smoke-test.sh"],
        "postdown": ["infra/hooks/say-what-stays.sh"],
    }
    used = {path for paths in hooks.values() for path in paths}
    assert used == {str(path.relative_to(ROOT)) for path in HOOKS.iterdir()}
    for path in used:
        assert (ROOT / path).stat().st_mode & 0o111


def test_azure_yaml_deploys_the_package_that_is_made_here() -> None:
    """Never what a build in Azure makes: that has taken another Python than the app's."""
    document = yaml.safe_load((ROOT / "azure.yaml").read_text())
    services = document["services"]
    sites = templates.sites({**scenarios.BARE, "QUEUE_UPLOADS_APP": "true"})
    assert sites.keys() == services.keys() == {"queue", "uploads"}
    assert templates.sites(scenarios.BARE).keys() == {"queue"}
    for entry in services.values():
        assert (entry["language"], entry["host"], entry["remoteBuild"]) == ("custom", "function", False)
        assert entry["dist"] == f"dist/{package.PACKAGE}"
    assert services["queue"]["hooks"]["prepackage"]["run"] == "./dev package --output dist"
    assert (services["uploads"]["condition"], services["uploads"]["uses"]) == ("${QUEUE_UPLOADS_APP}", ["queue"])
    infra = document["infra"]
    assert (ROOT / infra["path"] / f"{infra['module']}.bicep").exists()
    assert document["metadata"]["template"].startswith("taskcluster-queue-on-azure@")
    given = json.dumps(templates.document("main.parameters.json"))
    assert all(f"${{{name}=}}" in given for name in VARIABLES)


AZDS_OWN = {"AZURE_ENV_NAME", "AZURE_SUBSCRIPTION_ID", "AZURE_PRINCIPAL_ID", "AZURE_PRINCIPAL_TYPE"}
"""Variables of the environment that azd sets without a template."""


def _asked_for() -> set[str]:
    """Variables of azd's environment that hooks and documents read."""
    hooks = "".join(path.read_text() for path in HOOKS.iterdir())
    found = set(re.findall(r"\$\{?(AZURE_\w+)", hooks))
    for path in [*HOOKS.iterdir(), *(ROOT / "docs").glob("*.md"), *ROOT.glob("*/README.md"), ROOT / "README.md"]:
        found |= set(re.findall(r"azd env get-value\s+([A-Z_]+)", path.read_text()))
    return found


def test_what_is_asked_of_azd_is_an_output_of_the_templates() -> None:
    asked = _asked_for()
    assert {"AZURE_KEY_VAULT_NAME", "AZURE_FUNCTION_APP_NAME", "TASKCLUSTER_ROOT_URL"} <= asked
    assert asked - AZDS_OWN - templates.deployed("small, bare").outputs.keys() == set()
