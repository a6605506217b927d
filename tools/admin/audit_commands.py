"""Who did what, through the API: `audit task|group|worker|client|role|by`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tools.admin.connection import auth_api, queue_api
from tools.admin.tables import ago, printed, table
from tools.admin.work import GroupId, Json, TaskId, request

audit = typer.Typer(
    help="Who did what to tasks, groups, workers, clients and roles, and when: for as long as the deployment keeps it.",
    no_args_is_help=True,
)

Worker = Annotated[str, typer.Argument(metavar="WORKER", help="<provisionerId>/<workerType>/<workerGroup>/<workerId>.")]
ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID", show_default=False)]
RoleId = Annotated[str, typer.Argument(metavar="ROLE_ID", show_default=False)]


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


@audit.command("client")
def of_client(client_id: ClientId, as_json: Json = False) -> None:
    """Who created and changed a client."""
    _of_entity("client", client_id, as_json)


@audit.command("role")
def of_role(role_id: RoleId, as_json: Json = False) -> None:
    """Who created and changed a role."""
    _of_entity("role", role_id, as_json)


@audit.command("by")
def by_client(client_id: ClientId, as_json: Json = False) -> None:
    """What a client did."""
    found: list[Any] = []
    with auth_api() as auth:
        auth.listAuditHistory(client_id, paginationHandler=lambda page: found.extend(page["auditHistory"]))
    printed(found, as_json=as_json, otherwise=_list)


def _of_entity(kind: str, name: str, as_json: bool) -> None:
    found: list[Any] = []
    with auth_api() as auth:
        auth.getEntityHistory(kind, name, paginationHandler=lambda page: found.extend(page["auditHistory"]))
    printed(found, as_json=as_json, otherwise=_list)


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
