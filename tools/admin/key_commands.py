"""Keys and tokens in the form that each setting wants: `key`."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Annotated

import typer

from shared.base.vault import Vault
from tools.admin.output import fail

keys = typer.Typer(help="New keys and tokens, to be put into the Key Vault.", no_args_is_help=True)

SIZES: Mapping[str, int] = {"root-access-token": 33, "message-signing-keys": 33, "access-token-keys": 32}
"""Random bytes of each kind, by the names of their secrets in the vault."""


@keys.command("new")
def new(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(SIZES)}.")],
    before: Annotated[
        str | None, typer.Option(help="Keys that are to go on working, put after the new one.", show_default=False)
    ] = None,
) -> None:
    """Print a new value. Where a setting takes several keys, the first is used and all are accepted."""
    if kind not in SIZES:
        fail(f"there is no key {kind!r}; the kinds are {', '.join(SIZES)}")
    new = _made(SIZES[kind])
    if before is None:
        typer.echo(new)
        return
    if kind == "root-access-token":
        fail("there is one root token at a time; the one before goes into root-access-token-previous")
    _check(kind, before)
    typer.echo(f"{new},{before}")


def _made(size: int) -> str:
    """Returns random bytes in URL-safe base64. Commands would take a value that begins with `-` for an option."""
    while (made := base64.urlsafe_b64encode(secrets.token_bytes(size)).decode()).startswith("-"):
        pass
    return made


def _check(kind: str, before: str) -> None:
    """Ends the command if the old keys are empty or cannot be used. An empty answer of a vault must not be taken for
    "no old keys", which would lock out all who rely on them."""
    words = before.split(",")
    if not all(words):
        fail("--before is empty: read the old keys from the vault first")
    if kind == "access-token-keys":
        try:
            Vault(words)
        except ValueError as error:
            fail(f"--before: {error}")
