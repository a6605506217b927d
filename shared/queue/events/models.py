"""The messages' JSON schemas, as closed pydantic models (contract 4.1, 10). The models only describe:
`shared.queue.events.rendering` renders messages, which tests validate against these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, StringConstraints, create_model

from shared.base.types import Closed, Count, Date, Id, OneOf, Priority, RunId, SlugId, optional
from shared.queue.artifacts.rules import StorageType
from shared.queue.tasks.models import TaskStatus


class TaskSummary(Closed):
    """The part of a definition that is in a message; left out of a message that would be too large."""

    tags: dict[str, Annotated[str, StringConstraints(max_length=4096)]]


class Artifact(Closed):
    """The artifact that was created."""

    storageType: Annotated[str, OneOf(tuple(StorageType))]
    name: Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]+$", max_length=1024)]
    expires: Date
    contentType: Annotated[str, StringConstraints(max_length=255)]


_STATUS: Mapping[str, Any] = {"version": (Literal[1], ...), "status": (TaskStatus, ...)}
_RUN: Mapping[str, Any] = {**_STATUS, "runId": (RunId, ...)}
_WORKER: Mapping[str, Any] = {**_RUN, "workerGroup": (Id, ...), "workerId": (Id, ...)}
_MAYBE_WORKER: Mapping[str, Any] = {**{name: (kind, optional()) for name, (kind, _) in _WORKER.items()}, **_STATUS}
_TAGS: Mapping[str, Any] = {"task": (TaskSummary, optional())}
_GROUP: Mapping[str, Any] = {"version": (Literal[1], ...), "taskGroupId": (SlugId, ...), "schedulerId": (Id, ...)}
_DATES: Mapping[str, Any] = {"expires": (Date, optional()), "sealed": (Date, optional())}
_PRIORITY: Mapping[str, Any] = {"newPriority": (Priority, ...)}
_SAID: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "task-defined-message": ("A task was created.", {**_STATUS, **_TAGS}),
    "task-pending-message": ("A run became pending.", {**_RUN, **_TAGS}),
    "task-running-message": ("A worker claimed a run.", {**_WORKER, "takenUntil": (Date, ...), **_TAGS}),
    "artifact-created-message": ("An artifact was created.", {**_WORKER, "artifact": (Artifact, ...)}),
    "task-completed-message": ("A run completed.", {**_WORKER, **_TAGS}),
    "task-failed-message": ("A run failed.", {**_WORKER, **_TAGS}),
    "task-exception-message": ("A run ended otherwise.", {**_MAYBE_WORKER, **_TAGS}),
    "task-group-changed-message": ("A group was resolved or sealed.", {**_GROUP, **_DATES}),
    "task-priority-changed-message": (
        "A task's priority was changed.",
        {**_STATUS, "oldPriority": (Priority, ...), **_PRIORITY},
    ),
    "task-group-priority-changed-message": (
        "The priority of a group's tasks was changed.",
        {**_GROUP, **_PRIORITY, "tasksAffected": (Count, ...)},
    ),
}
MESSAGES: Mapping[str, type[BaseModel]] = {
    name: create_model("".join(map(str.capitalize, name.split("-"))), __base__=Closed, __doc__=doc, **properties)
    for name, (doc, properties) in _SAID.items()
}
"""The models by the name of their schema."""
