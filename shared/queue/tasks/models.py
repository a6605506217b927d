"""Schemas of task definitions and statuses (contract 2.3, 3.1, 4.1)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from shared.base import types
from shared.queue.tasks.definition import MAX_DEPENDENCIES, Requires
from shared.queue.tasks.rules import Created, Resolved, State

Tag = Annotated[str, StringConstraints(max_length=4096)]
Route = Annotated[str, StringConstraints(min_length=1, max_length=249)]


class Metadata(types.Closed):
    """For people: what the task is, whose it is, where it comes from."""

    name: Annotated[str, StringConstraints(max_length=255)]
    description: Annotated[str, StringConstraints(max_length=32768)]
    owner: Annotated[str, StringConstraints(max_length=255)]
    source: Annotated[str, StringConstraints(max_length=4096, pattern=r"^(https?://|ssh://|git@)")]


class CreateTaskRequest(types.Closed):
    """Definition of a task that can be scheduled."""

    provisionerId: types.ProvisionerId = types.optional()
    workerType: types.WorkerType = types.optional()
    taskQueueId: types.TaskQueueId = types.optional()
    schedulerId: types.Id = "-"
    projectId: types.ProjectId = "none"
    taskGroupId: types.SlugId = types.optional()
    # More are refused by the domain, with another error than what the schema refuses.
    dependencies: Annotated[types.Unique[types.SlugId], Field(json_schema_extra={"maxItems": MAX_DEPENDENCIES})] = (
        Field(default=[])
    )
    requires: Annotated[str, types.OneOf(tuple(Requires))] = Requires.ALL_COMPLETED.value
    routes: Annotated[types.Unique[Route], Field(max_length=64)] = Field(default=[])
    priority: types.Priority = "lowest"
    retries: Annotated[int, Field(ge=0, le=49)] = 5
    created: types.Date
    deadline: types.Date
    expires: types.Date = types.optional()
    scopes: list[types.Scope] = Field(default=[])
    payload: types.JsonObject
    metadata: Metadata
    tags: dict[str, Tag] = Field(default={})
    extra: types.JsonObject = Field(default={})


class TaskResponse(types.Closed):
    """A task's definition, with every field filled in."""

    provisionerId: types.ProvisionerId
    workerType: types.WorkerType
    taskQueueId: types.TaskQueueId
    schedulerId: types.Id
    projectId: types.ProjectId
    taskGroupId: types.SlugId
    dependencies: Annotated[types.Unique[types.SlugId], Field(max_length=MAX_DEPENDENCIES)]
    requires: Annotated[str, types.OneOf(tuple(Requires))]
    routes: Annotated[types.Unique[Route], Field(max_length=64)]
    priority: types.Priority
    retries: Annotated[int, Field(ge=0, le=49)]
    created: types.Date
    deadline: types.Date
    expires: types.Date
    scopes: list[types.Scope]
    payload: types.JsonObject
    metadata: Metadata
    tags: dict[str, Tag]
    extra: types.JsonObject


class RunStatus(types.Closed):
    """One run of a task."""

    runId: types.RunId
    state: Annotated[str, types.OneOf(tuple(state for state in State if state is not State.UNSCHEDULED))]
    reasonCreated: Annotated[str, types.OneOf(tuple(Created))]
    # The contract still names a reason that no run is given any more.
    reasonResolved: Annotated[str, types.OneOf((*Resolved, "superseded"))] = types.optional()
    workerGroup: types.Id = types.optional()
    workerId: types.Id = types.optional()
    takenUntil: types.Date = types.optional()
    scheduled: types.Date
    started: types.Date = types.optional()
    resolved: types.Date = types.optional()


class TaskStatus(types.Closed):
    """A task's state, with all its runs."""

    taskId: types.SlugId
    provisionerId: types.ProvisionerId
    workerType: types.WorkerType
    taskQueueId: types.TaskQueueId
    schedulerId: types.Id
    projectId: types.ProjectId
    taskGroupId: types.SlugId
    priority: types.Priority = types.optional()
    deadline: types.Date
    expires: types.Date
    retriesLeft: Annotated[int, Field(ge=0, le=999)]
    state: Annotated[str, types.OneOf(tuple(State))]
    runs: list[RunStatus]


class ChangeTaskPriorityRequest(types.Closed):
    """The priority to have from now on."""

    newPriority: types.Priority


class TaskStatusResponse(types.Closed):
    """Answer of the calls that answer a task's status."""

    status: TaskStatus


class TaskDefinitionAndStatus(types.Closed):
    """A task in a listing."""

    task: TaskResponse
    status: TaskStatus


class TasksRequest(types.Closed):
    """The tasks that are asked about."""

    taskIds: list[str] = Field(default=[])


class NamedTask(types.Closed):
    """A task with its id."""

    taskId: str
    task: TaskResponse


class NamedStatus(types.Closed):
    """A status with its task's id."""

    taskId: str
    status: TaskStatus


TasksResponse = types.page_model(
    "TasksResponse", "The tasks that exist, in no promised order.", tasks=types.Unique[NamedTask]
)
TasksStatusesResponse = types.page_model(
    "TasksStatusesResponse",
    "The statuses of the tasks that exist, in no promised order.",
    statuses=types.Unique[NamedStatus],
)
