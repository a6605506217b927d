"""Schemas of workers (contract 2.3)."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from shared.api.models.pools import Action
from shared.api.types import Closed, Date, Id, ProvisionerId, RunId, SlugId, TaskQueueId, Unique, WorkerType, optional


class TaskRun(Closed):
    """A run of a task."""

    taskId: SlugId
    runId: RunId


class QuarantineDetails(Closed):
    """Who set which end of a quarantine, when and why."""

    clientId: str
    updatedAt: Date
    quarantineUntil: Date
    quarantineInfo: str


class WorkerResponse(Closed):
    """A worker. Recent tasks and quarantines: oldest first. `actions` only where some were declared."""

    provisionerId: ProvisionerId
    workerType: WorkerType
    taskQueueId: TaskQueueId = optional()
    workerGroup: Id
    workerId: Id
    recentTasks: list[TaskRun]
    expires: Date
    firstClaim: Date
    lastDateActive: Date = optional()
    quarantineUntil: Date = optional()
    quarantineDetails: list[QuarantineDetails] = optional()
    actions: list[Action] = optional()


class ListedWorker(Closed):
    """A worker in a listing. `quarantineUntil` only while it is in the future."""

    workerGroup: Id
    workerId: Id
    firstClaim: Date
    lastDateActive: Date = optional()
    latestTask: TaskRun = optional()
    quarantineUntil: Date = optional()


class ListWorkersResponse(Closed):
    """A page of workers."""

    workers: Unique[ListedWorker]
    continuationToken: str = optional()


class QuarantineWorkerRequest(Closed):
    """Until when a worker gets no work (in the past: from now on it does), and why."""

    quarantineUntil: Date
    quarantineInfo: Annotated[str, StringConstraints(max_length=4000)] = optional()


class UpdateWorkerRequest(Closed):
    """Until when a worker is known, at least."""

    expires: Date


class WorkerRemovedResponse(Closed):
    """The runs that ended now. With a token there are more: call again with it."""

    tasks: list[TaskRun]
    continuationToken: str = optional()
