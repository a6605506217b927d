"""The messages' JSON schemas, as closed pydantic models (contract 4.1, 10).

The models only describe: messages are rendered by `shared.queue.events.rendering` and validated against these in tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, StringConstraints

from shared.base.types import Closed, Count, Date, Id, OneOf, Priority, RunId, SlugId, optional
from shared.queue.artifacts.rules import StorageType
from shared.queue.tasks.models import TaskStatus


class TaskSummary(Closed):
    """What a message says of the definition; left out of a message that would be too large."""

    tags: dict[str, Annotated[str, StringConstraints(max_length=4096)]]


class Artifact(Closed):
    """The artifact that was created."""

    storageType: Annotated[str, OneOf(tuple(StorageType))]
    name: Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]+$", max_length=1024)]
    expires: Date
    contentType: Annotated[str, StringConstraints(max_length=255)]


class _TaskMessage(Closed):
    version: Literal[1]
    status: TaskStatus


class TaskDefinedMessage(_TaskMessage):
    """A task was created."""

    task: TaskSummary = optional()


class TaskPendingMessage(_TaskMessage):
    """A run became pending."""

    runId: RunId
    task: TaskSummary = optional()


class TaskRunningMessage(_TaskMessage):
    """A worker claimed a run."""

    runId: RunId
    workerGroup: Id
    workerId: Id
    takenUntil: Date
    task: TaskSummary = optional()


class ArtifactCreatedMessage(_TaskMessage):
    """An artifact was created."""

    runId: RunId
    workerGroup: Id
    workerId: Id
    artifact: Artifact


class _TaskReportedMessage(_TaskMessage):
    """A worker reported how a run ended."""

    runId: RunId
    workerGroup: Id
    workerId: Id
    task: TaskSummary = optional()


class TaskCompletedMessage(_TaskReportedMessage):
    """A run completed."""


class TaskFailedMessage(_TaskReportedMessage):
    """A run failed."""


class TaskExceptionMessage(_TaskMessage):
    """A run ended otherwise."""

    runId: RunId = optional()
    workerGroup: Id = optional()
    workerId: Id = optional()
    task: TaskSummary = optional()


class TaskPriorityChangedMessage(_TaskMessage):
    """A task's priority was changed."""

    oldPriority: Priority
    newPriority: Priority


class TaskGroupChangedMessage(Closed):
    """A group was resolved or sealed."""

    version: Literal[1]
    taskGroupId: SlugId
    schedulerId: Id
    expires: Date = optional()
    sealed: Date = optional()


class TaskGroupPriorityChangedMessage(Closed):
    """The priority of a group's tasks was changed."""

    version: Literal[1]
    taskGroupId: SlugId
    schedulerId: Id
    newPriority: Priority
    tasksAffected: Count


MESSAGES: Mapping[str, type[BaseModel]] = {
    "task-defined-message": TaskDefinedMessage,
    "task-pending-message": TaskPendingMessage,
    "task-running-message": TaskRunningMessage,
    "artifact-created-message": ArtifactCreatedMessage,
    "task-completed-message": TaskCompletedMessage,
    "task-failed-message": TaskFailedMessage,
    "task-exception-message": TaskExceptionMessage,
    "task-group-changed-message": TaskGroupChangedMessage,
    "task-priority-changed-message": TaskPriorityChangedMessage,
    "task-group-priority-changed-message": TaskGroupPriorityChangedMessage,
}
"""The models by the name of their schema."""
