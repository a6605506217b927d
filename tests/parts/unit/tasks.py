"""Definitions and tasks for tests of the pure core."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.base.dates import format_date
from shared.queue.claims import ends as claim_ends
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.effects import Decision
from shared.queue.tasks.rules import (
    Created,
    MessageHandle,
    MessageHandles,
    Resolved,
    Run,
    State,
    Task,
    UndeliveredClaim,
    Worker,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
CLAIM_TIMEOUT = timedelta(minutes=20)
ID = "AAAAAAAAQACAAAAAAAAAAA"
OTHER = "BAAAAAAAQACAAAAAAAAAAA"
GROUP, WORKER = "group", "worker"


def handle(name: str) -> MessageHandle:
    """Returns a message that the service could move."""
    return MessageHandle(queue=f"queue-{name}", message_id=name, pop_receipt=f"receipt-{name}")


def pending_run(**changes: Any) -> Run:
    """Returns a pending run."""
    run = Run(state=State.PENDING, reason_created=Created.SCHEDULED, scheduled=NOW - 60 * SECOND, generation=0)
    return replace(run, **changes)


def running_run(**changes: Any) -> Run:
    """Returns a run that a worker holds."""
    held = {
        "state": State.RUNNING,
        "worker_group": GROUP,
        "worker_id": WORKER,
        "started": NOW - 30 * SECOND,
        "taken_until": NOW - 30 * SECOND + CLAIM_TIMEOUT,
    }
    return pending_run(**{**held, **changes})


def resolved_run(reason: Resolved = Resolved.COMPLETED, **changes: Any) -> Run:
    """Returns a run that has ended."""
    ended = {"state": reason.state, "reason_resolved": reason, "resolved": NOW - SECOND}
    return running_run(**{**ended, **changes})


def a_task(*runs: Run, **changes: Any) -> Task:
    """Returns a task with these runs; its messages are known."""
    task = Task(
        task_id=ID,
        task_queue_id="provisioner/pool",
        scheduler_id="-",
        project_id="none",
        task_group_id=OTHER,
        priority="medium",
        retries=5,
        retries_left=5,
        deadline=NOW + timedelta(hours=1),
        expires=NOW + timedelta(days=1),
        dependencies=0,
        runs=runs,
        hint_id="hint" if runs else "",
        handles=MessageHandles(
            pending=handle("pending") if runs else None,
            claim=handle("claim") if runs and runs[-1].state is State.RUNNING else None,
            deadline=handle("deadline"),
        ),
    )
    return replace(task, **changes)


def a_definition(task_id: str = ID, **changes: Any) -> Definition:
    """Returns a complete definition that is valid at NOW."""
    body = {
        "provisionerId": "provisioner",
        "workerType": "pool",
        "taskQueueId": "provisioner/pool",
        "schedulerId": "-",
        "projectId": "none",
        "taskGroupId": OTHER,
        "dependencies": [],
        "requires": "all-completed",
        "routes": [],
        "priority": "medium",
        "retries": 5,
        "created": format_date(NOW),
        "deadline": format_date(NOW + timedelta(hours=1)),
        "expires": format_date(NOW + timedelta(days=1)),
        "scopes": [],
        "payload": {},
        "metadata": {"name": "", "description": "", "owner": "", "source": "https://example.com"},
        "tags": {},
        "extra": {},
    }
    return Definition(task_id=task_id, body={**body, **changes})


def hand_back(task: Task, run_id: int, worker: Worker, taken_until: datetime, sequence: int) -> Decision:
    """Decides how a claim of that run is given back that no worker has received."""
    started = task.runs[run_id].started or NOW
    return claim_ends.take_back(
        task,
        UndeliveredClaim(
            task_id=task.task_id,
            run_id=run_id,
            worker=worker,
            taken_until=taken_until,
            sequence=sequence,
            started=started,
        ),
    )
