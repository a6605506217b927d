"""What commands print: results as JSON on standard output, for other programs; messages on standard error."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import typer


def show(value: Any) -> None:
    """JSON for people and programs."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def say(message: str) -> None:
    """Progress."""
    typer.echo(message, err=True)


def fail(message: str) -> NoReturn:
    """Ends the command: the message on standard error, exit code 1."""
    typer.echo(message, err=True)
    raise typer.Exit(1)
