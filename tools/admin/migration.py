"""`migrate`: copies roles, clients and entries of the index from a running Taskcluster into this deployment.

Every command may be repeated: what is here already and the same is left alone, what is here and different is named, and
replaced with `--update` alone. Nothing is changed in the deployment that is read (docs/migrating.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, TextIO

import taskcluster
import typer
from taskcluster.exceptions import TaskclusterRestFailure

from shared.base.dates import parse_date
from tools.admin.connection import VARIABLES, answering, auth_api, index_api
from tools.admin.output import fail, say, show
from tools.admin.work import gathered

migrate = typer.Typer(
    help="Copy roles, clients and the index from a running Taskcluster. Its credentials are SOURCE_CLIENT_ID and "
    "SOURCE_ACCESS_TOKEN; without them it is read as anybody may.",
    no_args_is_help=True,
)

Source = Annotated[str, typer.Argument(metavar="ROOT_URL", help="The deployment that is read.", show_default=False)]
Prefix = Annotated[str, typer.Option("--prefix", help="Only ids that start so.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
Update = Annotated[bool, typer.Option("--update", help="Replace what is here and different.")]

_OF_CLIENTS = ("description", "scopes", "expires", "deleteOnExpiration")
_OF_ROLES = ("description", "scopes")
_ANONYMOUS = "anonymous"
_STATIC = "static/"


@dataclass
class Outcome:
    """What was done with each id; `failed` has the reason."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    same: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def end(self) -> None:
        """Shows the outcome. Exit code 1 if anything failed."""
        show(
            {
                "created": self.created,
                "updated": self.updated,
                "different": self.different,
                "same": self.same,
                "leftOut": self.left_out,
                "failed": self.failed,
            }
        )
        if self.different:
            say("What is different was left as it is here: look at it, then repeat with --update, or leave it so.")
        if self.failed:
            raise typer.Exit(1)


@migrate.command("roles")
def roles(source: Source, prefix: Prefix = "", dry_run: DryRun = False, update: Update = False) -> None:
    """Copy roles. `anonymous`, which everybody has, is left out unless --prefix names it."""
    with _source("Auth", source) as theirs:
        found = theirs.listRoles()
    outcome = Outcome()
    with auth_api() as auth:
        here = {role["roleId"]: role for role in auth.listRoles()}
        for role in found:
            name = role["roleId"]
            if not name.startswith(prefix):
                continue
            if name == _ANONYMOUS != prefix:
                outcome.left_out[name] = "what everybody may do is decided here: name it by --prefix to copy it"
                continue
            wanted = {key: role[key] for key in _OF_ROLES}
            _settle(
                outcome,
                name,
                _fields(here.get(name), _OF_ROLES),
                wanted,
                partial(auth.createRole, name, wanted),
                partial(auth.updateRole, name, wanted),
                dry_run=dry_run,
                update=update,
            )
    outcome.end()


@migrate.command("clients")
def clients(
    source: Source,
    tokens: Annotated[
        Path | None, typer.Option("--tokens", help="A new file for the new access tokens, a JSON object a line.")
    ] = None,
    prefix: Prefix = "",
    dry_run: DryRun = False,
    update: Update = False,
) -> None:
    """Copy clients. No deployment tells access tokens: they get new ones, in a file that only you can read.

    Left out: static clients, which belong to a deployment, and those that have expired. What is disabled is disabled.
    """
    if tokens is None and not dry_run:
        fail("name a new file for the access tokens: --tokens FILE (or --dry-run)")
    with _source("Auth", source) as theirs:
        found = gathered(theirs.listClients, field="clients")
    outcome = Outcome()
    with auth_api() as auth, _new_file(None if dry_run else tokens) as written:
        here = {client["clientId"]: client for client in gathered(auth.listClients, field="clients")}
        for client in found:
            name = client["clientId"]
            if not name.startswith(prefix):
                continue
            if (reason := _not_copied(client)) is not None:
                outcome.left_out[name] = reason
                continue
            wanted = {key: client[key] for key in _OF_CLIENTS}
            _settle(
                outcome,
                name,
                _fields(here.get(name), _OF_CLIENTS),
                wanted,
                partial(_create, auth, name, wanted, written, client),
                partial(auth.updateClient, name, wanted),
                dry_run=dry_run,
                update=update,
            )
    outcome.end()


@migrate.command("index")
def index(
    source: Source,
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE", show_default=False)],
    dry_run: DryRun = False,
) -> None:
    """Copy the entries below a namespace. The tasks that they name stay where they are: see docs/migrating.md.

    An entry that is here with a higher rank stays. Left out: those that have expired.
    """
    outcome = Outcome()
    with _source("Index", source) as theirs, index_api() as api:
        for path, entry in _entries(theirs, namespace):
            if _ended(entry):
                outcome.left_out[path] = "it has expired"
                continue
            wanted = {key: entry[key] for key in ("taskId", "rank", "data", "expires")}
            _settle(
                outcome,
                path,
                _fields(_entry(api, path), tuple(wanted)),
                wanted,
                partial(api.insertTask, path, wanted),
                partial(api.insertTask, path, wanted),
                dry_run=dry_run,
                update=True,
            )
    outcome.end()


def _settle(
    outcome: Outcome,
    name: str,
    here: Mapping[str, Any] | None,
    wanted: Mapping[str, Any],
    create: Callable[[], object],
    change: Callable[[], object],
    *,
    dry_run: bool,
    update: bool,
) -> None:
    """Creates or changes one item, unless it is the same. A refusal is noted, and the next item comes."""
    if here is not None and _comparable(here) == _comparable(wanted):
        outcome.same += 1
        return
    if here is not None and not update:
        outcome.different.append(name)
        return
    try:
        if not dry_run:
            (create if here is None else change)()
    except TaskclusterRestFailure as failure:
        if failure.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        body = failure.body if isinstance(failure.body, dict) else {}
        outcome.failed[name] = str(body.get("message", failure)).partition("\n")[0]
        return
    (outcome.created if here is None else outcome.updated).append(name)


def _create(auth: Any, name: str, wanted: Mapping[str, Any], written: TextIO | None, client: Mapping[str, Any]) -> None:
    made = auth.createClient(name, wanted)
    if written is not None:
        written.write(json.dumps({"clientId": name, "accessToken": made["accessToken"]}) + "\n")
        written.flush()
    if client.get("disabled"):
        auth.disableClient(name)


def _entries(index: Any, namespace: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields all entries below a namespace, with their paths; a namespace that is an entry itself, first."""
    if (own := _entry(index, namespace)) is not None:
        yield namespace, own
    waiting = [namespace]
    while waiting:
        level = waiting.pop()
        for entry in gathered(index.listTasks, level, field="tasks"):
            yield entry["namespace"], entry
        waiting += [each["namespace"] for each in gathered(index.listNamespaces, level, field="namespaces")]


def _entry(index: Any, path: str) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = index.findTask(path)
    except TaskclusterRestFailure as failure:
        if failure.status_code == HTTPStatus.NOT_FOUND:
            return None
        raise
    return found


def _not_copied(client: Mapping[str, Any]) -> str | None:
    if client["clientId"].startswith(_STATIC):
        return "it belongs to that deployment's configuration"
    return "it has expired" if _ended(client) else None


def _ended(of: Mapping[str, Any]) -> bool:
    return parse_date(of["expires"]) <= datetime.now(UTC)


def _fields(of: Mapping[str, Any] | None, names: tuple[str, ...]) -> dict[str, Any] | None:
    return None if of is None else {name: of[name] for name in names}


def _comparable(of: Mapping[str, Any]) -> dict[str, Any]:
    """Returns properties in a form that can be compared: scopes have no order, and times several spellings."""
    spelled = dict(of)
    if "scopes" in spelled:
        spelled["scopes"] = sorted(spelled["scopes"])
    if "expires" in spelled:
        spelled["expires"] = parse_date(spelled["expires"])
    return spelled


@contextmanager
def _new_file(path: Path | None) -> Iterator[TextIO | None]:
    """Yields a new file that only its owner can read, or None without a path. Ends the command if the file exists."""
    if path is None:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        fail(f"{path} is there already: name a new file, so that no token is lost")
    with os.fdopen(descriptor, "w") as file:
        yield file


@contextmanager
def _source(name: str, root_url: str) -> Iterator[Any]:
    """Yields the deployment that is read, as the variables say. An error of its API ends the command with its
    message."""
    given = {key: os.environ.get(variable.replace("TASKCLUSTER_", "SOURCE_")) for key, variable in VARIABLES.items()}
    credentials = {key: value for key, value in given.items() if value}
    options = {"rootUrl": root_url, **({"credentials": credentials} if credentials else {})}
    with answering(root_url) as session:
        yield getattr(taskcluster, name)(options, session)
