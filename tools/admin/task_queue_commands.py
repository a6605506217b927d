"""Commands on task queues and what their workers do, through the API: `queue list|show`, `worker removed`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import typer

from tools.admin.connection import queue_api
from tools.admin.output import show
from tools.admin.pool_commands import (
    Group,
    TaskQueueId,
    WorkerId,
    state_of,
)
from tools.admin.pool_commands import workers as workers  # with the commands of this module
from tools.admin.storage_commands import queues as queues  # with the commands of this module
from tools.admin.tables import ago, facts, printed, table
from tools.admin.work import Json, gathered_here, request

NOTED_EVERY = timedelta(minutes=31)
"""A worker that finds nothing to do is noted every half hour."""


@queues.command("list")
def list_task_queues(as_json: Json = False) -> None:
    """List the task queues in which tasks wait or workers ask for work, with what waits and what runs."""
    with queue_api() as queue:
        found = gathered_here(queue, "/task-queue-states", "taskQueues")
    printed(found, as_json=as_json, otherwise=_list)


@queues.command("show")
def show_task_queue(task_queue_id: TaskQueueId, as_json: Json = False) -> None:
    """Show what waits and runs in a task queue, and its workers."""
    with queue_api() as queue:
        printed(state_of(queue, task_queue_id), as_json=as_json, otherwise=_show)


@workers.command("removed")
def removed(task_queue_id: TaskQueueId, worker_group: Group, worker_id: WorkerId) -> None:
    """Report that a worker is gone: the tasks that it runs are retried at once."""
    provisioner_id, worker_type = task_queue_id.split("/", 1)
    path = f"/provisioners/{provisioner_id}/worker-types/{worker_type}/workers/{worker_group}/{worker_id}/removed"
    with queue_api() as queue:
        show(request(queue, "POST", path))


def _list(found: list[Any]) -> None:
    table(
        ("TASK QUEUE", "PENDING", "RUNNING", "OLDEST PENDING", "LAST ACTIVE", "STALLED"),
        [
            (
                one["taskQueueId"],
                one["pendingTasks"],
                one["claimedTasks"],
                ago(one.get("oldestPending")),
                ago(one["lastDateActive"]) if "lastDateActive" in one else "no worker",
                one["stalled"]["reason"] if "stalled" in one else None,
            )
            for one in sorted(found, key=lambda one: ("stalled" not in one, -one["pendingTasks"], one["taskQueueId"]))
        ],
    )


def _show(found: dict[str, Any]) -> None:
    facts(
        {
            "pending": found["pending"],
            "running": found["claimed"],
            "workers": len(found["workers"]),
            "stalled": found["stalled"],
        }
    )
    if found["workers"]:
        typer.echo()
        table(
            ("WORKER", "STATE", "LAST ACTIVE", "LAST TASK"),
            [
                (
                    one["worker"],
                    _state(one, running=one["running"], quarantined=one["quarantined"]),
                    "now" if one["running"] else ago(one["lastDateActive"]),
                    (one["latestTask"] or {}).get("taskId"),
                )
                for one in found["workers"]
            ],
        )


def _state(worker: Any, *, running: bool, quarantined: bool) -> str:
    """Returns what a worker does, as far as its calls tell."""
    if quarantined:
        return "quarantined"
    if running:
        return "runs a task"
    active = worker.get("lastDateActive")
    silent = active is None or datetime.now(UTC) - datetime.fromisoformat(active) > NOTED_EVERY
    return "not seen lately" if silent else "seen lately"
