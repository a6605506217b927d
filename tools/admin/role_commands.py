"""Commands on roles, through the API: `role list|show|create|update|delete`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tools.admin.client_commands import Description, Scopes
from tools.admin.connection import auth_api
from tools.admin.output import show
from tools.admin.public_scopes import PUBLIC_SCOPES
from tools.admin.tables import ago, facts, one_line, printed, scopes, shortened, table
from tools.admin.work import Json

roles = typer.Typer(help="Roles: what those may do who assume them.", no_args_is_help=True)

RoleId = Annotated[str, typer.Argument(metavar="ROLE_ID", show_default=False)]


@roles.command("list")
def list_roles(as_json: Json = False) -> None:
    """List all roles."""
    with auth_api() as auth:
        found = auth.listRoles()
    printed(found, as_json=as_json, otherwise=_list)


@roles.command("show")
def show_role(role_id: RoleId, as_json: Json = False) -> None:
    """Show a role, and what it grants."""
    with auth_api() as auth:
        found = auth.role(role_id)
    printed(found, as_json=as_json, otherwise=_show)


@roles.command("create")
def create_role(
    role_id: RoleId,
    scope: Scopes = None,
    description: Description = "",
    public: Annotated[
        bool, typer.Option("--public", help="Add what public deployments grant to everybody (role anonymous): reading.")
    ] = False,
) -> None:
    """Create a role."""
    granted = [*dict.fromkeys([*(scope or []), *(PUBLIC_SCOPES if public else ())])]
    with auth_api() as auth:
        show(auth.createRole(role_id, {"description": description, "scopes": granted}))


@roles.command("update")
def update_role(
    role_id: RoleId,
    scope: Annotated[list[str] | None, typer.Option("--scope", "-s", help="Scopes in place of those it has.")] = None,
    add: Annotated[list[str] | None, typer.Option("--add", help="A scope more (repeatable).")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", help="A scope less (repeatable).")] = None,
    description: Annotated[str | None, typer.Option("--description", "-d", help="A new description.")] = None,
) -> None:
    """Change a role; what is not named stays."""
    with auth_api() as auth:
        now = auth.role(role_id)
        scopes = now["scopes"] if scope is None else scope
        granted = [one for one in dict.fromkeys([*scopes, *(add or [])]) if one not in (remove or [])]
        text = now["description"] if description is None else description
        show(auth.updateRole(role_id, {"description": text, "scopes": granted}))


@roles.command("delete")
def delete_role(role_id: RoleId) -> None:
    """Remove a role."""
    with auth_api() as auth:
        auth.deleteRole(role_id)


def _list(found: list[Any]) -> None:
    table(
        ("ROLE", "SCOPES", "CHANGED", "DESCRIPTION"),
        [
            (one["roleId"], len(one["scopes"]), ago(one.get("lastModified")), shortened(one["description"]))
            for one in found
        ],
    )


def _show(found: dict[str, Any]) -> None:
    facts(
        {
            "role": found["roleId"],
            "created": ago(found.get("created")),
            "changed": ago(found.get("lastModified")),
            "description": one_line(found["description"]) or None,
        }
    )
    scopes(found)
