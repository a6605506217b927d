"""Events as values: what happened, small enough for a pointer in the `events` queue (design 2.5, contract 10)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from shared.domain.priority import Priority


class Exchange(StrEnum):
    """The exchanges by their short names, which are the topics' names."""

    TASK_DEFINED = "task-defined"
    TASK_PENDING = "task-pending"
    TASK_RUNNING = "task-running"
    ARTIFACT_CREATED = "artifact-created"
    TASK_COMPLETED = "task-completed"
    TASK_FAILED = "task-failed"
    TASK_EXCEPTION = "task-exception"
    TASK_GROUP_RESOLVED = "task-group-resolved"
    TASK_GROUP_SEALED = "task-group-sealed"
    TASK_PRIORITY_CHANGED = "task-priority-changed"
    TASK_GROUP_PRIORITY_CHANGED = "task-group-priority-changed"


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactEvent:
    """What an artifact-created message says of the artifact."""

    storage_type: str
    name: str
    expires: datetime
    content_type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskEvent:
    """Something that happened to a task. With its definition and status row it renders the message.

    It carries what the status row forgets; later runs are left out when it is rendered.
    """

    exchange: Exchange
    task_id: str
    run_id: int | None
    retries_left: int
    """As it was right after the transition."""
    taken_until: datetime | None = None
    """task-running: the claim's first takenUntil."""
    has_worker: bool = True
    """task-exception: whether the message names the run's worker (a deadline's does not)."""
    artifact: ArtifactEvent | None = None
    old_priority: Priority | None = None
    new_priority: Priority | None = None
    sequence: int | None = None
    """task-priority-changed: the status row's sequence number, since it may happen more than once a run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupEvent:
    """Something that happened to a task group."""

    exchange: Exchange
    task_group_id: str
    scheduler_id: str
    occasion: str
    """Tells occasions of the same kind apart: what the group's `due` said, or when it was asked for."""
    expires: datetime | None = None
    sealed: datetime | None = None
    new_priority: Priority | None = None
    tasks_affected: int | None = None


Event = TaskEvent | GroupEvent
