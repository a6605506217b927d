"""Endpoints for workers: claim, reclaim, report (contract 2.1, 2.2, 5)."""

from __future__ import annotations

from shared.api.endpoint import Endpoint
from shared.api.models.task import TaskStatusResponse
from shared.api.models.work import (
    ClaimWorkRequest,
    ClaimWorkResponse,
    PollTaskUrlsResponse,
    TaskClaimRequest,
    TaskClaimResponse,
    TaskExceptionRequest,
    TaskReclaimResponse,
)

ENDPOINTS = (
    Endpoint(
        name="claimWork",
        method="POST",
        route="/claim-work/<taskQueueId>",
        title="Claim Work",
        description="Claims pending tasks of a task queue for a worker. Waits up to 20 seconds for the first one; "
        "answers fewer than asked for as soon as there is any. With `xmlMessage`, the answer of one of the URLs of "
        "pollTaskUrls, it claims the tasks of that without waiting. `Retry-After` says how long not to call again "
        "where there is no work.",
        category="Worker Interface",
        scopes={
            "AllOf": ["queue:claim-work:<taskQueueId>", "queue:worker-id:<workerGroup>/<workerId>"],
        },
        input=ClaimWorkRequest,
        input_schema="claim-work-request",
        output=ClaimWorkResponse,
        output_schema="claim-work-response",
        waits=True,
        raw_slash=True,
    ),
    Endpoint(
        name="pollTaskUrls",
        method="GET",
        route="/poll-task-url/<taskQueueId>",
        title="Get Urls to Poll Pending Tasks",
        description="Signed URLs of a task queue's Azure queues, the highest priority first. A worker polls them in "
        "turn and, when the answer contains `<MessageId>`, gives it to claimWork as `xmlMessage`. New URLs are to be "
        "asked for before these expire.",
        category="Worker Interface",
        scopes={
            "AnyOf": [
                "queue:poll-task-urls:<taskQueueId>",
                {"AllOf": ["queue:poll-task-urls", "assume:worker-type:<taskQueueId>"]},
            ]
        },
        output=PollTaskUrlsResponse,
        output_schema="poll-task-urls-response",
        stability="experimental",
        raw_slash=True,
    ),
    Endpoint(
        name="claimTask",
        method="POST",
        route="/task/<taskId>/runs/<runId>/claim",
        title="Claim Task",
        description="Claims a given pending run, for workers that poll Azure queues themselves.",
        category="Worker Interface",
        scopes={
            "AnyOf": [
                {
                    "AllOf": [
                        "queue:claim-task:<provisionerId>/<workerType>",
                        "queue:worker-id:<workerGroup>/<workerId>",
                    ]
                },
                {
                    "AllOf": [
                        "queue:claim-task",
                        "assume:worker-type:<provisionerId>/<workerType>",
                        "assume:worker-id:<workerGroup>/<workerId>",
                    ]
                },
            ]
        },
        input=TaskClaimRequest,
        input_schema="task-claim-request",
        output=TaskClaimResponse,
        output_schema="task-claim-response",
        stability="deprecated",
    ),
    Endpoint(
        name="reclaimTask",
        method="POST",
        route="/task/<taskId>/runs/<runId>/reclaim",
        title="Reclaim task",
        description="Renews the claim of a run that is being worked on, with fresh credentials. After a conflict the "
        "worker stops and forgets the run.",
        category="Worker Interface",
        scopes="queue:reclaim-task:<taskId>/<runId>",
        output=TaskReclaimResponse,
        output_schema="task-reclaim-response",
    ),
    Endpoint(
        name="reportCompleted",
        method="POST",
        route="/task/<taskId>/runs/<runId>/completed",
        title="Report Run Completed",
        description="Reports a run completed, resolving it as `completed`.",
        category="Worker Interface",
        scopes="queue:resolve-task:<taskId>/<runId>",
        output=TaskStatusResponse,
        output_schema="task-status-response",
    ),
    Endpoint(
        name="reportFailed",
        method="POST",
        route="/task/<taskId>/runs/<runId>/failed",
        title="Report Run Failed",
        description="Reports a run failed, resolving it as `failed`: its code ran and did not succeed.",
        category="Worker Interface",
        scopes="queue:resolve-task:<taskId>/<runId>",
        output=TaskStatusResponse,
        output_schema="task-status-response",
    ),
    Endpoint(
        name="reportException",
        method="POST",
        route="/task/<taskId>/runs/<runId>/exception",
        title="Report Task Exception",
        description="Resolves a run as `exception`, for a reason that lies outside the task's code. For "
        "`worker-shutdown` and `intermittent-task` the task is retried while retries are left.",
        category="Worker Interface",
        scopes="queue:resolve-task:<taskId>/<runId>",
        input=TaskExceptionRequest,
        input_schema="task-exception-request",
        output=TaskStatusResponse,
        output_schema="task-status-response",
    ),
)
