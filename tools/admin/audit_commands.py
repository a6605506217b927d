"""Who did what, through the API: `audit task|group|worker`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tools.admin.connection import queue_api
from tools.admin.tables import ago, printed, table
from tools.admin.work import GroupId, Json, TaskId, request

audit = typer.Typer(
    help="Who did what to tasks, groups and workers, and when: for as long as the deployment keeps it. "
    "`taskcluster api auth getEntityHistory` and `listAuditHistory` show it of clients, roles and callers.",
    no_args_is_help=True,
)

Worker = Annotated[str, typer.Argument(metavar="WORKER", help="<provisionerId>/<workerType>/<workerGroup>/<workerId>.")]


@audit.command("task")
def of_task(task_id: TaskId, as_json: Json = False) -> None:
    """What was done to a task and to its group."""
    _of_queue(f"/task/{task_id}/audit", as_json)


@audit.command("group")
def of_group(group_id: GroupId, as_json: Json = False) -> None:
    """What was done to a group and to its tasks."""
    _of_queue(f"/task-group/{group_id}/audit", as_json)


@audit.command("worker")
def of_worker(worker: Worker, as_json: Json = False) -> None:
    """Who quarantined and released a worker."""
    parts = worker.split("/")
    if len(parts) != 4:
        raise typer.BadParameter("a worker is <provisionerId>/<workerType>/<workerGroup>/<workerId>")
    provisioner_id, worker_type, group, worker_id = parts
    _of_queue(f"/provisioners/{provisioner_id}/worker-types/{worker_type}/workers/{group}/{worker_id}/audit", as_json)


def _of_queue(path: str, as_json: bool) -> None:
    found: list[Any] = []
    query: dict[str, str] = {}
    with queue_api() as queue:
        while True:
            page = request(queue, "GET", path, **query)
            found.extend(page["auditHistory"])
            if "continuationToken" not in page:
                break
            query["continuationToken"] = page["continuationToken"]
    printed(found, as_json=as_json, otherwise=_list)


def _list(found: list[Any]) -> None:
    table(
        ("WHEN", "WHO", "WHAT", "TO", ""),
        [
            (
                ago(one["created"]),
                one["clientId"],
                one["actionType"],
                f"{one['entityType']} {one['entityId']}",
                one.get("detail", " "),
            )
            for one in found
        ],
    )
