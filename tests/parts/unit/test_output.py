"""Programs on any terminal: ids that begin with a dash, characters that it would obey, and those that it lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.promises.admin.command_line import run_command
from tools.admin.output import say, show
from tools.admin.tables import plain
from tools.local import cli
from tools.local.state import ROOT

DASHED = "-bcdefghQaCaaaaaaaaaaA"
ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.mark.parametrize("arguments", [["audit", "task", DASHED], ["audit", "group", "--json", DASHED]])
def test_an_id_that_begins_with_a_dash_is_no_option(arguments: list[str]) -> None:
    _, _, messages = run_command(arguments, {})
    assert "TASKCLUSTER_ROOT_URL" in messages
    code, _, messages = run_command([*arguments[:-1], "--jsn"], {})
    assert (code, "No such option" in messages) == (2, True)


def test_what_stands_behind_two_dashes_reaches_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[Any] = []
    monkeypatch.setattr(cli, "_run_tool", lambda *given: passed.append(given))
    for arguments in (["task", "show", "--", "-x"], ["--port", "7000", "task", DASHED, "--json"]):
        CliRunner().invoke(cli.app, ["admin", *arguments])
    assert [(arguments, port) for _, _, arguments, port in passed] == [
        (["task", "show", "--", "-x"], None),
        (["task", DASHED, "--json"], 7000),
    ]


@pytest.mark.parametrize("obeyed", ["\x1b", "\x9b", "\x9d", "\x7f", "\u202e", "\u2066"])
def test_nothing_that_a_terminal_would_obey_is_printed(obeyed: str, capsys: pytest.CaptureFixture[str]) -> None:
    show({"name": f"a{obeyed}b"})
    assert capsys.readouterr().out == f'{{\n  "name": "a\\u{ord(obeyed):04x}b"\n}}\n'
    assert plain(f"a{obeyed}b") == "ab"
    say(f"a{obeyed}b\n\tc")
    assert capsys.readouterr().err == "ab\n\tc\n"


def run(program: str, **environment: str) -> bytes:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True, capture_output=True).stdout


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "latin-1"}, ASCII])
def test_what_a_terminal_lacks_is_replaced_and_json_stays_json(variables: dict[str, str]) -> None:
    program = "from tools.local.output import *; prepare(); text = '\\u4e16\\u754c'; print(text); print(as_json(text))"
    assert run(program, **variables) == b'??\n"\\u4e16\\u754c"\n'


def test_the_console_is_read_as_utf8_in_any_locale() -> None:
    program = (
        "from functions.console import *; from types import SimpleNamespace as S;"
        "print(ConsoleSite.load(FOLDER, {}).answer('/', {}).body.decode().count('\\ufffd'))"
    )
    assert run(program, **ASCII) == b"0\n"
