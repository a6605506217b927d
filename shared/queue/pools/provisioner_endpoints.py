"""Endpoints on provisioners and worker types, the older names of groups of task queues (contract 2.1, 8)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel

from shared.api.endpoint import Call, Endpoints, Json
from shared.api.scopes import all_of, for_each
from shared.api.validation import page_of, place_of
from shared.base.concurrency import both
from shared.base.dates import parse_date
from shared.base.errors import InputError
from shared.base.types import TASK_QUEUE_PATTERN
from shared.queue.pools import models
from shared.queue.pools.directory import DESCRIBED, Declaration, DirectoryEntry, DirectoryKind
from shared.queue.services import QueueServices
from shared.queue.tasks.rules import ids_of

_TASK_QUEUE = re.compile(TASK_QUEUE_PATTERN.removesuffix("$"))
ENDPOINTS = Endpoints[QueueServices]("Worker Metadata", stability="deprecated")


@ENDPOINTS(
    "listProvisioners", "GET /provisioners", "Get a list of all active provisioners", scopes="queue:list-provisioners"
)
async def list_provisioners(services: QueueServices, call: Call) -> Annotated[Json, models.ListProvisionersResponse]:
    """Lists the provisioners that have a task queue in use, a page at a time."""
    page = await services.directory.directory_page(DirectoryKind.PROVISIONER, **place_of(call.query))
    return page_of("provisioners", page, _provisioner)


@ENDPOINTS(
    "getProvisioner",
    "GET /provisioners/<provisionerId>",
    "Get an active provisioner",
    scopes="queue:get-provisioner:<provisionerId>",
)
async def get_provisioner(services: QueueServices, call: Call) -> Annotated[Json, models.ProvisionerResponse]:
    """Returns a provisioner: when it expires, and when one of its task queues was last used."""
    return _provisioner(await services.directory.find_listed(DirectoryKind.PROVISIONER, call.params["provisionerId"]))


@ENDPOINTS(
    "declareProvisioner",
    "PUT /provisioners/<provisionerId>",
    "Update a provisioner",
    scopes=all_of(for_each("property", "properties", "queue:declare-provisioner:<provisionerId>#<property>")),
    input=models.UpdateProvisionerRequest,
)
async def declare_provisioner(services: QueueServices, call: Call) -> Annotated[Json, models.ProvisionerResponse]:
    """Declares a provisioner, or changes what was declared. Each property needs a scope of its own. Its expiration only
    moves forward. Kept for clients from before 2021."""
    declaration = await declared(call, call.payload(models.UpdateProvisionerRequest))
    return _provisioner(await services.directory.declare_provisioner(call.params["provisionerId"], declaration))


@ENDPOINTS(
    "listWorkerTypes",
    "GET /provisioners/<provisionerId>/worker-types",
    "Get a list of all active worker-types",
    scopes="queue:list-worker-types:<provisionerId>",
)
async def list_worker_types(services: QueueServices, call: Call) -> Annotated[Json, models.ListWorkerTypesResponse]:
    """Lists the task queues of a provisioner that are in use, a page at a time."""
    page = await services.directory.directory_page(
        DirectoryKind.TASK_QUEUE, **place_of(call.query), provisioner_id=call.params["provisionerId"]
    )
    return page_of("workerTypes", page, _worker_type)


@ENDPOINTS(
    "getWorkerType",
    "GET /provisioners/<provisionerId>/worker-types/<workerType>",
    "Get a worker-type",
    scopes="queue:get-worker-type:<provisionerId>/<workerType>",
)
async def get_worker_type(services: QueueServices, call: Call) -> Annotated[Json, models.WorkerTypeResponse]:
    """Returns a worker type of a provisioner, as getTaskQueue does."""
    entry, actions = await both(
        services.directory.find_listed(DirectoryKind.TASK_QUEUE, task_queue_of(call.params)),
        services.directory.actions(call.params["provisionerId"], "worker-type"),
    )
    return _worker_type(entry) | with_actions(actions)


@ENDPOINTS(
    "declareWorkerType",
    "PUT /provisioners/<provisionerId>/worker-types/<workerType>",
    "Update a worker-type",
    scopes=all_of(
        for_each("property", "properties", "queue:declare-worker-type:<provisionerId>/<workerType>#<property>")
    ),
    input=models.UpdateWorkerTypeRequest,
)
async def declare_worker_type(services: QueueServices, call: Call) -> Annotated[Json, models.WorkerTypeResponse]:
    """Declares a worker type, or changes what was declared. Each property needs a scope of its own. Its expiration only
    moves forward. Kept for clients from before 2021."""
    declaration = await declared(call, call.payload(models.UpdateWorkerTypeRequest))
    task_queue_id = new_task_queue_of(call.params)
    return _worker_type(await services.directory.declare_task_queue(task_queue_id, declaration))


async def declared(call: Call, request: BaseModel) -> Declaration:
    """Returns what a request declares, after each of its properties was authorised. Raises InputError for an empty
    declaration, which needs no scope and so must change nothing."""
    properties = request.model_dump(exclude_none=True)
    await call.authorise({"properties": sorted(properties)})
    if not properties:
        raise InputError("at least one property must be declared")
    expires = properties.get("expires")
    return Declaration(
        expires=None if expires is None else parse_date(expires),
        stability=properties.get("stability"),
        description=properties.get("description"),
        actions=tuple(properties["actions"]) if "actions" in properties else None,
    )


def task_queue_of(params: Mapping[str, str]) -> str:
    """Returns the task queue that a provisioner and a worker type name."""
    return f"{params['provisionerId']}/{params['workerType']}"


def new_task_queue_of(params: Mapping[str, str]) -> str:
    """Does so for calls that may create it: a URL allows names that no worker type has (trap 29). Raises InputError."""
    task_queue_id = task_queue_of(params)
    if not _TASK_QUEUE.fullmatch(task_queue_id):
        raise InputError(f"{params['workerType']!r} cannot be a worker type: it must match {TASK_QUEUE_PATTERN}")
    return task_queue_id


def with_actions(actions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns declared actions as a property, or none without any: today's clients and schemas do not know them."""
    return {"actions": list(actions)} if actions else {}


def _provisioner(entry: DirectoryEntry) -> dict[str, Any]:
    return {"provisionerId": entry.name, **DESCRIBED.encode(entry)} | with_actions(entry.actions)


def _worker_type(entry: DirectoryEntry) -> dict[str, Any]:
    return {**ids_of(entry.name), **DESCRIBED.encode(entry)}
