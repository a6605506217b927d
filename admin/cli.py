"""The commands. Results are JSON on standard output, for other programs; messages go to standard error."""

from __future__ import annotations

import logging
import os
import shlex
from datetime import UTC, datetime
from inspect import signature
from typing import Annotated, Any

import taskcluster
import typer
from taskcluster.exceptions import TaskclusterFailure
from typer.core import TyperCommand

from admin import (
    audit_commands,
    group_commands,
    index_commands,
    key_commands,
    pool_commands,
    storage_commands,
    task_commands,
    task_queue_commands,
)
from admin.connection import VARIABLES, auth_api, credentials, root_url
from admin.durations import duration, expiry
from admin.migration import migrate
from admin.output import fail, show
from admin.public_scopes import PUBLIC_SCOPES
from admin.signing import signed_header, signed_url
from admin.verify_command import verify
from admin.worker_clients import worker_clients

app = typer.Typer(
    help="Manage a deployment: clients, roles, credentials, workers, and what its storage holds. The deployment is "
    "TASKCLUSTER_ROOT_URL; who you are is TASKCLUSTER_CLIENT_ID and TASKCLUSTER_ACCESS_TOKEN.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: the boxes give flags a value
)
clients = typer.Typer(help="Clients: who may call, and what for.", no_args_is_help=True)
roles = typer.Typer(help="Roles: what those may do who assume them.", no_args_is_help=True)
app.add_typer(clients, name="client")
app.add_typer(roles, name="role")
app.add_typer(task_queue_commands.workers, name="worker")
app.add_typer(worker_clients, name="worker-client")
app.add_typer(pool_commands.pools, name="pool")
app.add_typer(task_commands.tasks, name="task")
app.add_typer(group_commands.groups, name="group")
app.add_typer(task_queue_commands.queues, name="queue")
app.add_typer(audit_commands.audit, name="audit")
app.add_typer(index_commands.index, name="index")
app.add_typer(storage_commands.backups, name="backup")
app.add_typer(key_commands.keys, name="key")
app.add_typer(migrate, name="migrate")
app.command("verify")(verify)

ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID", show_default=False)]
RoleId = Annotated[str, typer.Argument(metavar="ROLE_ID", show_default=False)]
Scopes = Annotated[list[str] | None, typer.Option("--scope", "-s", help="A scope (repeatable).")]
Description = Annotated[str, typer.Option("--description", "-d", help="What it is for, and whose it is.")]
ExpiresIn = Annotated[str, typer.Option("--expires-in", help="How long it works: 90m, 12h, 30d, 52w.")]
DeleteOnExpiration = Annotated[bool, typer.Option("--delete-on-expiration", help="Remove the client when it expires.")]


@clients.command("list")
def list_clients(
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="Only ids that start so.")] = "",
) -> None:
    """List clients."""
    found: list[Any] = []
    query = {"prefix": prefix} if prefix else {}
    with auth_api() as auth:
        auth.listClients(query=query, paginationHandler=lambda page: found.extend(page["clients"]))
    show(found)


@clients.command("show")
def show_client(client_id: ClientId) -> None:
    """Show a client."""
    with auth_api() as auth:
        show(auth.client(client_id))


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


@roles.command("list")
def list_roles() -> None:
    """List all roles."""
    with auth_api() as auth:
        show(auth.listRoles())


@roles.command("show")
def show_role(role_id: RoleId) -> None:
    """Show a role."""
    with auth_api() as auth:
        show(auth.role(role_id))


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


@app.command()
def mint(
    scope: Scopes = None,
    name: Annotated[str | None, typer.Option(help="The clientId of named credentials; default: unnamed ones.")] = None,
    expires_in: ExpiresIn = "1h",
    export: Annotated[bool, typer.Option("--export", help="Print shell variables instead of JSON.")] = False,
) -> None:
    """Mint temporary credentials from your own. Nothing is sent: they are signed here."""
    issuer = credentials()
    if "certificate" in issuer:
        fail("temporary credentials cannot issue others: use those of a client")
    now = datetime.now(UTC)
    try:
        made = taskcluster.createTemporaryCredentials(
            issuer["clientId"], issuer["accessToken"], now, now + duration(expires_in), scope or [], name=name
        )
    except TaskclusterFailure as failure:
        fail(str(failure))
    minted = {field: value.decode() if isinstance(value, bytes) else value for field, value in made.items()}
    if export:
        for field, value in minted.items():
            typer.echo(f"export {VARIABLES[field]}={shlex.quote(value)}")
    else:
        show(minted)


@app.command()
def sign(
    path: Annotated[str, typer.Argument(help="Path and query below the root URL, such as /metrics.")],
    expires_in: ExpiresIn = "1h",
    method: Annotated[str, typer.Option("--method", "-X", help="Other than GET: prints a header.")] = "GET",
) -> None:
    """Print a signed URL: anyone who has it may read it with your scopes. Nothing is sent: it is signed here.

    URLs are signed for reading alone. For another --method a header is printed that authorizes one such call within
    some minutes: curl -X POST -H "$(... sign --method POST /api/...)".
    """
    try:
        if method.upper() not in ("GET", "HEAD"):
            typer.echo(signed_header(credentials(), method.upper(), f"{root_url()}/{path.lstrip('/')}"))
            return
        typer.echo(signed_url(credentials(), f"{root_url()}/{path.lstrip('/')}", duration(expires_in)))
    except TaskclusterFailure as failure:
        fail(str(failure))


@app.command()
def whoami() -> None:
    """Show the scopes that you have."""
    with auth_api() as auth:
        show({"clientId": credentials()["clientId"], **auth.currentScopes()})


@app.command()
def expand(scope: Annotated[list[str], typer.Argument(metavar="SCOPE", show_default=False)]) -> None:
    """Show what scopes grant through roles."""
    with auth_api() as auth:
        show(auth.expandScopes({"scopes": list(dict.fromkeys(scope))}))


class _TakesJson(TyperCommand):
    """A command that prints JSON anyway, so that scripts need not know which ones print tables without --json."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leaves the option out."""
        return super().parse_args(ctx, [each for each in args if each != "--json"])


def _take_json(of: typer.Typer) -> None:
    """For every command below that has no such option of its own."""
    for group in of.registered_groups:
        if group.typer_instance is not None:
            _take_json(group.typer_instance)
    for command in of.registered_commands:
        if command.callback is not None and "as_json" not in signature(command.callback).parameters:
            command.cls = _TakesJson


_take_json(app)


def main() -> None:
    """Runs the command that the arguments name."""
    logging.getLogger("azure.identity").setLevel(logging.ERROR)  # what it warns of is reported in one line
    app(prog_name=os.environ.get("STARTED_AS", "./dev admin"))
