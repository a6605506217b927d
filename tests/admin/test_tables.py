"""What people read: tables of clients and roles, and colours where somebody reads in them."""

from __future__ import annotations

import os
import pty
import re
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from tests.admin.operators import Operator
from tests.clients.deployment import Deployment
from tests.console.scene import Scene
from tests.programs import Program
from tools.admin import tables
from tools.admin.cli import main
from tools.local.stack import Stack

RED, END = "\x1b[31m", "\x1b[0m"


def _rows(output: str) -> list[list[str]]:
    return [[cell.strip() for cell in re.split(r"  +", line) if cell.strip()] for line in output.splitlines()]


def test_clients_are_a_table(operator: Operator) -> None:
    name = f"tables/{operator.pool}"
    arguments = ("-d", "of a test,\nof two lines " + "and more " * 10, "--expires-in", "30d", "-s", "b:*", "-s", "a:1")
    made = operator.result("client", "create", name, *arguments)
    operator.result("client", "disable", name)
    code, output, _ = operator.run("client", "list", "tables/")
    head, row = _rows(output)
    assert (code, head) == (0, ["CLIENT", "STATE", "EXPIRES", "LAST USED", "DESCRIPTION"])
    assert row[:2] == [name, "disabled"]
    assert row[2] in ("in 29 d 23 h", "in 30 d")
    assert row[4].startswith("of a test, of two lines and more")
    assert row[4].endswith("…")
    code, output, _ = operator.run("client", "show", name)
    shown = [row for row in _rows(output) if row]
    assert [["client", name], ["state", "disabled"], ["SCOPE"], ["a:1"], ["b:*"]] == [
        row for row in shown if row[0] in ("client", "state", "SCOPE", "a:1", "b:*")
    ]
    assert made["accessToken"] not in output
    [found] = operator.result("client", "list", name, "--json")
    assert found["scopes"] == ["b:*", "a:1"]
    assert operator.result("client", "show", name, "--json") == found


def test_roles_are_a_table(operator: Operator) -> None:
    name = f"tables:{operator.pool}"
    operator.result("role", "create", f"{name}:inner", "-s", "c:*")
    operator.result("role", "create", name, "-s", f"assume:{name}:inner", "-d", "for tables")
    code, output, _ = operator.run("role", "list")
    assert (code, _rows(output)[0]) == (0, ["ROLE", "SCOPES", "CHANGED", "DESCRIPTION"])
    [row] = [row for row in _rows(output) if row[0] == name]
    assert row[1] == "1"
    assert row[2].endswith(" ago")
    assert row[3] == "for tables"
    shown = _rows(operator.run("role", "show", name)[1])
    at = shown.index(["SCOPE"])
    assert shown[at:] == [["SCOPE"], [f"assume:{name}:inner"], [], ["BY ROLES"], [f"assume:{name}"], ["c:*"]]
    assert name in [one["roleId"] for one in operator.result("role", "list", "--json")]
    assert operator.result("role", "show", name, "--json")["description"] == "for tables"


def test_a_time_that_means_never_is_a_dash() -> None:
    assert tables.ago(datetime.fromtimestamp(0, UTC).isoformat()) is None


def _in_a_terminal(arguments: list[str], environment: Mapping[str, str]) -> str:
    """What a command writes to a terminal."""
    leader, follower = pty.openpty()
    try:
        with Program(main, arguments, environment, os.ttyname(follower)) as program:
            assert program.communicate() == ("", "")
        assert program.returncode == 0
        return os.read(leader, 65536).decode()
    finally:
        os.close(leader)
        os.close(follower)


@pytest.mark.parametrize(
    ("variables", "colored"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_states_have_their_colours_in_a_terminal(
    variables: Mapping[str, str], colored: bool, operator: Operator, stack: Stack
) -> None:
    """And nothing else has: a task may be named after a state."""
    scene = Scene(Deployment.of(stack))
    scene.create("what failed")
    scene.claim("what failed")
    scene.fail("what failed")
    inherited = {name: value for name, value in operator.environment.items() if name != "NO_COLOR"}
    output = _in_a_terminal(["group", "show", scene.group], {**inherited, "TERM": "xterm", **variables})
    assert (f"1: {RED}1 failed{END}" in output) is colored
    assert (f"{RED}failed{END}" in output) is colored
    assert "what failed" in output
    assert output.count(RED) == (2 if colored else 0)
    assert RED not in operator.run("group", "show", scene.group, environment=variables)[1]
