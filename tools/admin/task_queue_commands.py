"""Commands on task queues and what their workers do, through the API: `queue list|show`, `worker list|show|removed`."""

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
    busy_workers,
    is_quarantined,
    name_of,
    state_of,
    workers_of,
)
from tools.admin.pool_commands import workers as workers  # with the commands of this module
from tools.admin.storage_commands import queues as queues  # with the commands of this module
from tools.admin.tables import ago, facts, printed, table, until
from tools.admin.work import Json, Watch, changes, gathered_here, request

NOTED_EVERY = timedelta(minutes=31)
"""A worker that finds nothing to do is noted every half hour."""


@queues.command("list")
def list_task_queues(as_json: Json = False) -> None:
    """List the task queues in which tasks wait or workers ask for work, with what waits and what runs."""
    with queue_api() as queue:
        found = gathered_here(queue, "/task-queue-states", "taskQueues")
    printed(found, as_json=as_json, otherwise=_list)


@queues.command("show")
def show_task_queue(task_queue_id: TaskQueueId, watch: Watch = False, as_json: Json = False) -> None:
    """Show what waits and runs in a task queue, and its workers. With --watch: counts, until one ends it."""
    with queue_api() as queue:
        if not watch:
            printed(state_of(queue, task_queue_id), as_json=as_json, otherwise=_show)
            return
        for counts in changes(lambda: queue.taskQueueCounts(task_queue_id)):
            if as_json:
                show(counts)
            else:
                typer.echo(f"{counts['pendingTasks']} pending, {counts['claimedTasks']} running")


@workers.command("list")
def list_workers(task_queue_id: TaskQueueId, as_json: Json = False) -> None:
    """List the workers of a task queue."""
    with queue_api() as queue:
        found = workers_of(queue, task_queue_id)
        busy = set() if as_json else busy_workers(queue, task_queue_id)
    printed(found, as_json=as_json, otherwise=lambda workers: _list_workers(workers, busy))


@workers.command("show")
def show_worker(task_queue_id: TaskQueueId, worker_group: Group, worker_id: WorkerId, as_json: Json = False) -> None:
    """Show a worker: its recent tasks, and its quarantines with their reasons."""
    with queue_api() as queue:
        found = queue.getWorker(*task_queue_id.split("/", 1), worker_group, worker_id)
    printed(found, as_json=as_json, otherwise=_show_worker)


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
    """What a worker does, as far as its calls tell."""
    if quarantined:
        return "quarantined"
    if running:
        return "runs a task"
    active = worker.get("lastDateActive")
    silent = active is None or datetime.now(UTC) - datetime.fromisoformat(active) > NOTED_EVERY
    return "not seen lately" if silent else "seen lately"


def _list_workers(found: list[Any], busy: set[str]) -> None:
    table(
        ("WORKER", "STATE", "LAST ACTIVE", "LAST TASK"),
        [
            (
                name_of(one),
                _state(one, running=name_of(one) in busy, quarantined=is_quarantined(one)),
                "now" if name_of(one) in busy else ago(one.get("lastDateActive")),
                one.get("latestTask", {}).get("taskId"),
            )
            for one in found
        ],
    )


def _show_worker(found: dict[str, Any]) -> None:
    quarantined = is_quarantined(found)
    facts(
        {
            "worker": name_of(found),
            "state": "quarantined" if quarantined else "not in quarantine",
            "until": until(found["quarantineUntil"]) if quarantined else None,
            "first claim": ago(found["firstClaim"]),
            "last active": ago(found.get("lastDateActive")),
        }
    )
    if found.get("quarantineDetails"):
        typer.echo()
        table(
            ("QUARANTINED", "BY", "UNTIL", "REASON"),
            [
                (ago(one["updatedAt"]), one["clientId"], until(one["quarantineUntil"]), one["quarantineInfo"])
                for one in found["quarantineDetails"]
            ],
        )
    if found["recentTasks"]:
        typer.echo()
        table(("RECENT TASK", "RUN"), [(one["taskId"], one["runId"]) for one in reversed(found["recentTasks"])])
