"""The commands. Results are JSON on standard output, for other programs; messages go to standard error."""

from __future__ import annotations

import logging
import os
import re
import shlex
from datetime import UTC, datetime
from typing import Annotated, Any

import taskcluster
import typer
from taskcluster.exceptions import TaskclusterFailure
from typer.core import TyperCommand

from shared.base.types import SLUGID_PATTERN
from tools.admin import (
    audit_commands,
    group_commands,
    index_commands,
    key_commands,
    pool_commands,
    storage_commands,
    task_queue_commands,
)
from tools.admin.connection import VARIABLES, credentials, root_url
from tools.admin.durations import duration
from tools.admin.migration import migrate
from tools.admin.output import fail, show
from tools.admin.public_scopes import PUBLIC_SCOPES
from tools.admin.signing import signed_header, signed_url
from tools.admin.verify_command import verify
from tools.admin.worker_clients import worker_clients
from tools.local.output import prepare

_SLUGID = re.compile(SLUGID_PATTERN)
Scopes = Annotated[list[str] | None, typer.Option("--scope", "-s", help="A scope (repeatable).")]
ExpiresIn = Annotated[str, typer.Option("--expires-in", help="How long it works: 90m, 12h, 30d, 52w.")]

app = typer.Typer(
    help="Manage a deployment: what its storage holds, its keys, and what Taskcluster's own command does not know. "
    "That one does the rest: `taskcluster api auth createClient` and the other methods of clients and roles, "
    "`taskcluster task` and `taskcluster group`, `taskcluster api queue quarantineWorker`. The deployment is "
    "TASKCLUSTER_ROOT_URL; who you are is TASKCLUSTER_CLIENT_ID and TASKCLUSTER_ACCESS_TOKEN.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: the boxes give flags a value
)
app.add_typer(task_queue_commands.workers, name="worker")
app.add_typer(worker_clients, name="worker-client")
app.add_typer(pool_commands.pools, name="pool")
app.add_typer(storage_commands.tasks, name="task")
app.add_typer(group_commands.groups, name="group")
app.add_typer(task_queue_commands.queues, name="queue")
app.add_typer(audit_commands.audit, name="audit")
app.add_typer(index_commands.index, name="index")
app.add_typer(storage_commands.backups, name="backup")
app.add_typer(key_commands.keys, name="key")
app.add_typer(migrate, name="migrate")
app.command("verify")(verify)


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


@app.command("public-scopes")
def public_scopes(
    more: Annotated[
        list[str] | None, typer.Argument(metavar="SCOPE", help="Scopes besides.", show_default=False)
    ] = None,
) -> None:
    """Print a role that may read what public deployments show to everybody. Nothing is sent.

    `./dev admin public-scopes | taskcluster api auth createRole anonymous` makes a deployment public.
    """
    scopes = [*dict.fromkeys([*PUBLIC_SCOPES, *(more or ())])]
    show({"description": "reads what public deployments show to everybody", "scopes": scopes})


class _Command(TyperCommand):
    """A command whose arguments may begin with a dash, as one id in 64 does."""

    def make_parser(self, ctx: Any) -> Any:
        """Returns a parser that does not take a slugid for an option."""
        parser: Any = super().make_parser(ctx)
        process = parser._process_opts

        def process_option(argument: str, state: Any) -> None:
            if _SLUGID.fullmatch(argument):
                state.largs.append(argument)
            else:
                process(argument, state)

        parser._process_opts = process_option
        return parser


def _set_classes(of: typer.Typer) -> None:
    """Sets the class of every command of an app and of its groups."""
    for group in of.registered_groups:
        if group.typer_instance is not None:
            _set_classes(group.typer_instance)
    for command in of.registered_commands:
        command.cls = _Command


_set_classes(app)


def main() -> None:
    """Runs the command that the arguments name."""
    prepare()
    logging.getLogger("azure.identity").setLevel(logging.ERROR)  # what it warns of is reported in one line
    app(prog_name=os.environ.get("STARTED_AS", "./dev admin"))
