"""A backup is one that can be restored: the drill restores one into a second stack, and notices what is missing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.parts.local.stacks import free_ports
from tests.promises.admin.command_line import run_command
from tests.promises.admin.operators import Operator
from tools.local import drill, state
from tools.local.entities import TABLES


def _in_this_process(command: Sequence[str], *, env: Mapping[str, str], **_: object) -> CompletedProcess[str]:
    """Runs a step of the drill in this process: five new interpreters would take as long as all that the steps do."""
    return CompletedProcess(command, *run_command(command[command.index("tools.admin") + 1 :], env))


def _drilled(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Returns exit code, output and messages of `./dev drill`, run with the names of the account, too."""
    named = {"STORAGE_ACCOUNT_NAME": "stqueue", "SERVICEBUS_NAMESPACE": "sb-queue"}
    with monkeypatch.context() as patch:
        for name in drill.OF_THE_DEPLOYMENT:
            patch.delenv(name, raising=False)
        for name, value in {**operator.environment, **named}.items():
            patch.setenv(name, value)
        patch.setattr("sys.argv", ["drill", *arguments])
        code = drill.main()
    return code, *capsys.readouterr()


@pytest.mark.large
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
    assert found["compared"] >= 2
    assert found["differences"] == []
    assert {"export", "restore", "repair", "check", "start", "compare", "a new task"} <= found["seconds"].keys()
    assert {waiting, done} == {running, claim["status"]["taskId"]} <= set(drill.task_ids(tmp_path / "backup"))
    assert not state.folder(port).exists()
    assert operator.queue().status(running)["status"]["state"] == "running", "the deployment is left alone"


def _look(state_: str, definition: str = "a") -> drill.Look:
    return lambda: ({"state": state_}, {"payload": definition})


@pytest.mark.parametrize(
    ("restored", "original", "wrong"),
    [
        (_look("completed"), _look("completed"), []),
        (_look("running"), _look("completed"), []),
        (_look("completed"), _look("running"), ["t was running, and is completed after the restore"]),
        (_look("failed"), _look("completed"), ["t was completed, and is failed after the restore"]),
        (_look("completed"), _look("completed", "b"), ["t has another definition"]),
        (_look("completed"), None, []),
    ],
)
def test_a_task_that_is_not_what_it_was_is_named(
    restored: drill.Look, original: drill.Look | None, wrong: list[str]
) -> None:
    assert list(drill.differences("t", restored, original)) == wrong


def test_a_drill_with_differences_is_no_success(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(drill, "run", lambda *given: given[-1].differences.append("t has another definition"))
    code, _, messages = _drilled(operator, monkeypatch, capsys)
    assert (code, messages) == (1, "t has another definition\n")
