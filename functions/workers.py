"""Endpoints on workers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from functions.http import Handler
from functions.pools import continued, declared, new_task_queue_of, task_queue_of, with_actions
from shared.api.call import Call
from shared.api.models.workers import QuarantineWorkerRequest, UpdateWorkerRequest
from shared.api.paging import limit_of, start_of
from shared.concurrency import both
from shared.domain.claims import Worker
from shared.domain.dates import format_date, parse_date
from shared.services import Services
from shared.storage.workers import WorkerRecord
from shared.usecases.workers import KnownWorker

NO_REASON = "[unspecified]"


async def list_workers(services: Services, call: Call) -> Mapping[str, Any]:
    """listWorkers: the filter is applied to the page (contract 8)."""
    now = services.runtime.now()
    records, resume = await services.workers.page(
        task_queue_of(call.params), start=start_of(call.query), limit=limit_of(call.query)
    )
    if "quarantined" in call.query:
        wanted = call.query["quarantined"] == "true"
        records = [record for record in records if (record.quarantine_until >= now) == wanted]
    return {"workers": [_listed(record, now) for record in records], **continued(resume)}


async def get_worker(services: Services, call: Call) -> Mapping[str, Any]:
    """getWorker."""
    worker, actions = await both(
        services.workers.get(task_queue_of(call.params), _named(call)),
        services.directory.actions(call.params["provisionerId"], "worker"),
    )
    return _shown(worker) | with_actions(actions)


async def quarantine_worker(services: Services, call: Call) -> Mapping[str, Any]:
    """quarantineWorker."""
    request = call.payload(QuarantineWorkerRequest)
    caller = await call.caller()
    worker = await services.workers.quarantine(
        task_queue_of(call.params),
        _named(call),
        parse_date(request.quarantineUntil),
        client_id=caller.client_id or "anonymous",
        info=NO_REASON if request.quarantineInfo is None else request.quarantineInfo,
    )
    return _shown(worker)


async def declare_worker(services: Services, call: Call) -> Mapping[str, Any]:
    """declareWorker."""
    request = call.payload(UpdateWorkerRequest)
    await declared(call, request)
    return _shown(
        await services.workers.declare(new_task_queue_of(call.params), _named(call), parse_date(request.expires))
    )


async def worker_removed(services: Services, call: Call) -> Mapping[str, Any]:
    """workerRemoved."""
    runs, resume = await services.workers.removed(task_queue_of(call.params), _named(call), start=start_of(call.query))
    return {"tasks": [_run(*run) for run in runs], **continued(resume)}


def _named(call: Call) -> Worker:
    return Worker(worker_group=call.params["workerGroup"], worker_id=call.params["workerId"])


def _listed(record: WorkerRecord, now: datetime) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "workerGroup": record.worker_group,
        "workerId": record.worker_id,
        "firstClaim": format_date(record.first_claim),
        "lastDateActive": format_date(record.last_active),
    }
    if record.recent_tasks:
        shown["latestTask"] = _run(*record.recent_tasks[-1])
    if record.is_quarantined(now):
        shown["quarantineUntil"] = format_date(record.quarantine_until)
    return shown


def _shown(worker: KnownWorker) -> dict[str, Any]:
    record = worker.record
    provisioner_id, worker_type = record.task_queue_id.split("/", 1)
    shown: dict[str, Any] = {
        "provisionerId": provisioner_id,
        "workerType": worker_type,
        "taskQueueId": record.task_queue_id,
        "workerGroup": record.worker_group,
        "workerId": record.worker_id,
        "recentTasks": [_run(*run) for run in record.recent_tasks],
        "expires": format_date(record.expires),
        "firstClaim": format_date(record.first_claim),
        "lastDateActive": format_date(record.last_active),
        "quarantineUntil": format_date(record.quarantine_until),
    }
    if worker.history:
        shown["quarantineDetails"] = [
            {
                "clientId": entry.client_id,
                "updatedAt": format_date(entry.updated),
                "quarantineUntil": format_date(entry.until),
                "quarantineInfo": entry.info,
            }
            for entry in worker.history
        ]
    return shown


def _run(task_id: str, run_id: int) -> dict[str, Any]:
    return {"taskId": task_id, "runId": run_id}


HANDLERS: Mapping[str, Handler] = {
    "listWorkers": list_workers,
    "getWorker": get_worker,
    "quarantineWorker": quarantine_worker,
    "declareWorker": declare_worker,
    "workerRemoved": worker_removed,
}
