"""Schemas of task definitions and statuses (contract 2.3, 3.1, 4.1)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from shared.base.types import (
    Closed,
    Date,
    Id,
    JsonObject,
    OneOf,
    Priority,
    ProjectId,
    ProvisionerId,
    RunId,
    Scope,
    SlugId,
    TaskQueueId,
    Unique,
    WorkerType,
    optional,
)
from shared.queue.tasks.definition import MAX_DEPENDENCIES, Requires
from shared.queue.tasks.rules import Created, Resolved, State

Tag = Annotated[str, StringConstraints(max_length=4096)]
Route = Annotated[str, StringConstraints(min_length=1, max_length=249)]


class Metadata(Closed):
    """For people: what the task is, whose it is, where it comes from."""

    name: Annotated[str, StringConstraints(max_length=255)]
    description: Annotated[str, StringConstraints(max_length=32768)]
    owner: Annotated[str, StringConstraints(max_length=255)]
    source: Annotated[str, StringConstraints(max_length=4096, pattern=r"^(https?://|ssh://|git@)")]


class CreateTaskRequest(Closed):
    """Definition of a task that can be scheduled."""

    provisionerId: ProvisionerId = optional()
    workerType: WorkerType = optional()
    taskQueueId: TaskQueueId = optional()
    schedulerId: Id = "-"
    projectId: ProjectId = "none"
    taskGroupId: SlugId = optional()
    # More are refused by the domain, with another error than what the schema refuses.
    dependencies: Annotated[Unique[SlugId], Field(json_schema_extra={"maxItems": MAX_DEPENDENCIES})] = Field(default=[])
    requires: Annotated[str, OneOf(tuple(Requires))] = Requires.ALL_COMPLETED.value
    routes: Annotated[Unique[Route], Field(max_length=64)] = Field(default=[])
    priority: Priority = "lowest"
    retries: Annotated[int, Field(ge=0, le=49)] = 5
    created: Date
    deadline: Date
    expires: Date = optional()
    scopes: list[Scope] = Field(default=[])
    payload: JsonObject
    metadata: Metadata
    tags: dict[str, Tag] = Field(default={})
    extra: JsonObject = Field(default={})


class TaskResponse(Closed):
    """A task's definition, with every field filled in."""

    provisionerId: ProvisionerId
    workerType: WorkerType
    taskQueueId: TaskQueueId
    schedulerId: Id
    projectId: ProjectId
    taskGroupId: SlugId
    dependencies: Annotated[Unique[SlugId], Field(max_length=MAX_DEPENDENCIES)]
    requires: Annotated[str, OneOf(tuple(Requires))]
    routes: Annotated[Unique[Route], Field(max_length=64)]
    priority: Priority
    retries: Annotated[int, Field(ge=0, le=49)]
    created: Date
    deadline: Date
    expires: Date
    scopes: list[Scope]
    payload: JsonObject
    metadata: Metadata
    tags: dict[str, Tag]
    extra: JsonObject


class RunStatus(Closed):
    """One run of a task."""

    runId: RunId
    state: Annotated[str, OneOf(tuple(state for state in State if state is not State.UNSCHEDULED))]
    reasonCreated: Annotated[str, OneOf(tuple(Created))]
    # The contract still names a reason that no run is given any more.
    reasonResolved: Annotated[str, OneOf((*Resolved, "superseded"))] = optional()
    workerGroup: Id = optional()
    workerId: Id = optional()
    takenUntil: Date = optional()
    scheduled: Date
    started: Date = optional()
    resolved: Date = optional()


class TaskStatus(Closed):
    """A task's state, with all its runs."""

    taskId: SlugId
    provisionerId: ProvisionerId
    workerType: WorkerType
    taskQueueId: TaskQueueId
    schedulerId: Id
    projectId: ProjectId
    taskGroupId: SlugId
    priority: Priority = optional()
    deadline: Date
    expires: Date
    retriesLeft: Annotated[int, Field(ge=0, le=999)]
    state: Annotated[str, OneOf(tuple(State))]
    runs: list[RunStatus]


class ChangeTaskPriorityRequest(Closed):
    """The priority to have from now on."""

    newPriority: Priority


class TaskStatusResponse(Closed):
    """Answer of the calls that answer a task's status."""

    status: TaskStatus


class TaskDefinitionAndStatus(Closed):
    """A task in a listing."""

    task: TaskResponse
    status: TaskStatus
