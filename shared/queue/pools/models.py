"""Schemas of task queues, worker types, provisioners, and of what waits and runs in them (contract 2.3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, RootModel, StringConstraints

from shared.base import types
from shared.queue.pools.states import Reason
from shared.queue.tasks.models import TaskResponse

Description = Annotated[str, StringConstraints(max_length=10240)]


class Action(types.Closed):
    """Something that a page about a provisioner, a worker type or a worker can offer. For clients from before 2021."""

    name: str
    title: str
    context: Literal["provisioner", "worker-type", "worker"]
    url: str
    method: Literal["POST", "PUT", "DELETE", "PATCH"]
    description: str


class Actions(RootModel[list[Action]]):
    """What pages can offer. For clients from before 2021."""


class _Described(types.Closed):
    stability: types.Stability
    description: str
    expires: types.Date
    lastDateActive: types.Date


class ProvisionerResponse(_Described):
    """A provisioner. `actions` only where some were declared."""

    provisionerId: types.ProvisionerId
    actions: list[Action] = types.optional()


class TaskQueueResponse(_Described):
    """A task queue."""

    taskQueueId: types.TaskQueueId


class WorkerTypeResponse(TaskQueueResponse):
    """A task queue as a worker type of its provisioner. `actions` only where some were declared."""

    provisionerId: types.ProvisionerId
    workerType: types.WorkerType
    actions: list[Action] = types.optional()


class UpdateWorkerTypeRequest(types.Closed):
    """A declaration of a worker type; properties that are left out keep their value."""

    stability: types.Stability = types.optional()
    description: Description = types.optional()
    expires: types.Date = types.optional()


class UpdateProvisionerRequest(UpdateWorkerTypeRequest):
    """A declaration of a provisioner; properties that are left out keep their value."""

    actions: list[Action] = types.optional()


class PendingTasksResponse(types.Closed):
    """How many runs wait in a task queue."""

    provisionerId: types.ProvisionerId
    workerType: types.WorkerType
    taskQueueId: types.TaskQueueId
    pendingTasks: types.Count


class TaskQueueCountsResponse(PendingTasksResponse):
    """How many runs wait in a task queue, and how many are being worked on."""

    claimedTasks: types.Count


class WaitingWorkers(types.Closed):
    """How many workers wait in a call, and how many may be polling: those whose signed URLs have not expired."""

    claimWork: types.Count
    pollTaskUrls: types.Count


class Stalled(types.Closed):
    """Why nothing takes the tasks that wait in a task queue; `message` is for people."""

    reason: Reason
    message: str


class TaskQueueLoadResponse(types.Closed):
    """How many runs of a task queue wait, how many are being worked on, and both together: what a scaler asks for."""

    taskQueueId: types.TaskQueueId
    pendingTasks: types.Count
    claimedTasks: types.Count
    unresolvedTasks: types.Count
    waitingWorkers: WaitingWorkers
    stalled: Stalled = types.optional()


class TaskQueueCountsRequest(types.Closed):
    """The task queues that are asked about."""

    taskQueueIds: Annotated[types.Unique[types.TaskQueueId], Field(max_length=1000)]


class TaskQueueCountsListResponse(types.Closed):
    """Counts of several task queues."""

    taskQueueCounts: list[TaskQueueCountsResponse]


class TaskQueueState(TaskQueueCountsResponse):
    """A task queue with what waits and runs in it. No `lastDateActive`: no worker has asked it for work lately.

    `workers` are those that are known, of the first thousand, `quarantinedWorkers` those of them in quarantine."""

    workers: types.Count
    quarantinedWorkers: types.Count
    oldestPending: types.Date = types.optional()
    lastDateActive: types.Date = types.optional()
    description: str = types.optional()
    stalled: Stalled = types.optional()


class PendingTask(types.Closed):
    """A run that waits."""

    taskId: types.SlugId
    runId: types.RunId
    task: TaskResponse
    inserted: types.Date


class ClaimedTask(types.Closed):
    """A run that is being worked on."""

    taskId: types.SlugId
    runId: types.RunId
    workerGroup: str
    workerId: str
    claimed: types.Date
    task: TaskResponse


ListProvisionersResponse = types.page_model(
    "ListProvisionersResponse", "A page of provisioners.", provisioners=list[ProvisionerResponse]
)
ListTaskQueuesResponse = types.page_model(
    "ListTaskQueuesResponse", "A page of task queues.", taskQueues=list[TaskQueueResponse]
)
ListWorkerTypesResponse = types.page_model(
    "ListWorkerTypesResponse", "A page of worker types.", workerTypes=list[WorkerTypeResponse]
)
ListTaskQueueStatesResponse = types.page_model(
    "ListTaskQueueStatesResponse", "A page of task queues.", taskQueues=list[TaskQueueState]
)
ListPendingTasksResponse = types.page_model(
    "ListPendingTasksResponse", "A page of the runs that wait, first scheduled first.", tasks=types.Unique[PendingTask]
)
ListClaimedTasksResponse = types.page_model(
    "ListClaimedTasksResponse",
    "A page of the runs that are being worked on, first claimed first.",
    tasks=types.Unique[ClaimedTask],
)
