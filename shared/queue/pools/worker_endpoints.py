"""Endpoints on workers: models, rows and handlers (contract 2.1, 2.3, 8)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import StringConstraints

from shared.api.endpoint import PAGING, Call, Endpoints, Json
from shared.api.scopes import all_of, for_each
from shared.api.validation import continued, page_of, place_of, start_of
from shared.auth import audit
from shared.auth.audit import NOBODY
from shared.base import types
from shared.base.concurrency import both
from shared.base.dates import format_date, parse_date
from shared.queue.pools.models import Action
from shared.queue.pools.provisioner_endpoints import declared, new_task_queue_of, task_queue_of, with_actions
from shared.queue.pools.worker_rows import QUARANTINE_COLUMNS, WorkerRecord
from shared.queue.pools.workers import KnownWorker
from shared.queue.services import QueueServices
from shared.queue.tasks.rules import Worker, ids_of


class TaskRun(types.Closed):
    """A run of a task."""

    taskId: types.SlugId
    runId: types.RunId


class QuarantineDetails(types.Closed):
    """Who set which end of a quarantine, when and why."""

    clientId: str
    updatedAt: types.Date
    quarantineUntil: types.Date
    quarantineInfo: str


class WorkerResponse(types.Closed):
    """A worker. Recent tasks and quarantines: oldest first. `actions` only where some were declared."""

    provisionerId: types.ProvisionerId
    workerType: types.WorkerType
    taskQueueId: types.TaskQueueId = types.optional()
    workerGroup: types.Id
    workerId: types.Id
    recentTasks: list[TaskRun]
    expires: types.Date
    firstClaim: types.Date
    lastDateActive: types.Date = types.optional()
    quarantineUntil: types.Date = types.optional()
    quarantineDetails: list[QuarantineDetails] = types.optional()
    actions: list[Action] = types.optional()


class ListedWorker(types.Closed):
    """A worker in a listing. `quarantineUntil` only while it is in the future."""

    workerGroup: types.Id
    workerId: types.Id
    firstClaim: types.Date
    lastDateActive: types.Date = types.optional()
    latestTask: TaskRun = types.optional()
    quarantineUntil: types.Date = types.optional()


class QuarantineWorkerRequest(types.Closed):
    """Until when a worker gets no work (in the past: from now on it does), and why."""

    quarantineUntil: types.Date
    quarantineInfo: Annotated[str, StringConstraints(max_length=4000)] = types.optional()


class UpdateWorkerRequest(types.Closed):
    """Until when a worker is known, at least."""

    expires: types.Date


ListWorkersResponse = types.page_model("ListWorkersResponse", "A page of workers.", workers=types.Unique[ListedWorker])
WorkerRemovedResponse = types.page_model(
    "WorkerRemovedResponse",
    "The runs that ended now. With a token there are more: call again with it.",
    tasks=list[TaskRun],
)
NO_REASON = "[unspecified]"
_WORKER = "<provisionerId>/<workerType>/<workerGroup>/<workerId>"
_ROUTE = "/provisioners/<provisionerId>/worker-types/<workerType>/workers"
ENDPOINTS = Endpoints[QueueServices]("Worker Metadata", stability="experimental")


@ENDPOINTS(
    "listWorkers",
    f"GET {_ROUTE}",
    "Get a list of all active workers of a workerType",
    scopes="queue:list-workers:<provisionerId>/<workerType>",
    query={**PAGING, "quarantined": r"^(true|false)$"},
    stability="deprecated",
)
async def list_workers(services: QueueServices, call: Call) -> Annotated[Json, ListWorkersResponse]:
    """Lists the workers of a worker type, a page at a time; with `quarantined` only those that are in quarantine, or
    those that are not. The filter is applied to pages, so one may be short or empty while there are more."""
    now = services.runtime.now()
    records, resume = await services.workers.worker_page(task_queue_of(call.params), **place_of(call.query))
    if "quarantined" in call.query:
        wanted = call.query["quarantined"] == "true"
        records = [record for record in records if (record.quarantine_until >= now) == wanted]
    return {"workers": [_worker_json(record, now) for record in records], **continued(resume)}


@ENDPOINTS(
    "getWorker",
    f"GET {_ROUTE}/<workerGroup>/<workerId>",
    "Get a worker from worker-type",
    scopes=f"queue:get-worker:{_WORKER}",
    stability="deprecated",
)
async def get_worker(services: QueueServices, call: Call) -> Annotated[Json, WorkerResponse]:
    """Returns a worker: when it was first seen and when it expires, its latest tasks and its quarantines."""
    worker, actions = await both(
        services.workers.find_worker(task_queue_of(call.params), _named(call)),
        services.directory.actions(call.params["provisionerId"], "worker"),
    )
    return _shown(worker) | with_actions(actions)


@ENDPOINTS(
    "quarantineWorker",
    f"PUT {_ROUTE}/<workerGroup>/<workerId>",
    "Quarantine a worker",
    scopes=f"queue:quarantine-worker:{_WORKER}",
    input=QuarantineWorkerRequest,
)
async def quarantine_worker(services: QueueServices, call: Call) -> Annotated[Json, WorkerResponse]:
    """Gives a worker no work until a time; a time in the past ends its quarantine. The worker keeps its present
    claims."""
    request = call.payload(QuarantineWorkerRequest)
    caller = await call.caller()
    until, named = parse_date(request.quarantineUntil), _named(call)
    action = "quarantined" if until > services.runtime.now() else "released"
    task_queue_id = new_task_queue_of(call.params)
    subject = audit.worker(task_queue_id, named.worker_group, named.worker_id)
    async with services.audit.entry_of(call, subject, action, f"until {format_date(until)}") as entry:
        worker = await services.workers.quarantine(
            task_queue_id,
            named,
            until,
            client_id=caller.client_id or NOBODY,
            info=NO_REASON if request.quarantineInfo is None else request.quarantineInfo,
            entry=entry,
        )
    return _shown(worker)


@ENDPOINTS(
    "workerRemoved",
    f"POST {_ROUTE}/<workerGroup>/<workerId>/removed",
    "Report that a worker is gone",
    scopes=f"queue:worker-removed:{_WORKER}",
    query={"continuationToken": PAGING["continuationToken"]},
)
async def worker_removed(services: QueueServices, call: Call) -> Annotated[Json, WorkerRemovedResponse]:
    """For programs that start and end machines: every run that the worker has claimed is resolved as `worker-shutdown`
    now, and retried while retries are left. Not part of the public API."""
    page = await services.workers.removed(task_queue_of(call.params), _named(call), start=start_of(call.query))
    return page_of("tasks", page, lambda run: _run(*run))


@ENDPOINTS(
    "declareWorker",
    "PUT /provisioners/<provisionerId>/worker-types/<workerType>/<workerGroup>/<workerId>",
    "Declare a worker",
    scopes=all_of(for_each("property", "properties", f"queue:declare-worker:{_WORKER}#<property>")),
    input=UpdateWorkerRequest,
)
async def declare_worker(services: QueueServices, call: Call) -> Annotated[Json, WorkerResponse]:
    """Registers a worker, with its worker type and provisioner, until a time at least."""
    request = call.payload(UpdateWorkerRequest)
    await declared(call, request)
    return _shown(
        await services.workers.declare(new_task_queue_of(call.params), _named(call), parse_date(request.expires))
    )


def _named(call: Call) -> Worker:
    return Worker(worker_group=call.params["workerGroup"], worker_id=call.params["workerId"])


def _worker_json(record: WorkerRecord, now: datetime) -> dict[str, Any]:
    shown = _seen(record)
    if record.recent_tasks:
        shown["latestTask"] = _run(*record.recent_tasks[-1])
    if record.is_quarantined(now):
        shown["quarantineUntil"] = format_date(record.quarantine_until)
    return shown


def _shown(worker: KnownWorker) -> dict[str, Any]:
    record = worker.record
    shown = {
        **ids_of(record.task_queue_id),
        **_seen(record),
        "recentTasks": [_run(*run) for run in record.recent_tasks],
        "expires": format_date(record.expires),
        "quarantineUntil": format_date(record.quarantine_until),
    }
    if worker.history:
        shown["quarantineDetails"] = [QUARANTINE_COLUMNS.encode(entry) for entry in worker.history]
    return shown


def _seen(record: WorkerRecord) -> dict[str, Any]:
    return {
        "workerGroup": record.worker_group,
        "workerId": record.worker_id,
        "firstClaim": format_date(record.first_claim),
        "lastDateActive": format_date(record.last_active),
    }


def _run(task_id: str, run_id: int) -> dict[str, Any]:
    return {"taskId": task_id, "runId": run_id}
