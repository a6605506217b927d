"""Endpoints for workers: claim, reclaim, report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functions.http import Handler
from shared.api.answer import Answer, json_answer
from shared.api.call import Call
from shared.api.models.work import ClaimWorkRequest, TaskClaimRequest, TaskExceptionRequest
from shared.domain.claims import Worker
from shared.domain.dates import format_date
from shared.domain.task import Resolved
from shared.services import Services
from shared.usecases.work import Claim


async def claim_work(services: Services, call: Call) -> Answer:
    """claimWork."""
    request = call.payload(ClaimWorkRequest)
    await call.authorise({"workerGroup": request.workerGroup, "workerId": request.workerId})
    task_queue_id, count = call.params["taskQueueId"], request.tasks
    worker = Worker(worker_group=request.workerGroup, worker_id=request.workerId)
    wait = services.settings.long_poll_seconds
    if "xmlMessage" not in request.model_fields_set:
        claims = await services.work.claim_work(task_queue_id, worker, count, wait)
    else:
        claims = await services.work.claim_polled(task_queue_id, worker, count, request.xmlMessage, wait)
    if not claims:
        return json_answer({"tasks": []}, headers=advice(services.back_off.in_vain(task_queue_id)))
    services.back_off.worked(task_queue_id)
    return json_answer({"tasks": [claimed(claim) for claim in claims]})


async def poll_task_urls(services: Services, call: Call) -> Answer:
    """pollTaskUrls."""
    task_queue_id = call.params["taskQueueId"]
    urls, expires = await services.poll_urls.of_pool(task_queue_id)
    answer = {
        "queues": [{"signedPollUrl": url.poll, "signedDeleteUrl": url.delete} for url in urls],
        "expires": format_date(expires),
    }
    return json_answer(answer, headers=advice(services.back_off.in_vain(task_queue_id)))


def advice(seconds: int) -> Mapping[str, str]:
    """The header that asks for a pause."""
    return {"retry-after": str(seconds)} if seconds else {}


async def claim_task(services: Services, call: Call) -> Mapping[str, Any]:
    """claimTask."""
    request = call.payload(TaskClaimRequest)
    read = await services.work.found_for_claim(call.params["taskId"])
    provisioner_id, worker_type = read.task.task_queue_id.split("/", 1)
    await call.authorise(
        {
            "provisionerId": provisioner_id,
            "workerType": worker_type,
            "workerGroup": request.workerGroup,
            "workerId": request.workerId,
        }
    )
    worker = Worker(worker_group=request.workerGroup, worker_id=request.workerId)
    return claimed(await services.work.claim_task(read, call.run_id, worker))


async def reclaim_task(services: Services, call: Call) -> Mapping[str, Any]:
    """reclaimTask: as a claim, without the definition."""
    claim = await services.work.reclaim_task(call.params["taskId"], call.run_id)
    shown = claimed(claim)
    del shown["task"]
    return shown


async def report_completed(services: Services, call: Call) -> Mapping[str, Any]:
    """reportCompleted; a legacy body `{"success": false}` means failed (contract 2.4)."""
    failed = isinstance(call.raw_body, dict) and call.raw_body.get("success") is False
    return await _report(services, call, Resolved.FAILED if failed else Resolved.COMPLETED)


async def report_failed(services: Services, call: Call) -> Mapping[str, Any]:
    """reportFailed."""
    return await _report(services, call, Resolved.FAILED)


async def report_exception(services: Services, call: Call) -> Mapping[str, Any]:
    """reportException."""
    reason = Resolved(call.payload(TaskExceptionRequest).reason)
    task = await services.lifecycle.report_exception(call.params["taskId"], call.run_id, reason)
    return {"status": task.as_json()}


async def _report(services: Services, call: Call, resolution: Resolved) -> Mapping[str, Any]:
    task = await services.lifecycle.report(call.params["taskId"], call.run_id, resolution)
    return {"status": task.as_json()}


def claimed(claim: Claim) -> dict[str, Any]:
    """A claim as workers see it (contract 5.2)."""
    run = claim.task.runs[claim.run_id]
    return {
        "status": claim.task.as_json(),
        "runId": claim.run_id,
        "workerGroup": run.worker_group,
        "workerId": run.worker_id,
        "takenUntil": format_date(claim.taken_until),
        "task": claim.definition,
        "credentials": claim.credentials,
    }


HANDLERS: Mapping[str, Handler] = {
    "claimWork": claim_work,
    "pollTaskUrls": poll_task_urls,
    "claimTask": claim_task,
    "reclaimTask": reclaim_task,
    "reportCompleted": report_completed,
    "reportFailed": report_failed,
    "reportException": report_exception,
}
