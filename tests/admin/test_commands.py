"""The commands as programs, on a running stack; and every command of docs/operations.md."""

from __future__ import annotations

import base64
import datetime
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import taskcluster

from admin.key_commands import KINDS
from local.stack import Stack
from local.state import ROOT
from shared.auth.vault import Vault

GUIDE = ROOT / "docs" / "operations.md"
PLAYED = ("az", "azd", "azcopy", "gh")
OLD_KEY = base64.urlsafe_b64encode(b"an old secret that the vault has").decode()
_PLAY = f"""#!/bin/sh
echo "$(basename "$0") $*" >> "$PLAY"
case "$*" in "keyvault secret show"*) echo {OLD_KEY} ;; esac
"""


class Operator:
    """Somebody with a shell, the root client and the storage account."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("TASKCLUSTER_", "AZURE"))
        }
        self.environment = {**inherited, **stack.environment}
        self.folder = folder
        root = {
            "clientId": stack.environment["TASKCLUSTER_CLIENT_ID"],
            "accessToken": stack.environment["TASKCLUSTER_ACCESS_TOKEN"],
        }
        self._options = {"rootUrl": stack.environment["TASKCLUSTER_ROOT_URL"], "credentials": root}
        self.pool = f"admin/p{uuid.uuid4().hex[:12]}"

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        """Exit code, output and messages of a command."""
        done = subprocess.run(
            [sys.executable, "-m", "admin", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=ROOT,
            env={**self.environment, **(environment or {})},
        )
        return done.returncode, done.stdout, done.stderr

    def result(self, *arguments: str) -> Any:
        code, output, messages = self.run(*arguments)
        assert code == 0, messages
        return json.loads(output)

    def queue(self) -> Any:
        """The public client."""
        return taskcluster.Queue(self._options)

    def create(self) -> str:
        task_id: str = taskcluster.slugId()
        now = datetime.datetime.now(datetime.UTC)
        self.queue().createTask(
            task_id,
            {
                "taskQueueId": self.pool,
                "created": now.isoformat(),
                "deadline": (now + datetime.timedelta(hours=1)).isoformat(),
                "payload": {},
                "metadata": {
                    "name": "a",
                    "description": "b",
                    "owner": "c@example.com",
                    "source": "https://example.com",
                },
            },
        )
        return task_id

    def claim(self) -> Any:
        return self.queue().claimWork(self.pool, {"workerGroup": "g", "workerId": "w", "tasks": 1})["tasks"]


@pytest.fixture
def operator(stack: Stack, tmp_path: Path) -> Operator:
    return Operator(stack, tmp_path)


def test_tasks_and_groups(operator: Operator) -> None:
    task_id = operator.create()
    assert operator.result("task", "check", task_id, "--at-rest") == {}
    assert operator.result("group", "check", task_id) == {}
    code, output, _ = operator.run("task", "check", taskcluster.slugId())
    assert code == 1
    ((finding,),) = json.loads(output).values()
    assert finding == {"finding": "there is no such task", "repairable": False, "repaired": False}
    code, _, messages = operator.run("task", "check")
    assert (code, messages) == (1, "name tasks, or say --all\n")


def test_quarantine_drain_and_refill(operator: Operator) -> None:
    first, second = operator.create(), operator.create()
    assert len(operator.claim()) == 1
    state = operator.result("pool", "drain", operator.pool, "--reason", "test", "--cancel-pending")
    assert (state["pending"], state["claimed"]) == (0, 1)
    assert [(worker["worker"], worker["quarantined"]) for worker in state["workers"]] == [("g/w", True)]
    states = {operator.queue().status(task_id)["status"]["state"] for task_id in (first, second)}
    assert states == {"running", "exception"}, "what runs goes on, what waited was cancelled"
    state = operator.result("pool", "refill", operator.pool)
    assert [worker["quarantined"] for worker in state["workers"]] == [False]
    worker = operator.result("worker", "quarantine", operator.pool, "g", "w", "--reason", "bad disk", "--for", "1h")
    assert worker["quarantineDetails"][-1]["quarantineInfo"] == "bad disk"
    assert operator.result("pool", "show", operator.pool)["workers"][0]["quarantined"]
    operator.result("worker", "release", operator.pool, "g", "w")
    assert not operator.result("pool", "show", operator.pool)["workers"][0]["quarantined"]


def test_queues(operator: Operator) -> None:
    entries = {entry["queue"]: entry for entry in operator.result("queue", "list")}
    assert set(entries) == {"claim", "deadline", "resolved", "events", "group-jobs"}
    for words in (("list",), ("redrive",), ("drop", "--all")):
        code, _, messages = operator.run("queue", "poison", words[0], "pending-x-1", *words[1:])
        assert code == 1
        assert "there is no queue 'pending-x-1'" in messages
    assert operator.run("queue", "poison", "drop", "claim")[0] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_keys(operator: Operator, kind: str) -> None:
    code, output, _ = operator.run("key", "new", kind)
    assert code == 0
    value = output.strip()
    assert value != operator.run("key", "new", kind)[1].strip()
    if kind == "access-token-keys":
        Vault([value])
    else:
        assert re.fullmatch(r"[A-Za-z0-9_-]{44}", value)
    code, output, _ = operator.run("key", "new", kind, "--before", OLD_KEY)
    assert code == (1 if kind == "root-access-token" else 0)
    assert output.strip().endswith("" if code else f",{OLD_KEY}")


@pytest.mark.parametrize("kind", ["message-signing-keys", "access-token-keys"])
def test_an_empty_answer_of_the_vault_is_not_taken_for_no_old_keys(operator: Operator, kind: str) -> None:
    for before in ("", f"{OLD_KEY},", *(["short"] if kind == "access-token-keys" else [])):
        code, output, messages = operator.run("key", "new", kind, "--before", before)
        assert (code, output) == (1, "")
        assert "--before" in messages


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "STORAGE_ACCOUNT_NAME is not set"),
        ({}, "For the local stack: ./dev up --detach"),
        ({"STORAGE_CONNECTION_STRING": "nonsense"}, "the storage connection string has no AccountName"),
        (
            {
                "STORAGE_CONNECTION_STRING": f"AccountName=a;AccountKey={base64.b64encode(b'k').decode()};QueueEndpoint=http://127.0.0.1:9/a"
            },
            "the storage account cannot be reached: Cannot connect to host 127.0.0.1:9",
        ),
        ({"STORAGE_ACCOUNT_NAME": "abc"}, "nobody is signed in who could read the storage account: run `az login`"),
    ],
    ids=["none", "none, locally", "nonsense", "nobody there", "nobody signed in"],
)
def test_what_is_missing_is_said(operator: Operator, environment: dict[str, str], message: str) -> None:
    code, output, messages = operator.run(
        "queue", "list", environment={"AZURE_STORAGE_CONNECTION_STRING": "", **environment}
    )
    assert (code, output) == (1, "")
    assert message in messages
    assert len(messages.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TASKCLUSTER_ROOT_URL", "", "For the local stack: ./dev up --detach"),
        ("TASKCLUSTER_ACCESS_TOKEN", "", "For the local stack: ./dev up --detach"),
        ("TASKCLUSTER_ROOT_URL", "127.0.0.1:9", "begins with https:// (or http://), not '127.0.0.1:9'"),
        ("TASKCLUSTER_ROOT_URL", "http://127.0.0.1:9", "http://127.0.0.1:9 cannot be reached: Connection refused"),
    ],
)
def test_a_deployment_that_is_not_there_is_said(operator: Operator, name: str, value: str, message: str) -> None:
    code, output, messages = operator.run("whoami", environment={name: value})
    assert (code, output) == (1, "")
    assert message in messages
    assert len(messages.splitlines()) == 1


@pytest.mark.parametrize("name", [None, "./dev admin"])
def test_the_help_has_the_name_that_was_typed(operator: Operator, name: str | None) -> None:
    code, output, _ = operator.run("task", "check", "--help", environment={"STARTED_AS": name} if name else None)
    assert code == 0
    assert output.startswith(f"Usage: {name or 'python -m admin'} task check [OPTIONS] [TASK_ID]...\n")
    assert "<bool>" not in output


def blocks() -> list[str]:
    """The shell commands of the guide, block by block."""
    return re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_guide_run(operator: Operator) -> None:
    """One block after the other, as an operator would; Azure's own tools are stood in for."""
    tools = operator.folder / "tools"
    tools.mkdir()
    for name in PLAYED:
        (tools / name).write_text(_PLAY)
        (tools / name).chmod(0o755)
    task_id = operator.create()
    assert operator.claim()
    operator.result("client", "create", "test/guide", "--expires-in", "1h")
    given = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PLAY": str(operator.folder / "played"),
        "TASK_ID": task_id,
        "GROUP_ID": task_id,
        "POOL": operator.pool,
        "WORKER_GROUP": "g",
        "WORKER_ID": "w",
        "CLIENT_ID": "test/guide",
        "FOLDER": str(operator.folder / "backup"),
        "STORAGE_ACCOUNT": "st",
        "GROUP": "rg",
        "APP": "func",
        "VAULT": "kv",
        "RUN_ID": "1",
    }
    for block in blocks():
        script = block.replace("./dev package", "true").replace("python -m admin", f"{sys.executable} -m admin")
        script = script.replace("backup restore", "backup restore --overwrite")  # the guide's account is a fresh one
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=ROOT,
            env={**operator.environment, **given},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    played = (operator.folder / "played").read_text()
    rotated = re.findall(r"--name ([a-z-]+) --value (\S+)", played)
    assert ("root-access-token-previous", OLD_KEY) in rotated
    values = dict(rotated)
    assert re.fullmatch(r"[A-Za-z0-9_-]{44}", values["root-access-token"])
    for name in ("message-signing-keys", "access-token-keys"):
        assert re.fullmatch(rf"[A-Za-z0-9_=-]{{44}},{OLD_KEY}", values[name])
    assert operator.queue().status(task_id)["status"]["state"] == "running"


def test_a_deployment_that_lives_is_not_restored_over(operator: Operator) -> None:
    task_id, folder = operator.create(), str(operator.folder / "backup")
    operator.result("backup", "export", folder)
    assert operator.claim()
    code, _, messages = operator.run("backup", "restore", folder)
    assert code == 1
    assert "Tasks" in messages
    assert "--overwrite" in messages
    assert operator.queue().status(task_id)["status"]["state"] == "running"
    code, _, messages = operator.run("backup", "export", folder)
    assert code == 1
    assert "has an export of" in messages


def test_the_guide_names_every_alert_and_every_group_of_commands() -> None:
    text = GUIDE.read_text()
    alerts = (ROOT / "infra" / "modules" / "alerts.bicep").read_text()
    for name in {*re.findall(r"name: '([a-z-]+)'\n    title", alerts), *re.findall(r"prefix\}-([a-z-]+)'", alerts)}:
        assert f"| `{name}` |" in text, name
    used = set(re.findall(r"python -m admin ([a-z]+)", text))
    assert {"task", "group", "queue", "worker", "pool", "backup", "key", "client"} <= used


def test_the_guide_rotates_every_secret() -> None:
    kept = set(re.findall(r"secrets/([a-z-]+)\)", (ROOT / "infra" / "modules" / "app.bicep").read_text()))
    text = GUIDE.read_text()
    for name in kept - {"root-access-token-previous"}:
        assert f"| `{name}` |" in text, name
