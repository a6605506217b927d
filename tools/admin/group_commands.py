"""Commands on task groups, through the API: `group list|rerun-failed`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tools.admin.connection import queue_api
from tools.admin.output import say
from tools.admin.storage_commands import groups as groups  # with the commands of this module
from tools.admin.tables import ago, printed, table
from tools.admin.work import GroupId, Json, each, gathered, request

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="The most to show.")]


@groups.command("list")
def list_groups(limit: Limit = 20, as_json: Json = False) -> None:
    """List task groups, newest first."""
    with queue_api() as queue:
        found = request(queue, "GET", "/task-groups", limit=limit)["taskGroups"]
    printed(found, as_json=as_json, otherwise=_list)


@groups.command("rerun-failed")
def rerun_failed(group_id: GroupId) -> None:
    """Rerun the tasks of a group that failed or ended as an exception, but those that somebody cancelled.

    Exit code 1 if one refused.
    """
    with queue_api() as queue:
        failed = [
            one["status"]["taskId"]
            for one in _members(queue, group_id)
            if one["status"]["state"] in ("failed", "exception") and not _is_canceled(one["status"])
        ]
        if not failed:
            say("nothing has failed")
            return
        each("rerun", failed, queue.rerunTask)


def _is_canceled(status: Any) -> bool:
    """Returns whether somebody cancelled the task, which is no failure."""
    return bool(status["runs"]) and status["runs"][-1].get("reasonResolved") == "canceled"


def _members(queue: Any, group_id: str) -> list[Any]:
    return gathered(queue.listTaskGroup, group_id, field="tasks")


def _list(found: list[Any]) -> None:
    table(
        ("TASK GROUP", "CREATED", "OWNER", "NAME"),
        [(one["taskGroupId"], ago(one.get("created")), one.get("owner"), one.get("name")) for one in found],
    )
