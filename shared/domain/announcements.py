"""Which event announces a transition (contract 10). Each happens once a run, so that its repeat is recognised."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.domain.artifacts import Artifact
from shared.domain.events import ArtifactEvent, Exchange, TaskEvent
from shared.domain.protocol import REPEATS_RECOGNISED
from shared.domain.task import MAX_RUNS, RETRY_OF, Created, PriorityChange, Resolved, State, Task


def defined(task: Task) -> TaskEvent:
    """taskDefined: the task as it was first, unscheduled."""
    return TaskEvent(exchange=Exchange.TASK_DEFINED, task_id=task.task_id, run_id=None, retries_left=task.retries)


def pending(task: Task, run_id: int) -> TaskEvent:
    """taskPending of a run."""
    return TaskEvent(
        exchange=Exchange.TASK_PENDING, task_id=task.task_id, run_id=run_id, retries_left=task.retries_left
    )


def pending_again(task: Task, run_id: int, now: datetime) -> tuple[TaskEvent, ...]:
    """taskPending of a run, for the repeat of a call that made it pending and may have died before it said so.

    A worker may have been faster than the repeat: so not only while the run is pending, but for as long as a repeat of
    the event is recognised.
    """
    run = task.runs[run_id]
    is_pending = run_id == task.last_run_id and run.state is State.PENDING
    if run.reason_created is Created.EXCEPTION or not (is_pending or now - run.scheduled < REPEATS_RECOGNISED):
        return ()
    return (replace(pending(task, run_id), retries_left=_retries_left(task, run_id)),)


def resolved_again(task: Task, run_id: int, now: datetime) -> tuple[TaskEvent, ...]:
    """The resolution of a run, for its handler: the call that made it may have died before it announced it, and its
    client may be gone as well. Only while a repeat of the event is recognised."""
    resolved_at = task.runs[run_id].resolved
    if resolved_at is None or now - resolved_at >= REPEATS_RECOGNISED:
        return ()
    return (replace(resolved(task, run_id), retries_left=_retries_left(task, run_id)),)


def _retries_left(task: Task, run_id: int) -> int:
    """As it was when a run became pending: a retry takes one, and a rerun starts afresh."""
    left = task.retries
    for number, run in enumerate(task.runs[: run_id + 1]):
        if run.reason_created is Created.RERUN:
            left = min(task.retries, MAX_RUNS - number)
        elif run.reason_created in RETRY_OF.values():
            left -= 1
    return left


def running(task: Task, run_id: int) -> TaskEvent:
    """taskRunning of a run that was claimed."""
    return TaskEvent(
        exchange=Exchange.TASK_RUNNING,
        task_id=task.task_id,
        run_id=run_id,
        retries_left=task.retries_left,
    )


def is_undone(event: TaskEvent, task: Task) -> bool:
    """Whether the event is that of a claim which was given back, since it may not have been announced."""
    if event.exchange is not Exchange.TASK_RUNNING or event.run_id is None or event.run_id > task.last_run_id:
        return False
    return task.runs[event.run_id].state is State.PENDING


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


def priority_changed(task: Task, change: PriorityChange) -> TaskEvent:
    """taskPriorityChanged: may happen more than once a run, so the sequence number distinguishes occasions."""
    return TaskEvent(
        exchange=Exchange.TASK_PRIORITY_CHANGED,
        task_id=task.task_id,
        run_id=None,
        retries_left=task.retries_left,
        old_priority=change.old,
        new_priority=task.priority,
        sequence=change.sequence,
    )


def priority_changed_again(task: Task, now: datetime) -> tuple[TaskEvent, ...]:
    """The latest change of the priority, for whoever meets the task afterwards: the call that made it may have died
    before it announced it. Only while a repeat of the event is recognised."""
    change = task.priority_change
    return () if change is None or now - change.at >= REPEATS_RECOGNISED else (priority_changed(task, change),)


def artifact_created(task: Task, run_id: int, artifact: Artifact) -> TaskEvent:
    """artifactCreated: name, version and expiration distinguish what is created in a run, and created again changed."""
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
            version=artifact.version,
        ),
    )
