"""Effects as decisions should ask for them, about a task of `tasks` and the worker ME."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.queue.tasks.effects import ChangePoolRows, HoldPending, PendingContent, PoolRow, PutPending, ShowPending
from shared.queue.tasks.rules import Created, Resolved, Run, State, Task, Worker
from tests.unit.tasks import (
    CLAIM_TIMEOUT,
    ID,
    NOW,
    handle,
    resolved_run,
    running_run,
)

POOL = "provisioner/pool"
ME = Worker(worker_group="mine", worker_id="me")
HAND = handle("in-hand")
UNTIL = NOW + CLAIM_TIMEOUT
FIRST = resolved_run(Resolved.WORKER_SHUTDOWN)
"""A run before the one that a command is about, so that no number of a run is 0."""
EXPIRED = running_run(taken_until=NOW, unfinished=("digest",))
MINE: dict[str, Any] = {
    "state": State.RUNNING,
    "worker_group": "mine",
    "worker_id": "me",
    "taken_until": UNTIL,
    "started": NOW,
}


def ended(run: Run, reason: Resolved) -> Run:
    """The run as it is once it has ended."""
    return replace(run, state=reason.state, reason_resolved=reason, resolved=NOW, unfinished=())


def retry(reason: Created = Created.RETRY) -> Run:
    """The run that follows one that is retried."""
    return Run(state=State.PENDING, reason_created=reason, scheduled=NOW, generation=0)


def pending_row(task: Task, run_id: int, scheduled: datetime) -> PoolRow:
    """The index row of a pending run."""
    return PoolRow(
        state=State.PENDING,
        scheduled=scheduled,
        task_id=ID,
        run_id=run_id,
        priority=task.priority,
        deadline=task.deadline,
    )


def running_row(task: Task, run_id: int, run: Run) -> PoolRow:
    """The index row of a running run."""
    assert run.started is not None
    return PoolRow(
        state=State.RUNNING,
        scheduled=run.scheduled,
        started=run.started,
        task_id=ID,
        run_id=run_id,
        priority=task.priority,
        deadline=task.deadline,
        worker_group=run.worker_group or "",
        worker_id=run.worker_id or "",
    )


def content(run_id: int, hint_id: str = "hint") -> PendingContent:
    """What a pending message of the task says."""
    return PendingContent(task_queue_id=POOL, task_id=ID, run_id=run_id, hint_id=hint_id)


def put_pending(run_id: int, hint_id: str, visible: datetime | None = None) -> PutPending:
    """A pending message is put."""
    return PutPending(content=content(run_id, hint_id), priority="medium", visible=visible)


def hold(run_id: int, visible: datetime | None, pending: bool = True) -> HoldPending:
    """The pending message is moved."""
    return HoldPending(
        handle=handle("pending") if pending else None,
        content=content(run_id),
        priority="medium",
        spare_hint_id="spare",
        visible=visible,
    )


def show(run_id: int) -> ShowPending:
    """The lease becomes visible."""
    return ShowPending(handle=handle("pending"), content=content(run_id))


def change(remove: PoolRow, *add: PoolRow) -> ChangePoolRows:
    """An index row gives way to others."""
    return ChangePoolRows(task_queue_id=POOL, remove=(remove,), add=add)
