"""The hooks of azd, run with an az and an azd that play Azure."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from local.state import ROOT
from shared.settings import Settings
from shared.vault import Vault
from tests.infra import bicep, deployment

HOOKS = bicep.INFRA / "hooks"
VARIABLES = ("QUEUE_NEW_ROOT_ACCESS_TOKEN", "QUEUE_NEW_MESSAGE_SIGNING_KEYS", "QUEUE_NEW_ACCESS_TOKEN_KEYS")
VAULT = "/subscriptions/s/resourceGroups/rg-test/providers/Microsoft.KeyVault/vaults/kv-abc"

_AZD = """#!/bin/sh
[ "$1 $2" = "env set" ] || exit 9
printf '%s=%s\\n' "$3" "$4" >> "$PLAY/env"
"""
_AZ = """#!/bin/sh
case "$1 $2" in
"group exists") cat "$PLAY/group" ;;
"resource list") [ -e "$PLAY/vaults" ] && cat "$PLAY/vaults" || exit 1 ;;
"resource show")
    [ "$3" = --ids ] || exit 9
    secret=${4##*/}
    if [ -e "$PLAY/throttled" ]; then echo "ERROR: (TooManyRequests) later" >&2; exit 1; fi
    if grep -qx "$secret" "$PLAY/secrets"; then echo "\\"$secret\\""; else
        echo "ERROR: (SecretNotFound) A secret with (name/id) $secret was not found in this key vault." >&2; exit 3
    fi ;;
*) exit 9 ;;
esac
"""


@dataclass
class Play:
    """The stage: a folder with what Azure has."""

    folder: Path

    def set(self, name: str, *lines: str) -> None:
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))

    def run(self, hook: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "PLAY": str(self.folder),
            "AZURE_ENV_NAME": "test",
            "AZURE_SUBSCRIPTION_ID": "s",
        }
        return subprocess.run(
            ["sh", str(HOOKS / hook)], env=environment, capture_output=True, text=True, check=False, timeout=30
        )

    @property
    def env(self) -> dict[str, str]:
        path = self.folder / "env"
        lines = path.read_text().splitlines() if path.exists() else []
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def play(tmp_path: Path) -> Play:
    for name, script in (("az", _AZ), ("azd", _AZD)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    made = Play(tmp_path)
    made.set("group", "true")
    made.set("vaults", VAULT)
    made.set("secrets", "root-access-token", "message-signing-keys", "access-token-keys")
    return made


def test_a_new_deployment_gets_secrets_that_the_app_takes(play: Play) -> None:
    play.set("group", "false")
    assert play.run("make-secrets.sh").returncode == 0
    made = [play.env[name] for name in VARIABLES]
    assert len(set(made)) == 3
    values = {name.lower(): value for name, value in deployment.settings("small").items() if value}
    values |= dict(zip(("root_access_token", "message_signing_keys", "access_token_keys"), made, strict=True))
    settings = Settings.model_validate(values)
    assert settings.root_access_token.get_secret_value() == made[0]
    vault = Vault([key.get_secret_value() for key in settings.access_token_keys])
    assert vault.open("client", vault.seal("client", "token")) == "token"


def test_no_two_are_alike(play: Play) -> None:
    play.set("group", "false")
    play.run("make-secrets.sh")
    first = play.env
    play.run("make-secrets.sh")
    assert all(first[name] != play.env[name] for name in VARIABLES)


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


def test_azure_yaml_runs_them_and_names_the_service_as_the_templates_do() -> None:
    document = yaml.safe_load((ROOT / "azure.yaml").read_text())
    hooks = {name: hook["run"] for name, hook in document["hooks"].items()}
    assert hooks == {
        "preprovision": "infra/hooks/make-secrets.sh",
        "postprovision": "infra/hooks/forget-secrets.sh",
    }
    for path in hooks.values():
        assert (ROOT / path).stat().st_mode & 0o111
    ((service, entry),) = document["services"].items()
    assert f"'azd-service-name': '{service}'" in (bicep.INFRA / "modules" / "app.bicep").read_text()
    assert (entry["language"], entry["host"], entry["remoteBuild"]) == ("python", "function", True)
    infra = document["infra"]
    assert (ROOT / infra["path"] / f"{infra['module']}.bicep").exists()
    given = json.dumps(bicep.document("main.parameters.json"))
    assert all(f"${{{name}=}}" in given for name in VARIABLES)
