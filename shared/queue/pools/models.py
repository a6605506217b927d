"""Schemas of task queues, worker types, provisioners, and of what waits and runs in them (contract 2.3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, RootModel, StringConstraints

from shared.base.types import (
    Closed,
    Count,
    Date,
    ProvisionerId,
    RunId,
    SlugId,
    Stability,
    TaskQueueId,
    Unique,
    WorkerType,
    optional,
    page_model,
)
from shared.queue.pools.states import Reason
from shared.queue.tasks.models import TaskResponse

Description = Annotated[str, StringConstraints(max_length=10240)]


class Action(Closed):
    """Something that a page about a provisioner, a worker type or a worker can offer. For clients from before 2021."""

    name: str
    title: str
    context: Literal["provisioner", "worker-type", "worker"]
    url: str
    method: Literal["POST", "PUT", "DELETE", "PATCH"]
    description: str


class Actions(RootModel[list[Action]]):
    """What pages can offer. For clients from before 2021."""


class _Described(Closed):
    stability: Stability
    description: str
    expires: Date
    lastDateActive: Date


class ProvisionerResponse(_Described):
    """A provisioner. `actions` only where some were declared."""

    provisionerId: ProvisionerId
    actions: list[Action] = optional()


class TaskQueueResponse(_Described):
    """A task queue."""

    taskQueueId: TaskQueueId


class WorkerTypeResponse(TaskQueueResponse):
    """A task queue as a worker type of its provisioner. `actions` only where some were declared."""

    provisionerId: ProvisionerId
    workerType: WorkerType
    actions: list[Action] = optional()


class UpdateWorkerTypeRequest(Closed):
    """A declaration of a worker type; properties that are left out keep their value."""

    stability: Stability = optional()
    description: Description = optional()
    expires: Date = optional()


class UpdateProvisionerRequest(UpdateWorkerTypeRequest):
    """A declaration of a provisioner; properties that are left out keep their value."""

    actions: list[Action] = optional()


class PendingTasksResponse(Closed):
    """How many runs wait in a task queue."""

    provisionerId: ProvisionerId
    workerType: WorkerType
    taskQueueId: TaskQueueId
    pendingTasks: Count


class TaskQueueCountsResponse(PendingTasksResponse):
    """How many runs wait in a task queue, and how many are being worked on."""

    claimedTasks: Count


class WaitingWorkers(Closed):
    """How many workers wait in a call, and how many may be polling: those whose signed URLs have not expired."""

    claimWork: Count
    pollTaskUrls: Count


class Stalled(Closed):
    """Why nothing takes the tasks that wait in a task queue; `message` is for people."""

    reason: Reason
    message: str


class TaskQueueLoadResponse(Closed):
    """How many runs of a task queue wait, how many are being worked on, and both together: what a scaler asks for."""

    taskQueueId: TaskQueueId
    pendingTasks: Count
    claimedTasks: Count
    unresolvedTasks: Count
    waitingWorkers: WaitingWorkers
    stalled: Stalled = optional()


class TaskQueueCountsRequest(Closed):
    """Which task queues."""

    taskQueueIds: Annotated[Unique[TaskQueueId], Field(max_length=1000)]


class TaskQueueCountsListResponse(Closed):
    """Counts of several task queues."""

    taskQueueCounts: list[TaskQueueCountsResponse]


class TaskQueueState(TaskQueueCountsResponse):
    """A task queue with what waits and runs in it. No `lastDateActive`: no worker has asked it for work lately.

    `workers` are those that are known, of the first thousand, `quarantinedWorkers` those of them in quarantine.
    """

    workers: Count
    quarantinedWorkers: Count
    oldestPending: Date = optional()
    lastDateActive: Date = optional()
    description: str = optional()
    stalled: Stalled = optional()


class PendingTask(Closed):
    """A run that waits."""

    taskId: SlugId
    runId: RunId
    task: TaskResponse
    inserted: Date


class ClaimedTask(Closed):
    """A run that is being worked on."""

    taskId: SlugId
    runId: RunId
    workerGroup: str
    workerId: str
    claimed: Date
    task: TaskResponse


ListProvisionersResponse = page_model(
    "ListProvisionersResponse", "A page of provisioners.", provisioners=list[ProvisionerResponse]
)
ListTaskQueuesResponse = page_model(
    "ListTaskQueuesResponse", "A page of task queues.", taskQueues=list[TaskQueueResponse]
)
ListWorkerTypesResponse = page_model(
    "ListWorkerTypesResponse", "A page of worker types.", workerTypes=list[WorkerTypeResponse]
)
ListTaskQueueStatesResponse = page_model(
    "ListTaskQueueStatesResponse", "A page of task queues.", taskQueues=list[TaskQueueState]
)
ListPendingTasksResponse = page_model(
    "ListPendingTasksResponse", "A page of the runs that wait, first scheduled first.", tasks=Unique[PendingTask]
)
ListClaimedTasksResponse = page_model(
    "ListClaimedTasksResponse",
    "A page of the runs that are being worked on, first claimed first.",
    tasks=Unique[ClaimedTask],
)
