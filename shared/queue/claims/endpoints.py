"""Endpoints for workers, to claim, reclaim and report: models, rows and handlers (contract 2.1 to 2.3, 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from shared.api.answer import Answer, json_answer
from shared.api.endpoint import Call, Endpoints, Json
from shared.api.scopes import all_of, any_of
from shared.base.dates import format_date
from shared.base.errors import CallAgain
from shared.base.types import Closed, Date, Id, OneOf, RunId, Unique, optional
from shared.queue.claims.poll_urls import LONGEST_ANSWER
from shared.queue.claims.work import Claim
from shared.queue.services import QueueServices
from shared.queue.tasks.models import TaskResponse, TaskStatus, TaskStatusResponse
from shared.queue.tasks.rules import REPORTED, Resolved, Worker, ids_of

Url = Annotated[str, StringConstraints(pattern=r"^https?://")]
NotEmpty = Annotated[str, StringConstraints(min_length=1)]


class Credentials(Closed):
    """Temporary credentials of a task; `certificate` is JSON text."""

    clientId: NotEmpty
    accessToken: NotEmpty
    certificate: NotEmpty


class TaskClaimRequest(Closed):
    """The worker that claims a given run."""

    workerGroup: Id
    workerId: Id


class ClaimWorkRequest(TaskClaimRequest):
    """The worker that asks for work, and for how many tasks at most."""

    tasks: Annotated[int, Field(ge=1, le=32)] = 1
    xmlMessage: Annotated[str, StringConstraints(max_length=LONGEST_ANSWER)] = optional()
    """The answer of a poll URL, as it is: then only its messages are claimed."""


class PollTaskUrl(Closed):
    """Where to poll the pending messages of one priority, and where to delete them.

    In the latter, `{{messageId}}` and `{{popReceipt}}` stand for the message's, URI-encoded."""

    signedPollUrl: Url
    signedDeleteUrl: Url


class PollTaskUrlsResponse(Closed):
    """Signed URLs, the highest priority first."""

    queues: list[PollTaskUrl]
    expires: Date


class TaskReclaimResponse(Closed):
    """A claim that was renewed."""

    status: TaskStatus
    runId: RunId
    workerGroup: Id
    workerId: Id
    takenUntil: Date
    credentials: Credentials


class TaskClaimResponse(TaskReclaimResponse):
    """A run that a worker holds until takenUntil."""

    task: TaskResponse


class ClaimWorkResponse(Closed):
    """The claims; none when there was no work."""

    tasks: Unique[TaskClaimResponse]


class TaskExceptionRequest(Closed):
    """The reason why a run could not be brought to an end."""

    reason: Annotated[str, OneOf(REPORTED)]


ENDPOINTS = Endpoints[QueueServices]("Worker Interface")


@ENDPOINTS(
    "claimWork",
    "POST /claim-work/<taskQueueId>",
    "Claim Work",
    scopes=all_of("queue:claim-work:<taskQueueId>", "queue:worker-id:<workerGroup>/<workerId>"),
    input=ClaimWorkRequest,
    waits=True,
    raw_slash=True,
)
async def claim_work(services: QueueServices, call: Call) -> Annotated[Answer, ClaimWorkResponse]:
    """Claims pending tasks of a task queue for a worker. If there are none, waits up to 20 seconds for some. Then a
    call that comes gets them: a worker that waits is answered 503 `CallAgain`, after which clients repeat the call at
    once, or with an empty list. With `xmlMessage`, the answer of a URL of pollTaskUrls, it claims the tasks named there
    without waiting. If there is no work, `Retry-After` says how long to wait before the next call."""
    request = call.payload(ClaimWorkRequest)
    await call.authorise({"workerGroup": request.workerGroup, "workerId": request.workerId})
    task_queue_id, count = call.params["taskQueueId"], request.tasks
    worker = Worker(worker_group=request.workerGroup, worker_id=request.workerId)
    wait = services.settings.long_poll_seconds if call.may_wait else 0.0
    if "xmlMessage" not in request.model_fields_set:
        told = asyncio.Event()
        claims = await services.work.claim_work(task_queue_id, worker, count, wait, call.ended, told)
        if told.is_set():
            raise CallAgain("there is work for this worker: send the call again, at once")
    else:
        claims = await services.work.claim_polled(task_queue_id, worker, count, request.xmlMessage, wait, call.ended)
    if not claims:
        if not call.may_wait:
            await call.pause()
        return json_answer({"tasks": []}, headers=advice(services.back_off.in_vain(task_queue_id)))
    services.back_off.worked(task_queue_id)
    return json_answer({"tasks": [claimed(claim) for claim in claims]})


@ENDPOINTS(
    "pollTaskUrls",
    "GET /poll-task-url/<taskQueueId>",
    "Get Urls to Poll Pending Tasks",
    scopes=any_of(
        "queue:poll-task-urls:<taskQueueId>", all_of("queue:poll-task-urls", "assume:worker-type:<taskQueueId>")
    ),
    stability="experimental",
    raw_slash=True,
)
async def poll_task_urls(services: QueueServices, call: Call) -> Annotated[Answer, PollTaskUrlsResponse]:
    """Signed URLs of a task queue's Azure queues, the highest priority first. A worker polls them in turn and, when the
    answer contains `<MessageId>`, passes it to claimWork as `xmlMessage`. Request new URLs before these expire."""
    task_queue_id = call.params["taskQueueId"]
    urls, expires = await services.poll_urls.of_pool(task_queue_id)
    answer = {
        "queues": [{"signedPollUrl": poll, "signedDeleteUrl": delete} for poll, delete in urls],
        "expires": format_date(expires),
    }
    return json_answer(answer, headers=advice(services.back_off.in_vain(task_queue_id)))


@ENDPOINTS(
    "claimTask",
    "POST /task/<taskId>/runs/<runId>/claim",
    "Claim Task",
    scopes=any_of(
        all_of("queue:claim-task:<provisionerId>/<workerType>", "queue:worker-id:<workerGroup>/<workerId>"),
        all_of(
            "queue:claim-task",
            "assume:worker-type:<provisionerId>/<workerType>",
            "assume:worker-id:<workerGroup>/<workerId>",
        ),
    ),
    input=TaskClaimRequest,
    stability="deprecated",
)
async def claim_task(services: QueueServices, call: Call) -> Annotated[Json, TaskClaimResponse]:
    """Claims a given pending run, for workers that poll Azure queues themselves."""
    request = call.payload(TaskClaimRequest)
    read = await services.work.found_for_claim(call.params["taskId"])
    named = {"workerGroup": request.workerGroup, "workerId": request.workerId}
    await call.authorise({**ids_of(read.task.task_queue_id), **named})
    worker = Worker(worker_group=request.workerGroup, worker_id=request.workerId)
    return claimed(await services.work.claim_task(read, call.run_id, worker))


@ENDPOINTS(
    "reclaimTask",
    "POST /task/<taskId>/runs/<runId>/reclaim",
    "Reclaim task",
    scopes="queue:reclaim-task:<taskId>/<runId>",
)
async def reclaim_task(services: QueueServices, call: Call) -> Annotated[Json, TaskReclaimResponse]:
    """Renews the claim of a running run, with fresh credentials. After a conflict the worker stops the task and drops
    the run."""
    claim = await services.work.reclaim_task(call.params["taskId"], call.run_id)
    shown = claimed(claim)
    del shown["task"]
    return shown


@ENDPOINTS(
    "reportCompleted",
    "POST /task/<taskId>/runs/<runId>/completed",
    "Report Run Completed",
    scopes="queue:resolve-task:<taskId>/<runId>",
)
@ENDPOINTS(
    "reportFailed",
    "POST /task/<taskId>/runs/<runId>/failed",
    "Report Run Failed",
    description="Reports a run failed, resolving it as `failed`: its code ran and did not succeed.",
    scopes="queue:resolve-task:<taskId>/<runId>",
)
async def report(services: QueueServices, call: Call) -> Annotated[Json, TaskStatusResponse]:
    """Reports a run completed, resolving it as `completed`."""
    # A legacy body `{"success": false}` of reportCompleted means failed (contract 2.4).
    is_legacy = isinstance(call.raw_body, dict) and call.raw_body.get("success") is False
    resolution = Resolved.FAILED if is_legacy or call.endpoint.name == "reportFailed" else Resolved.COMPLETED
    task = await services.lifecycle.report(call.params["taskId"], call.run_id, resolution)
    return {"status": task.as_json()}


@ENDPOINTS(
    "reportException",
    "POST /task/<taskId>/runs/<runId>/exception",
    "Report Task Exception",
    scopes="queue:resolve-task:<taskId>/<runId>",
    input=TaskExceptionRequest,
)
async def report_exception(services: QueueServices, call: Call) -> Annotated[Json, TaskStatusResponse]:
    """Resolves a run as `exception`, for a reason that lies outside the task's code. For `worker-shutdown` and
    `intermittent-task` the task is retried while retries are left."""
    reason = Resolved(call.payload(TaskExceptionRequest).reason)
    task = await services.lifecycle.report_exception(call.params["taskId"], call.run_id, reason)
    return {"status": task.as_json()}


def advice(seconds: int) -> Mapping[str, str]:
    """Returns the header that asks the client to pause for `seconds`."""
    return {"retry-after": str(seconds)} if seconds else {}


def claimed(claim: Claim) -> dict[str, Any]:
    """Returns a claim as workers see it (contract 5.2)."""
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
