"""What azd runs around a deployment: its description, and what each hook calls, says and ends with, by situation."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml  # type: ignore[import-untyped]  # comes without types

from tests.infra.kept.differences import leaves
from tools.local.state import ROOT

_PLAY = """
exec 3>&1
called() { echo "$*" >&3; }
sleep() { called sleep "$@"; }
openssl() { called openssl "$@"; echo "a+/b="; }
next() { head -n 1 "$1"; sed -i 1d "$1"; }
azd() { called azd "$@"; case "$1 $2" in "env get-value") echo "https://queue.example.com/" ;; esac; }
curl() {
    called curl "$@"
    while [ $# -gt 1 ]; do case $1 in --output) echo "$ANSWER" > "$2" ;; esac; shift; done
    next "$FOLDER/codes"
}
mktemp() { echo "$FOLDER/answer"; }
az() {
    called az "$@"
    case "$1 $2" in
    "functionapp list-flexconsumption-locations") echo "$REGIONS" ;;
    "provider show") echo "$PROVIDER" ;;
    "keyvault list-deleted") echo "$DELETED" ;;
    "group exists") echo "$GROUP" ;;
    "resource list") echo "/vaults/kv" ;;
    "resource show") case "$SECRETS" in *"${4##*/}"*) ;; *) echo "$TROUBLE"; return 1 ;; esac ;;
    "rest --method") case $4$3 in *get) next "$FOLDER/waiting" ;; esac ;;
    esac
}
"""
_PYTHON = """#!/bin/sh
echo "${0##*/} $*" >> "$FOLDER/said"
case " $OLD " in *" ${0##*/} "*) exit 1 ;; esac
"""
PYTHONS = ("python3", "python3.13", "python3.12", "python3.11")
ALL = {
    "OLD": "",
    "AZURE_ENV_NAME": "test",
    "AZURE_LOCATION": "West Europe",
    "AZURE_SUBSCRIPTION_ID": "(subscription)",
    "AZURE_RESOURCE_GROUP": "rg-test",
    "AZURE_FUNCTION_APP_NAME": "func-test",
    "AZURE_KEY_VAULT_NAME": "kv",
    "REGIONS": "westeurope\nnortheurope",
    "PROVIDER": "Registered",
    "GROUP": "true",
    "DELETED": "",
    "SECRETS": "root-access-token message-signing-keys access-token-keys",
    "TROUBLE": "SecretNotFound",
    "ANSWER": '{"version": "v1"}',
    "codes": "200\n200\n404",
}
SITUATIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "apply-description.sh": {
        "the first Python will do": {"QUEUE_DEPLOYMENTS": "(descriptions)"},
        "the first Python is too old": {"OLD": "python3"},
        "none will do": {"OLD": "python3 python3.13 python3.12 python3.11"},
    },
    "check-subscription.sh": {
        "ready": {},
        "large": {"QUEUE_PROFILE": "large"},
        "another region": {"AZURE_LOCATION": "mars"},
        "no list of regions": {"REGIONS": ""},
        "a name that ends with a dot": {"AZURE_ENV_NAME": "test."},
        "new to the provider": {"PROVIDER": "NotRegistered"},
        "a deleted vault": {"DELETED": "kv", "AZURE_RESOURCE_GROUP": ""},
    },
    "make-secrets.sh": {
        "first": {"GROUP": "false", "AZURE_RESOURCE_GROUP": ""},
        "again": {},
        "one is missing": {"SECRETS": "root-access-token access-token-keys"},
        "another deployment's": {"SECRETS": "", "QUEUE_NEW_ACCESS_TOKEN_KEYS": "given"},
        "throttled": {"SECRETS": "", "TROUBLE": "TooManyRequests"},
    },
    "forget-secrets.sh": {"always": {}},
    "resolve-secrets.sh": {
        "at once": {"waiting": "\n"},
        "after a while": {"waiting": "A\tAccessToKeyVaultDenied\n\n"},
        "never": {"waiting": "A\tSecretNotFound\n" * 9, "RESOLVE_TRIES": "2"},
    },
    "smoke-test.sh": {
        "it works": {"QUEUE_APP_VERSION": "v1"},
        "it comes up": {"codes": "000\n503\n200\n200\n403"},
        "it never comes up": {"codes": "000\n000\n", "SMOKE_TRIES": "2"},
        "closed": {"QUEUE_APP_PUBLIC_ACCESS": "Disabled", "codes": "403"},
        "closed, from inside": {"QUEUE_APP_PUBLIC_ACCESS": "Disabled", "codes": "200\n200\n200\n404"},
        "refused": {"codes": "403", "SMOKE_TRIES": "1"},
        "no functions": {"codes": "404", "SMOKE_TRIES": "1"},
        "broken": {"codes": "500", "SMOKE_TRIES": "1"},
        "no version": {"codes": "200\n500"},
        "another version": {"QUEUE_APP_VERSION": "v2"},
        "no tables": {"codes": "200\n200\n503"},
        "a task out of nothing": {"codes": "200\n200\n200"},
    },
    "say-what-stays.sh": {"always": {}},
}


def text() -> str:
    """All of it."""
    azure = yaml.safe_load((ROOT / "azure.yaml").read_text())
    parts = ["## azure.yaml\n", *(f"    {path} = {value}\n" for path, value in leaves(azure))]
    script = [_PLAY]
    titles: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for python in PYTHONS:
            (Path(name) / python).write_text(_PYTHON)
            (Path(name) / python).chmod(0o755)
        for hook, situations in SITUATIONS.items():
            for situation, given in situations.items():
                folder = Path(name) / str(len(titles))
                folder.mkdir()
                titles.append(f"{hook}: {situation}")
                values = {**ALL, **given}
                for file in ("codes", "waiting"):
                    (folder / file).write_text(values.pop(file, ""))
                sets = " ".join(shlex.quote(f"{key}={value}") for key, value in values.items())
                script.append(
                    f"( exec 3>>{folder}/said 2>&3 >&3; export FOLDER={folder} {sets}; . {ROOT}/infra/hooks/{hook} )"
                )
                script.append(f"echo ends with $? >> {folder}/said")
        subprocess.run(
            ["sh", "-c", "\n".join(script)],
            env={"PATH": f"{name}{os.pathsep}{os.environ['PATH']}"},
            check=True,
            capture_output=True,
            timeout=60,
        )
        for index, title in enumerate(titles):
            folder = Path(name) / str(index)
            said = (folder / "said").read_text().replace(str(folder), "(folder)")
            parts += [f"## {title}\n", *(f"    {line}\n" for line in said.splitlines())]
    return "".join(parts)
