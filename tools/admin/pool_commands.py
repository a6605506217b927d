"""Commands on pools, through the API: `pool drain|refill`, and what others need of their workers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

import typer
from taskcluster.exceptions import TaskclusterRestFailure

from shared.base.types import TASK_QUEUE_PATTERN
from tools.admin.connection import queue_api
from tools.admin.durations import expiry
from tools.admin.output import fail, say, show
from tools.admin.work import gathered, request

workers = typer.Typer(
    help="Workers. `taskcluster api queue listWorkers|getWorker|quarantineWorker` shows them and takes one out.",
    no_args_is_help=True,
)
pools = typer.Typer(help="Pools (task queues): let one run dry; `queue show` looks at it.", no_args_is_help=True)


def _task_queue_id(text: str) -> str:
    if re.fullmatch(TASK_QUEUE_PATTERN, text) is None:
        fail(f"{text!r} is no taskQueueId: that is provisionerId/workerType, such as gecko-t/linux")
    return text


TaskQueueId = Annotated[
    str, typer.Argument(metavar="TASK_QUEUE_ID", help="provisionerId/workerType.", callback=_task_queue_id)
]
Group = Annotated[str, typer.Argument(metavar="WORKER_GROUP", show_default=False)]
WorkerId = Annotated[str, typer.Argument(metavar="WORKER_ID", show_default=False)]
For = Annotated[str, typer.Option("--for", help="How long: 90m, 12h, 30d, 52w.")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the worker's history.")]
LONG_AGO = "1970-01-01T00:00:00.000Z"
"""An end of a quarantine that lies so far back that the worker is in none."""
DRAINED = "pool drain: "
"""Prefix of the reasons of quarantines that `pool drain` has set, and that `pool refill` may undo."""


@pools.command("drain")
def drain(
    task_queue_id: TaskQueueId,
    reason: Reason,
    span: For = "52w",
    cancel_pending: Annotated[bool, typer.Option("--cancel-pending", help="Cancel what waits, too.")] = False,
) -> None:
    """Quarantine every worker of a pool, so that it starts nothing more; what runs goes on to its end.

    Workers that come later are not covered: stop whatever starts them first. Those that are in quarantine for longer
    stay as they are.
    """
    with _pool(task_queue_id) as queue:
        until = expiry(span)
        for worker in workers_of(queue, task_queue_id):
            if _time(worker.get("quarantineUntil")) < _time(until):
                _quarantine(queue, task_queue_id, worker["workerGroup"], worker["workerId"], until, DRAINED + reason)
                say(f"quarantined {worker['workerGroup']}/{worker['workerId']}")
        if cancel_pending:
            for task_id in [task["taskId"] for task in gathered(queue.listPendingTasks, task_queue_id, field="tasks")]:
                queue.cancelTask(task_id)
                say(f"cancelled {task_id}")
        show(state_of(queue, task_queue_id))


@pools.command("refill")
def refill(task_queue_id: TaskQueueId, reason: Reason = "released") -> None:
    """Undo what `pool drain` did: a worker that is in quarantine for another reason stays there."""
    with _pool(task_queue_id) as queue:
        for worker in workers_of(queue, task_queue_id):
            if not is_quarantined(worker):
                continue
            group, worker_id = worker["workerGroup"], worker["workerId"]
            provisioner_id, worker_type = task_queue_id.split("/", 1)
            history = queue.getWorker(provisioner_id, worker_type, group, worker_id).get("quarantineDetails", [])
            before = _before_the_drain(history)
            if before is None:
                say(f"left {group}/{worker_id}: in quarantine for another reason")
                continue
            until, why = before or (LONG_AGO, reason)
            _quarantine(queue, task_queue_id, group, worker_id, until, why)
            say(f"released {group}/{worker_id}" if until == LONG_AGO else f"back in quarantine {group}/{worker_id}")
        show(state_of(queue, task_queue_id))


def _before_the_drain(history: list[Any]) -> tuple[str, str] | tuple[()] | None:
    """Returns end and reason of the quarantine that a drain has prolonged, () if there was none; None if the last
    quarantine is not a drain's."""
    entries = sorted(history, key=lambda entry: _time(entry["updatedAt"]))
    if not entries or not entries[-1]["quarantineInfo"].startswith(DRAINED):
        return None
    while entries and entries[-1]["quarantineInfo"].startswith(DRAINED):
        entries.pop()
    if entries and _time(entries[-1]["quarantineUntil"]) > datetime.now(UTC):
        return entries[-1]["quarantineUntil"], entries[-1]["quarantineInfo"]
    return ()


@contextmanager
def _pool(task_queue_id: str) -> Iterator[Any]:
    """Yields the queue API, for a pool that exists: others end the command, since they would look like empty ones.

    A pool that no worker has asked for work yet is known by its tasks alone.
    """
    with queue_api() as queue:
        try:
            queue.getTaskQueue(task_queue_id)
        except TaskclusterRestFailure as failure:
            if failure.status_code != HTTPStatus.NOT_FOUND:
                raise
            counts = queue.taskQueueCounts(task_queue_id)
            if not counts["pendingTasks"] and not counts["claimedTasks"]:
                fail(f"there is no pool {task_queue_id}: it has no tasks, and no worker was seen there lately")
        yield queue


def _quarantine(queue: Any, task_queue_id: str, group: str, worker_id: str, until: str, reason: str) -> Any:
    provisioner_id, worker_type = task_queue_id.split("/", 1)
    request = {"quarantineUntil": until, "quarantineInfo": reason}
    return queue.quarantineWorker(provisioner_id, worker_type, group, worker_id, request)


def state_of(queue: Any, task_queue_id: str) -> dict[str, Any]:
    """Returns what waits and runs in a task queue, and its workers."""
    load = request(queue, "GET", f"/task-queues/{quote(task_queue_id, safe='')}/load")
    busy = busy_workers(queue, task_queue_id) if load["claimedTasks"] else set()
    found = [
        {
            "worker": name_of(worker),
            "quarantined": is_quarantined(worker),
            "running": name_of(worker) in busy,
            "lastDateActive": worker.get("lastDateActive"),
            "latestTask": worker.get("latestTask"),
        }
        for worker in workers_of(queue, task_queue_id)
    ]
    stalled = load.get("stalled")
    return {
        "pending": load["pendingTasks"],
        "claimed": load["claimedTasks"],
        "stalled": None if stalled is None else stalled["message"],
        "workers": found,
    }


def busy_workers(queue: Any, task_queue_id: str) -> set[str]:
    """Returns the names of the workers that run a task."""
    return {name_of(task) for task in gathered(queue.listClaimedTasks, task_queue_id, field="tasks")}


def name_of(worker: Any) -> str:
    """Returns a worker's group and id."""
    return f"{worker['workerGroup']}/{worker['workerId']}"


def workers_of(queue: Any, task_queue_id: str) -> list[Any]:
    """Returns the workers of a task queue, as the API lists them."""
    return gathered(queue.listWorkers, *task_queue_id.split("/", 1), field="workers")


def is_quarantined(worker: Any) -> bool:
    """Returns whether a worker gets no work now."""
    return _time(worker.get("quarantineUntil")) > datetime.now(UTC)


def _time(text: str | None) -> datetime:
    return datetime.fromisoformat(text or LONG_AGO)
