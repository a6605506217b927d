"""Endpoints on task queues, worker types and provisioners, and on what waits and runs in them (contract 2.1, 8, 9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from shared.api.endpoint import PAGING, Call, Endpoint
from shared.api.paging import continued, limit_of, start_of
from shared.concurrency import both
from shared.domain.dates import format_date, parse_date
from shared.endpoints.pool_models import (
    ListClaimedTasksResponse,
    ListPendingTasksResponse,
    ListProvisionersResponse,
    ListTaskQueuesResponse,
    ListWorkerTypesResponse,
    PendingTasksResponse,
    ProvisionerResponse,
    TaskQueueCountsListResponse,
    TaskQueueCountsRequest,
    TaskQueueCountsResponse,
    TaskQueueResponse,
    UpdateProvisionerRequest,
    UpdateWorkerTypeRequest,
    WorkerTypeResponse,
)
from shared.errors import InputError
from shared.services import Services
from shared.storage.directory import Declaration, Entry
from shared.storage.pools import Counts
from shared.types import TASK_QUEUE_PATTERN
from shared.usecases.pool_views import ListedRun

_TASK_QUEUE = re.compile(TASK_QUEUE_PATTERN.removesuffix("$"))


async def list_provisioners(services: Services, call: Call) -> Mapping[str, Any]:
    """listProvisioners."""
    page = await services.directory.provisioners(start=start_of(call.query), limit=limit_of(call.query))
    return _page("provisioners", page, _provisioner)


async def get_provisioner(services: Services, call: Call) -> Mapping[str, Any]:
    """getProvisioner."""
    return _provisioner(await services.directory.provisioner(call.params["provisionerId"]))


async def declare_provisioner(services: Services, call: Call) -> Mapping[str, Any]:
    """declareProvisioner."""
    declaration = await declared(call, call.payload(UpdateProvisionerRequest))
    return _provisioner(await services.directory.declare_provisioner(call.params["provisionerId"], declaration))


async def list_worker_types(services: Services, call: Call) -> Mapping[str, Any]:
    """listWorkerTypes."""
    page = await services.directory.worker_types(
        call.params["provisionerId"], start=start_of(call.query), limit=limit_of(call.query)
    )
    return _page("workerTypes", page, _worker_type)


async def get_worker_type(services: Services, call: Call) -> Mapping[str, Any]:
    """getWorkerType."""
    entry, actions = await both(
        services.directory.task_queue(task_queue_of(call.params)),
        services.directory.actions(call.params["provisionerId"], "worker-type"),
    )
    return _worker_type(entry) | with_actions(actions)


async def declare_worker_type(services: Services, call: Call) -> Mapping[str, Any]:
    """declareWorkerType."""
    declaration = await declared(call, call.payload(UpdateWorkerTypeRequest))
    task_queue_id = new_task_queue_of(call.params)
    return _worker_type(await services.directory.declare_task_queue(task_queue_id, declaration))


async def list_task_queues(services: Services, call: Call) -> Mapping[str, Any]:
    """listTaskQueues."""
    page = await services.directory.task_queues(start=start_of(call.query), limit=limit_of(call.query))
    return _page("taskQueues", page, _task_queue)


async def get_task_queue(services: Services, call: Call) -> Mapping[str, Any]:
    """getTaskQueue."""
    return _task_queue(await services.directory.task_queue(call.params["taskQueueId"]))


async def pending_tasks(services: Services, call: Call) -> Mapping[str, Any]:
    """pendingTasks."""
    task_queue_id = call.params["taskQueueId"]
    return {**_ids(task_queue_id), "pendingTasks": await services.pool_views.pending_count(task_queue_id)}


async def task_queue_counts(services: Services, call: Call) -> Mapping[str, Any]:
    """taskQueueCounts."""
    task_queue_id = call.params["taskQueueId"]
    return _counts(task_queue_id, await services.pool_views.counts(task_queue_id))


async def task_queue_counts_batch(services: Services, call: Call) -> Mapping[str, Any]:
    """taskQueueCountsBatch: one task queue that is not allowed fails the whole."""
    task_queue_ids = call.payload(TaskQueueCountsRequest).taskQueueIds
    await call.authorise({"taskQueueIds": task_queue_ids})
    found = await services.pool_views.counts_of_many(task_queue_ids)
    return {"taskQueueCounts": [_counts(task_queue_id, counts) for task_queue_id, counts in found]}


async def list_pending_tasks(services: Services, call: Call) -> Mapping[str, Any]:
    """listPendingTasks."""
    runs, resume = await services.pool_views.pending(
        call.params["taskQueueId"], start=start_of(call.query), limit=limit_of(call.query)
    )
    return {"tasks": [_pending(run) for run in runs], **continued(resume)}


async def list_claimed_tasks(services: Services, call: Call) -> Mapping[str, Any]:
    """listClaimedTasks."""
    runs, resume = await services.pool_views.claimed(
        call.params["taskQueueId"], start=start_of(call.query), limit=limit_of(call.query)
    )
    return {"tasks": [_claimed(run) for run in runs], **continued(resume)}


async def declared(call: Call, request: BaseModel) -> Declaration:
    """What a request declares, authorised property by property.

    Raises InputError for nothing: nobody needs a scope for that, and it must not make anything.
    """
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
    """The task queue that a provisioner and a worker type name."""
    return f"{params['provisionerId']}/{params['workerType']}"


def new_task_queue_of(params: Mapping[str, str]) -> str:
    """The same where it may have to be made: a URL allows more than a worker type may be called (trap 29).

    Raises InputError.
    """
    task_queue_id = task_queue_of(params)
    if not _TASK_QUEUE.fullmatch(task_queue_id):
        raise InputError(f"{params['workerType']!r} cannot be a worker type: it must match {TASK_QUEUE_PATTERN}")
    return task_queue_id


def with_actions(actions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Declared actions of a worker type or a worker, where there are any: today's clients do not know of them."""
    return {"actions": list(actions)} if actions else {}


def _page(
    name: str, page: tuple[list[Entry], str | None], shown: Callable[[Entry], Mapping[str, Any]]
) -> dict[str, Any]:
    entries, resume = page
    return {name: [shown(entry) for entry in entries], **continued(resume)}


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "stability": entry.stability,
        "description": entry.description,
        "expires": format_date(entry.expires),
        "lastDateActive": format_date(entry.last_active),
    }


def _provisioner(entry: Entry) -> dict[str, Any]:
    return {"provisionerId": entry.name, **_entry(entry), "actions": list(entry.actions)}


def _task_queue(entry: Entry) -> dict[str, Any]:
    return {"taskQueueId": entry.name, **_entry(entry)}


def _worker_type(entry: Entry) -> dict[str, Any]:
    return {**_ids(entry.name), **_entry(entry)}


def _ids(task_queue_id: str) -> dict[str, str]:
    provisioner_id, worker_type = task_queue_id.split("/", 1)
    return {"provisionerId": provisioner_id, "workerType": worker_type, "taskQueueId": task_queue_id}


def _counts(task_queue_id: str, counts: Counts) -> dict[str, Any]:
    return {**_ids(task_queue_id), "pendingTasks": counts.pending, "claimedTasks": counts.claimed}


def _pending(listed: ListedRun) -> dict[str, Any]:
    run = listed.loaded.task.runs[listed.run_id]
    return {
        "taskId": listed.loaded.task.task_id,
        "runId": listed.run_id,
        "task": listed.definition,
        "inserted": format_date(run.scheduled),
    }


def _claimed(listed: ListedRun) -> dict[str, Any]:
    run = listed.loaded.task.runs[listed.run_id]
    return {
        "taskId": listed.loaded.task.task_id,
        "runId": listed.run_id,
        "workerGroup": run.worker_group,
        "workerId": run.worker_id,
        "claimed": format_date(run.started or run.scheduled),
        "task": listed.definition,
    }


_METADATA = "Worker Metadata"
_TASKS = "Tasks"

PROVISIONERS = (
    Endpoint(
        name="listProvisioners",
        method="GET",
        route="/provisioners",
        handler=list_provisioners,
        title="Get a list of all active provisioners",
        description="Lists the provisioners that have a task queue in use, a page at a time.",
        category=_METADATA,
        scopes="queue:list-provisioners",
        query=PAGING,
        output=ListProvisionersResponse,
        output_schema="list-provisioners-response",
        stability="deprecated",
    ),
    Endpoint(
        name="getProvisioner",
        method="GET",
        route="/provisioners/<provisionerId>",
        handler=get_provisioner,
        title="Get an active provisioner",
        description="Returns a provisioner: when it expires, and when one of its task queues was last used.",
        category=_METADATA,
        scopes="queue:get-provisioner:<provisionerId>",
        output=ProvisionerResponse,
        output_schema="provisioner-response",
        stability="deprecated",
    ),
    Endpoint(
        name="declareProvisioner",
        method="PUT",
        route="/provisioners/<provisionerId>",
        handler=declare_provisioner,
        title="Update a provisioner",
        description="Declares a provisioner, or changes what was declared. Each property needs a scope of its own. "
        "Its expiration only moves forward. Kept for clients from before 2021.",
        category=_METADATA,
        scopes={
            "AllOf": [
                {
                    "for": "property",
                    "in": "properties",
                    "each": "queue:declare-provisioner:<provisionerId>#<property>",
                }
            ]
        },
        input=UpdateProvisionerRequest,
        input_schema="update-provisioner-request",
        output=ProvisionerResponse,
        output_schema="provisioner-response",
        stability="deprecated",
    ),
    Endpoint(
        name="listWorkerTypes",
        method="GET",
        route="/provisioners/<provisionerId>/worker-types",
        handler=list_worker_types,
        title="Get a list of all active worker-types",
        description="Lists the task queues of a provisioner that are in use, a page at a time.",
        category=_METADATA,
        scopes="queue:list-worker-types:<provisionerId>",
        query=PAGING,
        output=ListWorkerTypesResponse,
        output_schema="list-workertypes-response",
        stability="deprecated",
    ),
    Endpoint(
        name="getWorkerType",
        method="GET",
        route="/provisioners/<provisionerId>/worker-types/<workerType>",
        handler=get_worker_type,
        title="Get a worker-type",
        description="Returns a worker type of a provisioner, as getTaskQueue.",
        category=_METADATA,
        scopes="queue:get-worker-type:<provisionerId>/<workerType>",
        output=WorkerTypeResponse,
        output_schema="workertype-response",
        stability="deprecated",
    ),
    Endpoint(
        name="declareWorkerType",
        method="PUT",
        route="/provisioners/<provisionerId>/worker-types/<workerType>",
        handler=declare_worker_type,
        title="Update a worker-type",
        description="Declares a worker type, or changes what was declared. Each property needs a scope of its own. "
        "Its expiration only moves forward. Kept for clients from before 2021.",
        category=_METADATA,
        scopes={
            "AllOf": [
                {
                    "for": "property",
                    "in": "properties",
                    "each": "queue:declare-worker-type:<provisionerId>/<workerType>#<property>",
                }
            ]
        },
        input=UpdateWorkerTypeRequest,
        input_schema="update-workertype-request",
        output=WorkerTypeResponse,
        output_schema="workertype-response",
        stability="deprecated",
    ),
)

TASK_QUEUES = (
    Endpoint(
        name="listTaskQueues",
        method="GET",
        route="/task-queues",
        handler=list_task_queues,
        title="Get a list of all active task queues",
        description="Lists the task queues that are in use, a page at a time, in the order of taskQueueId.",
        category=_METADATA,
        scopes="queue:list-task-queues",
        query=PAGING,
        output=ListTaskQueuesResponse,
        output_schema="list-taskqueues-response",
    ),
    Endpoint(
        name="getTaskQueue",
        method="GET",
        route="/task-queues/<taskQueueId>",
        handler=get_task_queue,
        title="Get a task queue",
        description="Returns a task queue: when it expires, and when a worker last asked for its work.",
        category=_METADATA,
        scopes="queue:get-task-queue:<taskQueueId>",
        output=TaskQueueResponse,
        output_schema="taskqueue-response",
    ),
)

CONTENTS = (
    Endpoint(
        name="pendingTasks",
        method="GET",
        route="/pending/<taskQueueId>",
        handler=pending_tasks,
        title="Get Number of Pending Tasks",
        description="Returns how many runs are pending in a task queue. Runs that were canceled or are past their "
        "deadline do not count.",
        category=_TASKS,
        scopes="queue:pending-count:<taskQueueId>",
        output=PendingTasksResponse,
        output_schema="pending-tasks-response",
        stability="deprecated",
        raw_slash=True,
    ),
    Endpoint(
        name="taskQueueCounts",
        method="GET",
        route="/task-queues/<taskQueueId>/counts",
        handler=task_queue_counts,
        title="Get Number of Pending and Claimed Tasks",
        description="Returns how many runs of a task queue are pending, and how many are running.",
        category=_TASKS,
        scopes={"AllOf": ["queue:pending-count:<taskQueueId>", "queue:claimed-count:<taskQueueId>"]},
        output=TaskQueueCountsResponse,
        output_schema="task-queue-counts-response",
        raw_slash=True,
    ),
    Endpoint(
        name="taskQueueCountsBatch",
        method="POST",
        route="/task-queues/counts",
        handler=task_queue_counts_batch,
        title="Get Pending and Claimed Task Counts for Multiple Task Queues",
        description="As taskQueueCounts, for up to a thousand task queues. The caller needs the scopes for every "
        "one of them.",
        category=_TASKS,
        scopes={
            "AllOf": [
                {"for": "taskQueueId", "in": "taskQueueIds", "each": "queue:pending-count:<taskQueueId>"},
                {"for": "taskQueueId", "in": "taskQueueIds", "each": "queue:claimed-count:<taskQueueId>"},
            ]
        },
        input=TaskQueueCountsRequest,
        input_schema="task-queue-counts-request",
        output=TaskQueueCountsListResponse,
        output_schema="task-queue-counts-list-response",
        stability="experimental",
    ),
    Endpoint(
        name="listPendingTasks",
        method="GET",
        route="/task-queues/<taskQueueId>/pending",
        handler=list_pending_tasks,
        title="List Pending Tasks",
        description="Lists the pending runs of a task queue, a page at a time, first scheduled first.",
        category=_TASKS,
        scopes="queue:pending-list:<taskQueueId>",
        query=PAGING,
        output=ListPendingTasksResponse,
        output_schema="list-pending-tasks-response",
        stability="experimental",
        raw_slash=True,
    ),
    Endpoint(
        name="listClaimedTasks",
        method="GET",
        route="/task-queues/<taskQueueId>/claimed",
        handler=list_claimed_tasks,
        title="List claimed Tasks",
        description="Lists the running runs of a task queue, a page at a time, first claimed first.",
        category=_TASKS,
        scopes="queue:claimed-list:<taskQueueId>",
        query=PAGING,
        output=ListClaimedTasksResponse,
        output_schema="list-claimed-tasks-response",
        stability="experimental",
        raw_slash=True,
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = (*PROVISIONERS, *TASK_QUEUES, *CONTENTS)
