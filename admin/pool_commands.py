"""Commands on pools and their workers, through the API: `pool`, `worker`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from admin.connection import queue_api
from admin.durations import expiry
from admin.output import say, show

workers = typer.Typer(help="Workers: keep one from claiming tasks.", no_args_is_help=True)
pools = typer.Typer(help="Pools (task queues): what waits, what runs, let one run dry.", no_args_is_help=True)

TaskQueueId = Annotated[str, typer.Argument(metavar="TASK_QUEUE_ID", help="provisionerId/workerType.")]
Group = Annotated[str, typer.Argument(metavar="WORKER_GROUP", show_default=False)]
WorkerId = Annotated[str, typer.Argument(metavar="WORKER_ID", show_default=False)]
For = Annotated[str, typer.Option("--for", help="How long: 90m, 12h, 30d, 52w.")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the worker's history.")]
LONG_AGO = "1970-01-01T00:00:00.000Z"
"""A quarantine until then is none."""


@workers.command("quarantine")
def quarantine(task_queue_id: TaskQueueId, worker_group: Group, worker_id: WorkerId, reason: Reason, span: For) -> None:
    """Let a worker claim nothing for a while; what it runs it may finish."""
    with queue_api() as queue:
        show(_quarantine(queue, task_queue_id, worker_group, worker_id, expiry(span), reason))


@workers.command("release")
def release(task_queue_id: TaskQueueId, worker_group: Group, worker_id: WorkerId, reason: Reason = "released") -> None:
    """End a worker's quarantine."""
    with queue_api() as queue:
        show(_quarantine(queue, task_queue_id, worker_group, worker_id, LONG_AGO, reason))


@pools.command("show")
def show_pool(task_queue_id: TaskQueueId) -> None:
    """Show how many tasks wait and run, and which workers are there."""
    with queue_api() as queue:
        show(_state(queue, task_queue_id))


@pools.command("drain")
def drain(
    task_queue_id: TaskQueueId,
    reason: Reason,
    span: For = "52w",
    cancel_pending: Annotated[bool, typer.Option("--cancel-pending", help="Cancel what waits, too.")] = False,
) -> None:
    """Quarantine every worker of a pool, so that it starts nothing more; what runs goes on to its end.

    Workers that come later are not covered: stop whatever starts them first.
    """
    with queue_api() as queue:
        until = expiry(span)
        for worker in _workers(queue, task_queue_id):
            if not _is_quarantined(worker):
                _quarantine(queue, task_queue_id, worker["workerGroup"], worker["workerId"], until, reason)
                say(f"quarantined {worker['workerGroup']}/{worker['workerId']}")
        if cancel_pending:
            for task_id in [task["taskId"] for task in _pending(queue, task_queue_id)]:
                queue.cancelTask(task_id)
                say(f"cancelled {task_id}")
        show(_state(queue, task_queue_id))


@pools.command("refill")
def refill(task_queue_id: TaskQueueId, reason: Reason = "released") -> None:
    """End the quarantine of every worker of a pool."""
    with queue_api() as queue:
        for worker in _workers(queue, task_queue_id):
            if _is_quarantined(worker):
                _quarantine(queue, task_queue_id, worker["workerGroup"], worker["workerId"], LONG_AGO, reason)
                say(f"released {worker['workerGroup']}/{worker['workerId']}")
        show(_state(queue, task_queue_id))


def _quarantine(queue: Any, task_queue_id: str, group: str, worker_id: str, until: str, reason: str) -> Any:
    provisioner_id, worker_type = task_queue_id.split("/", 1)
    request = {"quarantineUntil": until, "quarantineInfo": reason}
    return queue.quarantineWorker(provisioner_id, worker_type, group, worker_id, request)


def _state(queue: Any, task_queue_id: str) -> dict[str, Any]:
    counts = queue.taskQueueCounts(task_queue_id)
    found = [
        {
            "worker": f"{worker['workerGroup']}/{worker['workerId']}",
            "quarantined": _is_quarantined(worker),
            "lastDateActive": worker.get("lastDateActive"),
            "latestTask": worker.get("latestTask"),
        }
        for worker in _workers(queue, task_queue_id)
    ]
    return {"pending": counts["pendingTasks"], "claimed": counts["claimedTasks"], "workers": found}


def _workers(queue: Any, task_queue_id: str) -> list[Any]:
    found: list[Any] = []
    provisioner_id, worker_type = task_queue_id.split("/", 1)
    queue.listWorkers(provisioner_id, worker_type, paginationHandler=lambda page: found.extend(page["workers"]))
    return found


def _pending(queue: Any, task_queue_id: str) -> Iterator[Any]:
    found: list[Any] = []
    queue.listPendingTasks(task_queue_id, paginationHandler=lambda page: found.extend(page["tasks"]))
    return iter(found)


def _is_quarantined(worker: Any) -> bool:
    until = worker.get("quarantineUntil")
    return until is not None and datetime.fromisoformat(until) > datetime.now(UTC)
