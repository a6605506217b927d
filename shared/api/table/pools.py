"""Endpoints on task queues, worker types and provisioners, and on what waits and runs in them (contract 2.1, 8, 9)."""

from __future__ import annotations

from shared.api.endpoint import PAGING, Endpoint
from shared.api.models.pools import (
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

_METADATA = "Worker Metadata"
_TASKS = "Tasks"

PROVISIONERS = (
    Endpoint(
        name="listProvisioners",
        method="GET",
        route="/provisioners",
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
        title="Get an active provisioner",
        description="Answers a provisioner: how long it is known, and when one of its task queues was used last.",
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
        title="Get a worker-type",
        description="Answers a worker type of a provisioner, as getTaskQueue.",
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
        title="Get a task queue",
        description="Answers a task queue: how long it is known, and when a worker asked for its work last.",
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
        title="Get Number of Pending Tasks",
        description="Answers how many runs wait in a task queue. Runs that were canceled or are past their deadline "
        "do not count.",
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
        title="Get Number of Pending and Claimed Tasks",
        description="Answers how many runs wait in a task queue, and how many are being worked on.",
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
        title="Get Pending and Claimed Task Counts for Multiple Task Queues",
        description="As taskQueueCounts, for up to a thousand task queues. Every one of them has to be allowed.",
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
        title="List Pending Tasks",
        description="Lists the runs that wait in a task queue, a page at a time, first scheduled first.",
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
        title="List claimed Tasks",
        description="Lists the runs of a task queue that are being worked on, a page at a time, first claimed first.",
        category=_TASKS,
        scopes="queue:claimed-list:<taskQueueId>",
        query=PAGING,
        output=ListClaimedTasksResponse,
        output_schema="list-claimed-tasks-response",
        stability="experimental",
        raw_slash=True,
    ),
)

ENDPOINTS = (*PROVISIONERS, *TASK_QUEUES, *CONTENTS)
