"""The administrator's command line, as a program, against a running deployment."""

import json
import os
import re
import shlex
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shared.base.ids import new_slugid
from tests.promises.admin.command_line import run_command
from tests.promises.clients.deployment import Credentials, Deployment, a_task

# How paths travel makes no difference here.
pytestmark = pytest.mark.parametrize("deployment", [False], indirect=True, ids=["local paths"])


def run(deployment: Deployment, *arguments: str, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Runs a command, by default with the root credentials; returns exit code, output and messages."""
    chosen = {
        "TASKCLUSTER_ROOT_URL": deployment.root_url,
        "TASKCLUSTER_CLIENT_ID": deployment.root["clientId"],
        "TASKCLUSTER_ACCESS_TOKEN": deployment.root["accessToken"],
        **(environment or {}),
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TASKCLUSTER_")}
    return run_command(arguments, {**inherited, **{name: value for name, value in chosen.items() if value}})


def result(deployment: Deployment, *arguments: str, environment: Mapping[str, str] | None = None) -> Any:
    code, output, messages = run(deployment, *arguments, environment=environment)
    assert code == 0, messages
    return json.loads(output) if output else None


def variables(credentials: Credentials) -> dict[str, str]:
    return {
        "TASKCLUSTER_CLIENT_ID": credentials["clientId"],
        "TASKCLUSTER_ACCESS_TOKEN": credentials["accessToken"],
        "TASKCLUSTER_CERTIFICATE": credentials.get("certificate", ""),
    }


def test_minting_temporary_credentials(deployment: Deployment) -> None:
    client = deployment.new_client("auth:current-scopes", "a:*", "auth:create-client:test/*")
    arguments = ("mint", "-s", "auth:current-scopes", "-s", "a:1", "--expires-in", "10m")
    for name in ((), ("--name", "test/minted")):
        minted = result(deployment, *arguments, *name, environment=variables(client))
        with deployment.auth(minted) as auth:
            scopes = auth.currentScopes()["scopes"]
        assert minted["clientId"] == (name[1] if name else client["clientId"])
        assert set(scopes) == {"auth:current-scopes", "a:1", "assume:anonymous"}
        assert run(deployment, *arguments, environment=variables(minted))[0] == 1
    code, output, _ = run(deployment, *arguments, "--export", environment=variables(client))
    assert code == 0
    words = [shlex.split(line) for line in output.splitlines()]
    exported = dict(word.split("=", 1) for _, word in words)
    assert exported["TASKCLUSTER_CLIENT_ID"] == client["clientId"]
    assert run(deployment, "mint", "--expires-in", "32d")[0] == 1
    assert "'1y' is no duration" in run(deployment, "mint", "--expires-in", "1y")[2]


def load_of(deployment: Deployment, made: Mapping[str, Any], bewit: str) -> int:
    """Returns the status with which the scaler's call is answered."""
    return deployment.request("GET", f"{made['loadUrl'].removeprefix(deployment.root_url)}?bewit={bewit}").status


def test_the_clients_of_a_task_queues_workers(deployment: Deployment) -> None:
    task_queue_id = f"Some_Team/w{uuid.uuid4().hex[:12]}"
    made = result(deployment, "worker-client", "create", task_queue_id, "--expires-in", "30d")
    assert made["scopes"] == [f"queue:claim-work:{task_queue_id}", "queue:worker-id:container-apps/*"]
    token_name, bewit_name = made["secrets"]
    assert re.fullmatch(r"worker--some-1-team-2w[0-9a-f]{12}-access-token", token_name)
    assert bewit_name == token_name.replace("-access-token", "-bewit")
    bewit = made["secrets"][bewit_name]
    assert load_of(deployment, made, bewit) == 200
    assert load_of(deployment, {"loadUrl": made["loadUrl"].replace("%2F", "%2Fx")}, bewit) == 401
    worker = {"clientId": made["clientId"], "accessToken": made["secrets"][token_name]}
    task = a_task(task_queue_id)
    created = deployment.python("createTask", new_slugid(), task, service="Queue", credentials=deployment.root)
    assert created.status == 200
    for group, status in (("container-apps", 200), ("other", 403)):
        body = {"workerGroup": group, "workerId": "w", "tasks": 1}
        sent = deployment.python("claimWork", task_queue_id, body, service="Queue", credentials=worker)
        assert sent.status == status
    code, _, messages = run(deployment, "worker-client", "create", task_queue_id)
    assert (code, "worker-client rotate" in messages) == (1, True), "nobody's token is replaced by accident"

    renewed = result(deployment, "worker-client", "renew", task_queue_id)
    assert renewed["expires"] > made["expires"]
    assert load_of(deployment, made, bewit) == 200, "the same bewit"

    rotated = result(deployment, "worker-client", "rotate", task_queue_id)
    assert rotated["scopes"] == made["scopes"]
    assert rotated["expires"] >= renewed["expires"]
    assert load_of(deployment, rotated, rotated["secrets"][bewit_name]) == 200
    assert load_of(deployment, made, bewit) == 401, "the bewit ends with its client's token"


PLAYED_AZ = """#!/bin/sh
[ -z "$PLAYED_REFUSAL" ] || { echo "$PLAYED_REFUSAL" >&2; exit 1; }
while [ $# -gt 0 ]; do
    case $1 in --name) name=$2 ;; --file) file=$2 ;; --vault-name) vault=$2 ;; esac
    shift
done
cp "$file" "$PLAY/$vault.$name"
"""


def test_secrets_of_workers_go_into_a_vault_unseen(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "az").write_text(PLAYED_AZ)
    (tmp_path / "az").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PLAY", str(tmp_path))
    task_queue_id = f"some/w{uuid.uuid4().hex[:12]}"
    made = result(deployment, "worker-client", "create", task_queue_id, "--key-vault", "kv-mine")
    kept = {name: (tmp_path / f"kv-mine.{name}").read_text() for name in made["secretNames"]}
    assert set(kept) == {path.name.removeprefix("kv-mine.") for path in tmp_path.glob("kv-mine.*")}
    assert not any(secret in json.dumps(made) for secret in kept.values())
    bewit = next(secret for name, secret in kept.items() if name.endswith("-bewit"))
    assert load_of(deployment, made, bewit) == 200

    monkeypatch.setenv("PLAYED_REFUSAL", "Forbidden by the vault")
    code, output, messages = run(deployment, "worker-client", "rotate", task_queue_id, "--key-vault", "kv-mine")
    assert (code, output) == (1, "")
    assert "Forbidden by the vault" in messages
    assert "worker-client rotate" in messages, "how to go on"
