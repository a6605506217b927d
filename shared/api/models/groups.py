"""Schemas of task groups and of calls on many tasks (contract 2.3)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.api.models.task import TaskDefinitionAndStatus, TaskResponse, TaskStatus
from shared.api.types import Closed, Date, Id, Priority, SlugId, Unique, Whole, optional

Count = Annotated[int, Whole, Field(ge=0)]


class TasksRequest(Closed):
    """Which tasks."""

    taskIds: list[str] = Field(default=[])


class NamedTask(Closed):
    """A task with its id."""

    taskId: str
    task: TaskResponse


class TasksResponse(Closed):
    """The tasks that exist, in no promised order."""

    tasks: Unique[NamedTask]
    continuationToken: str = optional()


class NamedStatus(Closed):
    """A status with its task's id."""

    taskId: str
    status: TaskStatus


class TasksStatusesResponse(Closed):
    """The statuses of the tasks that exist, in no promised order."""

    statuses: Unique[NamedStatus]
    continuationToken: str = optional()


class TaskGroupResponse(Closed):
    """A task group."""

    taskGroupId: SlugId
    schedulerId: Id
    expires: Date
    sealed: Date = optional()


class ListTaskGroupResponse(TaskGroupResponse):
    """A page of a task group."""

    tasks: list[TaskDefinitionAndStatus]
    continuationToken: str = optional()


class CancelTaskGroupResponse(Closed):
    """What cancelling a group did now."""

    taskGroupId: SlugId
    taskGroupSize: Count
    cancelledCount: Count
    taskIds: Unique[SlugId]


class ChangeTaskPriorityRequest(Closed):
    """The priority to have from now on."""

    newPriority: Priority


class TaskGroupPriorityChangeResponse(Closed):
    """What changing a group's priority did now."""

    taskGroupId: SlugId
    schedulerId: Id
    newPriority: Priority
    tasksAffected: Count
    taskIds: list[SlugId]


class ListDependentTasksResponse(Closed):
    """A page of the tasks that depend on a task."""

    taskId: SlugId
    tasks: list[TaskDefinitionAndStatus]
    continuationToken: str = optional()
