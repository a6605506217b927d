"""What commands print: results as JSON on standard output, for other programs; messages on standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import typer

from tools.local.output import as_json, harmless


def show(value: Any) -> None:
    """Prints a value as JSON, for people and programs."""
    typer.echo(as_json(value, indent=2))


def say(message: str) -> None:
    """Prints what people should know, on standard error."""
    typer.echo(harmless(message), err=True)


Report = Callable[[str], None]
"""Function that is told how far a command is."""


def unwatched(text: str) -> None:
    """Ignores a report of progress that nobody reads."""


def fail(message: str) -> NoReturn:
    """Ends the command: the message on standard error, exit code 1."""
    typer.echo(harmless(message), err=True)
    raise typer.Exit(1)
