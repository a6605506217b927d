"""Endpoints on task queues, worker types and provisioners, and on what waits and runs in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from functions.http import Handler
from shared.api.call import Call
from shared.api.models.pools import TaskQueueCountsRequest, UpdateProvisionerRequest, UpdateWorkerTypeRequest
from shared.api.paging import limit_of, start_of, token_of
from shared.api.types import TASK_QUEUE_PATTERN
from shared.concurrency import both
from shared.domain.dates import format_date, parse_date
from shared.errors import InputError
from shared.services import Services
from shared.storage.directory import Declaration, Entry
from shared.storage.pool_index import Counts
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


def continued(resume: str | None) -> dict[str, str]:
    """The token of the next page, if there is one."""
    return {} if resume is None else {"continuationToken": token_of(resume)}


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


HANDLERS: Mapping[str, Handler] = {
    "listProvisioners": list_provisioners,
    "getProvisioner": get_provisioner,
    "declareProvisioner": declare_provisioner,
    "listWorkerTypes": list_worker_types,
    "getWorkerType": get_worker_type,
    "declareWorkerType": declare_worker_type,
    "listTaskQueues": list_task_queues,
    "getTaskQueue": get_task_queue,
    "pendingTasks": pending_tasks,
    "taskQueueCounts": task_queue_counts,
    "taskQueueCountsBatch": task_queue_counts_batch,
    "listPendingTasks": list_pending_tasks,
    "listClaimedTasks": list_claimed_tasks,
}
