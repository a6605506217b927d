"""A backup is one that can be restored: the drill restores one into a second stack, and notices what is missing."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

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
    done = operator.create(payload={"large": secrets.token_hex(450_000)})
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
