"""Which event a transition is announced by (contract 10). Each happens once a run, so that its repeat is recognised."""

from __future__ import annotations

from shared.domain.artifacts import Artifact
from shared.domain.events import ArtifactEvent, Exchange, TaskEvent
from shared.domain.priority import Priority
from shared.domain.task import Resolved, State, Task


def defined(task: Task) -> TaskEvent:
    """taskDefined: the task as it was first, unscheduled."""
    return TaskEvent(exchange=Exchange.TASK_DEFINED, task_id=task.task_id, run_id=None, retries_left=task.retries)


def pending(task: Task, run_id: int) -> TaskEvent:
    """taskPending of a run."""
    return TaskEvent(
        exchange=Exchange.TASK_PENDING, task_id=task.task_id, run_id=run_id, retries_left=task.retries_left
    )


def running(task: Task, run_id: int) -> TaskEvent:
    """taskRunning of a run that was claimed."""
    return TaskEvent(
        exchange=Exchange.TASK_RUNNING,
        task_id=task.task_id,
        run_id=run_id,
        retries_left=task.retries_left,
    )


def resolved(task: Task, run_id: int) -> TaskEvent:
    """taskCompleted, taskFailed or taskException of a run, by its state."""
    state = task.runs[run_id].state
    if state is State.EXCEPTION:
        return exception(task, run_id)
    exchange = Exchange.TASK_COMPLETED if state is State.COMPLETED else Exchange.TASK_FAILED
    return TaskEvent(exchange=exchange, task_id=task.task_id, run_id=run_id, retries_left=task.retries_left)


def exception(task: Task, run_id: int) -> TaskEvent:
    """taskException of a run, retried or not; a deadline's names no worker (contract 10)."""
    run = task.runs[run_id]
    return TaskEvent(
        exchange=Exchange.TASK_EXCEPTION,
        task_id=task.task_id,
        run_id=run_id,
        retries_left=task.retries_left,
        has_worker=run.reason_resolved is not Resolved.DEADLINE_EXCEEDED,
    )


def priority_changed(task: Task, old: Priority) -> TaskEvent:
    """taskPriorityChanged: may happen more than once a run, so the sequence number tells occasions apart."""
    return TaskEvent(
        exchange=Exchange.TASK_PRIORITY_CHANGED,
        task_id=task.task_id,
        run_id=None,
        retries_left=task.retries_left,
        old_priority=old,
        new_priority=task.priority,
        sequence=task.sequence,
    )


def artifact_created(task: Task, run_id: int, artifact: Artifact) -> TaskEvent:
    """artifactCreated: the name tells the artifacts of a run apart."""
    return TaskEvent(
        exchange=Exchange.ARTIFACT_CREATED,
        task_id=task.task_id,
        run_id=run_id,
        retries_left=task.retries_left,
        artifact=ArtifactEvent(
            storage_type=artifact.storage_type.value,
            name=artifact.name,
            expires=artifact.expires,
            content_type=artifact.content_type,
        ),
    )
