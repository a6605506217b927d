"""Endpoints of the Index service: models, rows and handlers (contract 18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from pydantic import Field, StringConstraints

from shared.api.answer import Answer, redirection
from shared.api.endpoint import Call, Endpoints, Json
from shared.api.scopes import all_of, for_each, satisfies
from shared.api.validation import continued, limit_of, start_of
from shared.auth import audit, hawk
from shared.auth.authenticate import ANONYMOUS
from shared.auth.clients.rows import ROOT_CLIENT_ID
from shared.auth.keyring import TableKeyring
from shared.auth.roles.expansion import ExpansionTooLarge
from shared.base import bounds
from shared.base.dates import format_date, parse_date
from shared.base.errors import ApiError, InputError
from shared.base.frozen import dataclass, replace
from shared.base.ids import digest_of
from shared.base.settings import Settings
from shared.base.shares import CURRENT
from shared.base.types import Closed, Date, JsonObject, SlugId, Unique, optional, page_model
from shared.index.entries import Index
from shared.index.rules import HIGHEST_RANK, LOWEST_RANK, IndexEntry, split
from shared.queue.artifacts.rules import StorageType
from shared.queue.services import ArtifactUseCases
from shared.runtime import Runtime
from shared.store.interface import StorageUnavailable

BEWIT_LIFE = timedelta(minutes=15)
"""How long the redirection to an artifact that is not public can be followed (contract 18.5)."""


@dataclass(frozen=True, kw_only=True)
class IndexServices:
    """The services that the endpoints of the Index service call."""

    settings: Settings
    runtime: Runtime
    keyring: TableKeyring
    artifacts: ArtifactUseCases
    index: Index
    audit: audit.Audit


Path = Annotated[str, StringConstraints(max_length=255)]

Rank = Annotated[int, Field(ge=LOWEST_RANK, le=HIGHEST_RANK)]


class IndexedTaskResponse(Closed):
    """An entry; its namespace is the whole path."""

    namespace: Path
    taskId: SlugId
    rank: Rank
    data: JsonObject
    expires: Date


class InsertTaskRequest(Closed):
    """The task that a path is to name."""

    taskId: SlugId
    rank: Rank
    data: JsonObject
    expires: Date


class ListTasksAtIndex(Closed):
    """The paths to look up."""

    indexes: list[str] = Field(default=[])


class NamespaceItem(Closed):
    """A namespace and its last key."""

    namespace: Path
    name: Path
    expires: Date


class ListNamespacesRequest(Closed):
    """Accepted and not used: the first page is returned (contract 18.2)."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 1000
    continuationToken: str = optional()


ListTasksResponse = page_model("ListTasksResponse", "A page of entries.", tasks=Unique[IndexedTaskResponse])
ListNamespacesResponse = page_model("ListNamespacesResponse", "A page of namespaces.", namespaces=Unique[NamespaceItem])

_FIND = "index:find-task:<indexPath>"

ENDPOINTS = Endpoints[IndexServices]("Index")


@ENDPOINTS(
    "findArtifactFromTask",
    "GET /task/<indexPath>/artifacts/<name>",
    "Get Artifact From Indexed Task",
    scopes="queue:get-artifact:<name>",
    success=303,
)
async def find_artifact(services: IndexServices, call: Call) -> Answer:
    """Redirects to an artifact of the last run of the task that a path names."""
    name = call.params["name"]  # the queue's signed URL of it, if not everybody may read it
    entry = await services.index.find(call.params["indexPath"])
    resource = f"/api/queue/v1/task/{entry.task_id}/artifacts/{quote(name, safe='')}"
    url = services.settings.root_url + resource
    if await _is_public(services, name):
        return redirection(await _content(services, entry.task_id, name) or url)
    expiry = services.runtime.now() + BEWIT_LIFE
    issuer = ROOT_CLIENT_ID, services.settings.root_access_token.get_secret_value()
    scopes = [f"queue:get-artifact:{each}" for each in await _readable(services, call, entry.task_id)]
    site = hawk.Site.of(services.settings.root_url)
    bewit = hawk.make_bewit(*issuer, resource, expiry, site, authorized_scopes=scopes, share=CURRENT.get())
    return redirection(f"{url}?bewit={bewit}")


@ENDPOINTS("findTask", "GET /task/<indexPath>", "Find Indexed Task", scopes=_FIND)
async def find_task(services: IndexServices, call: Call) -> Annotated[Json, IndexedTaskResponse]:
    """Returns the entry of a path."""
    return _shown(await services.index.find(call.params["indexPath"]))


@ENDPOINTS(
    "findTasksAtIndex",
    "POST /tasks/indexes",
    "Find tasks at indexes",
    scopes=all_of(for_each("indexPath", "indexPaths", _FIND)),
    input=ListTasksAtIndex,
    stability="experimental",
)
async def find_tasks_at_index(services: IndexServices, call: Call) -> Annotated[Json, ListTasksResponse]:
    """Returns the entries of those of the given paths that have one, in no promised order."""
    paths = list(dict.fromkeys(call.payload(ListTasksAtIndex).indexes))
    await call.authorise({"indexPaths": paths})
    limit = _limit(call, bounds.PAGE_OF_LOOKUPS)
    fingerprint = digest_of("\n".join(paths))
    position, _, of = (start_of(call.query) or f"0~{fingerprint}").partition("~")
    if not (position.isascii() and position.isdigit() and len(position) < 10):
        raise InputError("Invalid continuation token")
    if of != fingerprint:  # a token is valid only with the list of paths that it was given for
        return {"tasks": []}
    found, resume = await services.index.find_all(paths, int(position), limit)
    return {"tasks": [_shown(entry) for entry in found], **continued(None if resume is None else f"{resume}~{of}")}


@ENDPOINTS(
    "listNamespaces",
    "GET /namespaces/<namespace>",
    "List Namespaces",
    scopes="index:list-namespaces:<namespace>",
    authorised_late=True,
)
async def list_namespaces(services: IndexServices, call: Call) -> Annotated[Json, ListNamespacesResponse]:
    """Lists the namespaces right below a namespace, or those at the top, by name."""
    namespace = call.params.get("namespace", "")
    await call.authorise({"namespace": namespace})
    found, resume = await services.index.namespaces(namespace, start_of(call.query), _limit(call))
    shown = [{"namespace": one.path, "name": split(one.path)[1], "expires": format_date(one.expires)} for one in found]
    return {"namespaces": shown, **continued(resume)}


@ENDPOINTS(
    "listTasks", "GET /tasks/<namespace>", "List Tasks", scopes="index:list-tasks:<namespace>", authorised_late=True
)
async def list_tasks(services: IndexServices, call: Call) -> Annotated[Json, ListTasksResponse]:
    """Lists the entries right below a namespace, or those at the top, by name."""
    namespace = call.params.get("namespace", "")
    await call.authorise({"namespace": namespace})
    found, resume = await services.index.entries(namespace, start_of(call.query), _limit(call))
    return {"tasks": [_shown(entry) for entry in found], **continued(resume)}


@ENDPOINTS(
    "insertTask",
    "PUT /task/<namespace>",
    "Insert Task into Index",
    scopes="index:insert-task:<namespace>",
    input=InsertTaskRequest,
)
async def insert_task(services: IndexServices, call: Call) -> Annotated[Json, IndexedTaskResponse]:
    """Makes a path name a task, unless an entry of a higher rank is there: what is stored afterwards is returned."""
    request = call.payload(InsertTaskRequest)
    entry = IndexEntry(
        path=call.params["namespace"],
        task_id=request.taskId,
        rank=request.rank,
        data=request.data,
        expires=parse_date(request.expires),
        at=services.runtime.now(),
    )
    return _shown(await services.index.insert(entry))


@ENDPOINTS("deleteTask", "DELETE /task/<namespace>", "Remove Task from Index", scopes="index:delete-task:<namespace>")
async def delete_task(services: IndexServices, call: Call) -> Mapping[str, Any]:
    """Removes the entry of a path, if there is one."""
    path = call.params["namespace"]
    async with services.audit.entry_of(call, audit.Subject("index", path), "deleted") as entry:
        audit.note_change(entry, None)
        audit.note_change(entry, await services.index.remove_entry(path))
    return {}


# References omit the other forms of listings: without a namespace, and what older clients POST.
for _listing in [each for each in ENDPOINTS if each.name in ("listNamespaces", "listTasks")]:
    _posted = replace(
        _listing,
        name=f"{_listing.name}Post",
        method="POST",
        query={},
        input=ListNamespacesRequest if _listing.handler is list_namespaces else None,
        stability="deprecated",
    )
    _root = _listing.route.removesuffix("/<namespace>")
    ENDPOINTS += [
        replace(_listing, route=_root, unlisted=True),
        replace(_posted, unlisted=True),
        replace(_posted, route=_root, unlisted=True),
    ]


async def _readable(services: IndexServices, call: Call, task_id: str) -> Sequence[str]:
    """Returns the names of the artifact and of the links that follow it, up to one that the caller may not read."""
    name = call.params["name"]
    readable: Sequence[str] = [name]

    async def authorise(names: Sequence[str]) -> None:
        nonlocal readable
        await call.authorise({"name": names[-1]})
        readable = list(names)

    with suppress(ApiError):  # the queue reports it when the client follows the redirection
        await services.artifacts.reading.find_latest(task_id, name, authorise)
    return readable


async def _is_public(services: IndexServices, name: str) -> bool:
    """Returns whether callers without credentials may read an artifact of this name; no if that is unknown."""
    try:
        scopes = (await services.keyring.roles()).expand([ANONYMOUS])
    except (StorageUnavailable, ExpansionTooLarge):
        return False
    return satisfies(scopes, f"queue:get-artifact:{name}")


async def _content(services: IndexServices, task_id: str, name: str) -> str | None:
    """Returns where the content of an artifact of the task's last run is, if it has one that a browser can open."""

    async def authorise(names: Sequence[str]) -> None:
        for each in names:
            if not await _is_public(services, each):
                raise InputError("the link leads to an artifact that is not public")

    reading = services.artifacts.reading
    try:
        stored = await reading.find_latest(task_id, name, authorise)
        if stored.artifact.storage_type in (StorageType.OBJECT, StorageType.ERROR):
            return None
        address = await reading.url(stored)
    except (ApiError, StorageUnavailable):
        return None
    return address if urlsplit(address).scheme in ("http", "https") else None


def _shown(entry: IndexEntry) -> dict[str, Any]:
    return {
        "namespace": entry.path,
        "taskId": entry.task_id,
        "rank": entry.rank,
        "data": entry.data,
        "expires": format_date(entry.expires),
    }


def _limit(call: Call, default: int = bounds.PAGE) -> int:
    limit = limit_of(call.query, default)
    if limit == 0:
        raise InputError("`limit` must be 1 at least")
    return limit
