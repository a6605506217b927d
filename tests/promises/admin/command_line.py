"""Runs commands of the administrator in this process: a new one would spend a second on imports for each."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence

from typer.testing import CliRunner

from tools.admin.cli import app


def run_command(arguments: Sequence[str], environment: Mapping[str, str], given: str = "") -> tuple[int, str, str]:
    """Returns exit code, output and messages of a command that has these variables and no others, and `given` as its
    input. A defect shows as it does in a process of its own: as a traceback among the messages."""
    removed = {name: None for name in os.environ if name not in environment}
    done = CliRunner().invoke(
        app, list(arguments), input=given, env={**removed, **environment}, prog_name="./dev admin"
    )
    messages = done.stderr
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        messages += "".join(traceback.format_exception(done.exception))
    return done.exit_code, done.stdout, messages
