"""A stage for the hooks of azd: an az and an azd that play Azure."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.infra import templates
from tools.local.state import ROOT

HOOKS = templates.INFRA / "hooks"
VAULT = "/subscriptions/s/resourceGroups/rg-test/providers/Microsoft.KeyVault/vaults/kv-abc"

_AZD = """#!/bin/sh
case "$1 $2" in
"env set") printf '%s=%s\\n' "$3" "$4" >> "$PLAY/env" ;;
"env get-value") echo "$ROOT_OF_PLAY" ;;
*) exit 9 ;;
esac
"""
_AZ = """#!/bin/sh
echo "$*" >> "$PLAY/calls"
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
"account show") echo "\\"$(cat "$PLAY/account")\\"" ;;
"identity list") cat "$PLAY/identities" ;;
"role assignment") echo "{}" ;;
"ad signed-in-user") echo '"the-person"' ;;
"deployment sub")
    case $3 in
    what-if)
        for word; do case $word in @*) cp "${word#@}" "$PLAY/asked" ;; esac; done
        cat "$PLAY/what-if" ;;
    list) cat "$PLAY/deployments-of-azure" ;;
    esac ;;
"functionapp list-flexconsumption-locations")
    case $* in *--zone-redundant*) cat "$PLAY/zones" ;; *) cat "$PLAY/regions" ;; esac ;;
"provider show") cat "$PLAY/provider" ;;
"provider register") [ ! -e "$PLAY/forbidden" ] || exit 1 ;;
"keyvault list-deleted") cat "$PLAY/deleted" ;;
"rest --method")
    [ "$3" = get ] || exit 0
    # Each question takes one line of what is to be answered; the last one stays.
    head -n 1 "$PLAY/references" | tr '|' '\\n'
    [ "$(wc -l < "$PLAY/references")" -le 1 ] || sed -i 1d "$PLAY/references" ;;
*) exit 9 ;;
esac
"""


@dataclass
class Play:
    """The stage: a folder with what Azure has."""

    folder: Path

    def set(self, name: str, *lines: str) -> None:
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))

    def run(self, hook: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self._run(["sh", str(HOOKS / hook)], more)

    def deployments(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """`python3 -m tools.local.deployments`, with this stage's descriptions."""
        folder = str(self.folder / "deployments")
        return self._run([sys.executable, "-m", "tools.local.deployments", "--folder", folder, *arguments], more)

    def _run(self, command: list[str], more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "PLAY": str(self.folder),
            "AZURE_ENV_NAME": "test",
            "AZURE_SUBSCRIPTION_ID": "s",
            "AZURE_LOCATION": "westeurope",
            "QUEUE_DEPLOYMENTS": str(self.folder / "deployments"),
            **more,
        }
        return subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
        )

    @property
    def calls(self) -> list[str]:
        """What az was called with."""
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def env(self) -> dict[str, str]:
        path = self.folder / "env"
        lines = path.read_text().splitlines() if path.exists() else []
        return dict(line.split("=", 1) for line in lines)


def stage(folder: Path) -> Play:
    """A stage on which everything is in place."""
    for name, script in (("az", _AZ), ("azd", _AZD)):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    made = Play(folder)
    made.set("group", "true")
    made.set("vaults", VAULT)
    made.set("secrets", "root-access-token", "message-signing-keys", "access-token-keys")
    made.set("account", "user")
    made.set("regions", "westeurope", "East US 2")
    made.set("zones", "eastus2")
    made.set("provider", "Registered")
    made.set("deleted")
    made.set("references", "")
    return made
