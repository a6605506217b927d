"""A backup is one that can be restored: the drill restores one into a second stack, and notices what is missing."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types
from taskcluster.exceptions import TaskclusterRestFailure

from shared.app.entities import TABLES
from tests.admin.command_line import run_command
from tests.admin.operators import Operator
from tests.local.stacks import free_ports
from tools.local import drill, state
from tools.local.state import ROOT


def _in_this_process(command: Sequence[str], *, env: Mapping[str, str], **_: object) -> CompletedProcess[str]:
    """A step of the drill: five new interpreters would take as long as all that the steps do."""
    return CompletedProcess(command, *run_command(command[command.index("tools.admin") + 1 :], env))


def _drilled(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Exit code, output and messages of `./dev drill`, which an operator runs with the names of the account, too."""
    named = {"STORAGE_ACCOUNT_NAME": "stqueue", "SERVICEBUS_NAMESPACE": "sb-queue"}
    with monkeypatch.context() as patch:
        for name in drill.OF_THE_DEPLOYMENT:
            patch.delenv(name, raising=False)
        for name, value in {**operator.environment, **named}.items():
            patch.setenv(name, value)
        patch.setattr("sys.argv", ["drill", *arguments])
        code = drill.main()
    return code, *capsys.readouterr()


def test_a_deployment_comes_back_on_another_stack(
    operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tools.local.drill.subprocess.run", _in_this_process)
    waiting = operator.create()
    done = operator.create(payload={"large": secrets.token_hex(900_000)})
    (claim,) = operator.claim()
    running = claim["status"]["taskId"]
    (claim,) = operator.claim()
    operator.queue().reportCompleted(claim["status"]["taskId"], claim["runId"])
    operator.auth().createRole("drilled", {"description": "", "scopes": ["a:b"]})
    port = free_ports().api
    arguments = ("--into", str(port), "--folder", str(tmp_path / "backup"))
    code, output, messages = _drilled(operator, monkeypatch, capsys, *arguments)
    assert code == 0, messages
    found = json.loads(output)
    assert found["entities"].keys() == set(TABLES)
    assert found["entities"]["Tasks"] >= 4
    assert found["definitions"] >= 1, "a large definition is a blob"
    assert found["compared"] >= 2
    assert found["differences"] == []
    assert {"export", "restore", "repair", "check", "start", "compare", "a new task"} <= found["seconds"].keys()
    assert {waiting, done} == {running, claim["status"]["taskId"]} <= set(drill.task_ids(tmp_path / "backup"))
    assert not state.folder(port).exists()
    assert operator.queue().status(running)["status"]["state"] == "running", "the deployment is left alone"


def _look(state_: str, definition: str = "a") -> drill.Look:
    return lambda: ({"state": state_}, {"payload": definition})


def _missing() -> Any:
    raise TaskclusterRestFailure("no such task", None, status_code=404)


@pytest.mark.parametrize(
    ("restored", "original", "says"),
    [
        (_look("completed"), _look("completed"), ""),
        (_look("running"), _look("completed"), ""),
        (_look("completed"), None, ""),
        (_look("completed"), _missing, ""),
        (_missing, _look("completed"), "404 after the restore"),
        (_missing, None, "404 after the restore"),
        (_look("completed"), _look("failed"), "was failed, and is completed"),
        (_look("pending", "b"), _look("pending"), "another definition"),
    ],
)
def test_what_differs_is_named(restored: drill.Look, original: drill.Look | None, says: str) -> None:
    found = list(drill.differences("t", restored, original))
    assert len(found) == (1 if says else 0)
    assert not says or says in found[0]


def test_the_nightly_export_copies_what_a_restore_needs(operator: Operator, tmp_path: Path) -> None:
    """The step of the workflow, with azcopy played."""
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "backup.yml").read_text())["jobs"]["backup"]["steps"]
    (script,) = (each["run"] for each in steps if "backup export" in each.get("run", ""))
    (tmp_path / "azcopy").write_text('#!/bin/sh\necho "$*" >> "$PLAY"\nls $2 >> "$PLAY.files" 2>/dev/null || true\n')
    (tmp_path / "azcopy").chmod(0o755)
    environment = {
        **operator.environment,
        "PATH": f"{tmp_path}{os.pathsep}{operator.environment['PATH']}",
        "PLAY": str(tmp_path / "played"),
        "RUNNER_TEMP": str(tmp_path),
        "QUEUE_BACKUP_ACCOUNT": "stbackup",
        "STORAGE_ACCOUNT_NAME": "stqueue",
    }
    shell = ["bash", "-eo", "pipefail", "-c", script.replace("./dev admin", f"{sys.executable} -m tools.admin")]
    done = subprocess.run(shell, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    tables, definitions = (tmp_path / "played").read_text().splitlines()
    assert re.search(r"/\* https://stbackup\.blob\.core\.windows\.net/exports/\S+ --recursive", tables)
    assert re.search(r"https://stqueue\.\S+/definitions/\* https://stbackup\.\S+/definitions --recursive", definitions)
    (folder,) = tmp_path.glob("20*")
    assert {each.name for each in folder.iterdir()} == {f"{table}.jsonl.gz" for table in TABLES}


@pytest.mark.parametrize("port", [80, None], ids=["no port for a stack", "taken"])
def test_a_port_that_cannot_be_had_is_said_before_anything_is_exported(port: int | None, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        folder = tmp_path / "backup"
        with pytest.raises(drill.DrillError, match=r"--into .* port"):
            drill.run({}, port or taken.getsockname()[1], folder, drill.Drill())
        assert not folder.exists()


def test_a_step_that_fails_fails_the_drill(
    operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its steps are processes of their own here."""
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "Tasks.jsonl.gz").touch()
    code, _, messages = _drilled(operator, monkeypatch, capsys, "--folder", str(tmp_path / "backup"))
    assert code == 1
    assert "has an export of Tasks already" in messages
