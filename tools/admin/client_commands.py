"""Commands on clients, through the API: `client list|show|create|update|enable|disable|rotate|delete`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tools.admin.connection import auth_api
from tools.admin.durations import expiry
from tools.admin.output import show
from tools.admin.tables import ago, facts, one_line, printed, scopes, shortened, table, until
from tools.admin.work import Json

clients = typer.Typer(help="Clients: who may call, and what for.", no_args_is_help=True)

ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID", show_default=False)]
Scopes = Annotated[list[str] | None, typer.Option("--scope", "-s", help="A scope (repeatable).")]
Description = Annotated[str, typer.Option("--description", "-d", help="What it is for, and whose it is.")]
ExpiresIn = Annotated[str, typer.Option("--expires-in", help="How long it works: 90m, 12h, 30d, 52w.")]
DeleteOnExpiration = Annotated[bool, typer.Option("--delete-on-expiration", help="Remove the client when it expires.")]


@clients.command("list")
def list_clients(
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="Only ids that start so.")] = "",
    as_json: Json = False,
) -> None:
    """List clients."""
    found: list[Any] = []
    query = {"prefix": prefix} if prefix else {}
    with auth_api() as auth:
        auth.listClients(query=query, paginationHandler=lambda page: found.extend(page["clients"]))
    printed(found, as_json=as_json, otherwise=_list)


@clients.command("show")
def show_client(client_id: ClientId, as_json: Json = False) -> None:
    """Show a client, and what it may do."""
    with auth_api() as auth:
        found = auth.client(client_id)
    printed(found, as_json=as_json, otherwise=_show)


@clients.command("create")
def create_client(
    client_id: ClientId,
    scope: Scopes = None,
    description: Description = "",
    expires_in: ExpiresIn = "52w",
    delete_on_expiration: DeleteOnExpiration = False,
) -> None:
    """Create a client and show its access token, which can't be shown again."""
    definition = {
        "description": description,
        "expires": expiry(expires_in),
        "scopes": scope or [],
        "deleteOnExpiration": delete_on_expiration,
    }
    with auth_api() as auth:
        show(auth.createClient(client_id, definition))


@clients.command("update")
def update_client(
    client_id: ClientId,
    scope: Annotated[list[str] | None, typer.Option("--scope", "-s", help="Scopes in place of those it has.")] = None,
    description: Annotated[str | None, typer.Option("--description", "-d", help="A new description.")] = None,
    expires_in: Annotated[str | None, typer.Option("--expires-in", help="How long it works from now on.")] = None,
    delete_on_expiration: Annotated[
        bool | None, typer.Option("--delete-on-expiration/--keep", help="What happens when it expires.")
    ] = None,
) -> None:
    """Change a client; what is not named stays."""
    with auth_api() as auth:
        now = auth.client(client_id)
        definition = {
            "description": now["description"] if description is None else description,
            "expires": now["expires"] if expires_in is None else expiry(expires_in),
            "deleteOnExpiration": now["deleteOnExpiration"] if delete_on_expiration is None else delete_on_expiration,
            **({} if scope is None else {"scopes": scope}),
        }
        show(auth.updateClient(client_id, definition))


@clients.command("enable")
def enable_client(client_id: ClientId) -> None:
    """Let a disabled client work again."""
    with auth_api() as auth:
        show(auth.enableClient(client_id))


@clients.command("disable")
def disable_client(client_id: ClientId) -> None:
    """End the work of a client, and of what it has issued, within a minute."""
    with auth_api() as auth:
        show(auth.disableClient(client_id))


@clients.command("rotate")
def rotate_client(client_id: ClientId) -> None:
    """Give a client a new access token and show it; the old one ends within a minute."""
    with auth_api() as auth:
        show(auth.resetAccessToken(client_id))


@clients.command("delete")
def delete_client(client_id: ClientId) -> None:
    """Remove a client."""
    with auth_api() as auth:
        auth.deleteClient(client_id)


def _state(client: Any) -> str:
    """Whether its requests are accepted."""
    if client["disabled"]:
        return "disabled"
    return "expired" if datetime.fromisoformat(client["expires"]) <= datetime.now(UTC) else "enabled"


def _list(found: list[Any]) -> None:
    table(
        ("CLIENT", "STATE", "EXPIRES", "LAST USED", "DESCRIPTION"),
        [
            (
                one["clientId"],
                _state(one),
                until(one["expires"]),
                ago(one.get("lastDateUsed")),
                shortened(one["description"]),
            )
            for one in found
        ],
    )


def _show(found: dict[str, Any]) -> None:
    facts(
        {
            "client": found["clientId"],
            "state": _state(found),
            "expires": until(found["expires"]),
            "then": "deleted" if found["deleteOnExpiration"] else None,
            "last used": ago(found.get("lastDateUsed")),
            "token of": ago(found.get("lastRotated")),
            "created": ago(found.get("created")),
            "changed": ago(found.get("lastModified")),
            "description": one_line(found["description"]) or None,
        }
    )
    scopes(found)
