"""What the shell is told: the table of docs/console.md, each row by commands that end so."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.admin.command_line import run_command
from tests.admin.operators import Operator
from tests.clients.deployment import Deployment
from tests.console.scene import Scene
from tests.local.stacks import free_ports
from tools.admin.work import UNSUCCESSFUL
from tools.local.stack import Stack
from tools.local.state import ROOT

NOBODY = {"TASKCLUSTER_CLIENT_ID": "nobody", "TASKCLUSTER_ACCESS_TOKEN": "wrong"}
MISSING = "AAAAAAAAQAaAAAAAAAAAAA"


def _ends(
    operator: Operator, *arguments: str, environment: Mapping[str, str] | None = None, given: str = ""
) -> tuple[int, str, str]:
    """Exit code, output and messages of a command."""
    return run_command(arguments, {**operator.environment, **(environment or {})}, given)


def test_the_document_has_the_codes_that_there_are() -> None:
    table = (ROOT / "docs" / "console.md").read_text().split("| Exit code | Means |")[1].split("\n\n")[0]
    assert [int(code) for code in re.findall(r"^\| (\d) \|", table, re.MULTILINE)] == [0, 1, 2, UNSUCCESSFUL]


def test_what_is_done_ends_with_0(operator: Operator) -> None:
    """As a process of its own; the others show that the same is said in this one."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.admin", "whoami"],
        cwd=ROOT,
        env=operator.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert operator.environment["TASKCLUSTER_CLIENT_ID"] in done.stdout
    assert _ends(operator, "--help")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (("task", "show", MISSING), {}, "ResourceNotFound"),
        (("task", "show", "no-id"), {}, "InvalidRequestArguments"),
        (("role", "create", "x"), NOBODY, "AuthenticationFailed"),
        (("whoami",), {"TASKCLUSTER_ROOT_URL": "http://127.0.0.1:{free}"}, "127.0.0.1:{free}"),
        (("whoami",), {"TASKCLUSTER_ROOT_URL": ""}, "TASKCLUSTER_ROOT_URL"),
        (("task", "create", "-f", "/nowhere/task.json"), {}, "/nowhere/task.json cannot be read"),
    ],
)
def test_what_is_refused_or_not_reached_ends_with_1(
    arguments: tuple[str, ...], environment: Mapping[str, str], said: str, operator: Operator
) -> None:
    """In one line that says why."""
    free = str(free_ports().api)
    changed = {name: value.replace("{free}", free) for name, value in environment.items()}
    code, output, messages = _ends(operator, *arguments, environment=changed)
    assert (code, output) == (1, "")
    assert said.replace("{free}", free) in messages
    assert "Traceback" not in messages


def test_who_answers_no_ends_with_1(operator: Operator, stack: Stack) -> None:
    scene = Scene(Deployment.of(stack))
    scene.create("build")
    assert _ends(operator, "group", "cancel", scene.group, given="n\n")[0] == 1
    assert scene.client().status(scene.ids["build"])["status"]["state"] == "pending"


@pytest.mark.parametrize(
    "arguments",
    [("group", "lst"), ("task", "show"), ("group", "list", "-n", "many"), ("worker", "list", "a/b", "--nothing")],
)
def test_what_is_mistyped_ends_with_2(arguments: tuple[str, ...], operator: Operator) -> None:
    code, output, messages = _ends(operator, *arguments)
    assert (code, output) == (2, "")
    assert "Usage: " in messages


def test_what_was_waited_for_and_did_not_complete_ends_with_3(operator: Operator, stack: Stack) -> None:
    """Also what somebody cancelled."""
    scene = Scene(Deployment.of(stack))
    scene.create("build")
    scene.client().cancelTask(scene.ids["build"])
    assert _ends(operator, "group", "show", scene.group, "--watch")[0] == UNSUCCESSFUL
    assert _ends(operator, "task", "show", scene.ids["build"], "--watch")[0] == UNSUCCESSFUL


def test_a_reader_that_ends_early_causes_no_traceback(operator: Operator, stack: Stack) -> None:
    scene = Scene(Deployment.of(stack))
    for number in range(3):
        scene.create(f"build-{number}")
    with subprocess.Popen(
        [sys.executable, "-m", "tools.admin", "group", "show", scene.group, "--json"],
        cwd=ROOT,
        env=operator.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        messages = process.stderr.read()
        process.wait(timeout=60)
    assert messages == ""
