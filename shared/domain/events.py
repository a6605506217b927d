"""Events as values: what happened, small enough for a pointer in the `events` queue (design 2.5, contract 10)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from shared.domain.priority import Priority
from shared.domain.task import State
from shared.frozen import dataclass


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
    version: str = ""
    """Of the artifact: changes with its content, which the message does not show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What the status row of a task forgets: enough to restore the status of an earlier time from a later one.

    Earlier runs than the last one are resolved, and a resolved run never changes; neither do a run's dates and worker.
    """

    priority: Priority
    runs: int
    """How many runs there were."""
    state: State
    """The state of the last run, `unscheduled` without runs."""
    taken_until: datetime | None = None
    """The last run's, if it was running: a reclaim replaces it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskEvent:
    """Something that happened to a task. With its definition and status row it renders the message."""

    exchange: Exchange
    task_id: str
    run_id: int | None
    retries_left: int
    """As it was right after the transition."""
    has_worker: bool = True
    """task-exception: whether the message names the run's worker (a deadline's does not)."""
    artifact: ArtifactEvent | None = None
    old_priority: Priority | None = None
    new_priority: Priority | None = None
    sequence: int | None = None
    """task-priority-changed: the status row's sequence number, since it may happen more than once a run."""
    snapshot: Snapshot | None = None
    """The task right after the transition; None until the event is rendered for the first time, which takes it."""
    life: str = ""
    """Which task of that id (`Task.life`); empty until then, and in pointers of earlier versions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupEvent:
    """Something that happened to a task group."""

    exchange: Exchange
    task_group_id: str
    scheduler_id: str
    occasion: str
    """Distinguishes occasions of the same kind: what the group's `due` said, or when it was asked for."""
    expires: datetime | None = None
    sealed: datetime | None = None
    new_priority: Priority | None = None
    tasks_affected: int | None = None


Event = TaskEvent | GroupEvent
