"""Commands on task groups, through the API: `group list|show|seal|cancel|rerun-failed`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from tools.admin.connection import queue_api
from tools.admin.output import say, show
from tools.admin.storage_commands import groups as groups  # with the commands of this module
from tools.admin.tables import FINAL, ago, counts, facts, painted, plain, printed, table
from tools.admin.work import UNSUCCESSFUL, GroupId, Json, Watch, changes, each, gathered, request

_NAMED_AT_ONCE = 50
"""Of more failures at a look, the first are named."""

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="The most to show.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@groups.command("list")
def list_groups(limit: Limit = 20, as_json: Json = False) -> None:
    """List task groups, newest first."""
    with queue_api() as queue:
        found = request(queue, "GET", "/task-groups", limit=limit)["taskGroups"]
    printed(found, as_json=as_json, otherwise=_list)


@groups.command("show")
def show_group(group_id: GroupId, watch: Watch = False, as_json: Json = False) -> None:
    """Show a group's tasks by state, and those that failed.

    With --watch, to its end: names what fails as it does. Exit code 3 if any task did not complete.
    """
    with queue_api() as queue:
        if not watch:
            group = queue.getTaskGroup(group_id)
            printed({**group, "tasks": _members(queue, group_id)}, as_json=as_json, otherwise=_show)
            return
        said: set[tuple[str, int]] = set()
        for seen in changes(lambda: _seen(_members(queue, group_id))):
            states = [one.state for one in seen]
            if as_json:
                show({one.task_id: one.state for one in seen})
            else:
                typer.echo(painted(counts(states)))
                _say_failures(seen, said)
            if states and FINAL.issuperset(states):
                raise typer.Exit(0 if set(states) == {"completed"} else UNSUCCESSFUL)


@dataclass(frozen=True)
class _Seen:
    """What a watcher is told of a task."""

    task_id: str
    name: str
    state: str
    reason: str | None
    runs: int


def _seen(members: list[Any]) -> list[_Seen]:
    found = []
    for member in members:
        status = member["status"]
        reason = status["runs"][-1].get("reasonResolved") if status["state"] == "exception" and status["runs"] else None
        name = member["task"]["metadata"]["name"]
        found.append(_Seen(status["taskId"], name, status["state"], reason, len(status["runs"])))
    return found


def _say_failures(seen: list[_Seen], said: set[tuple[str, int]]) -> None:
    """Name what failed since, each run once; and say when nothing can go on by itself."""
    failed = [one for one in seen if one.state in ("failed", "exception") and one.reason != "canceled"]
    fresh = [one for one in failed if (one.task_id, one.runs) not in said]
    said.update((one.task_id, one.runs) for one in fresh)
    for one in fresh[:_NAMED_AT_ONCE]:
        why = f" ({one.reason})" if one.reason else ""
        typer.echo(f"  {painted(one.state)}{why}  {one.task_id}  {plain(one.name)}")
    if len(fresh) > _NAMED_AT_ONCE:
        typer.echo(f"  and {len(fresh) - _NAMED_AT_ONCE:,} more")
    waiting = sum(one.state == "unscheduled" for one in seen)
    if fresh and waiting and not any(one.state in ("pending", "running") for one in seen):
        say(f"{waiting:,} wait for what did not complete: rerun it, or cancel them")


@groups.command("seal")
def seal_group(group_id: GroupId) -> None:
    """Let no task be added to a group any more."""
    with queue_api() as queue:
        show(queue.sealTaskGroup(group_id))


@groups.command("cancel")
def cancel_group(group_id: GroupId, yes: Yes = False) -> None:
    """Cancel what is not resolved of a group, which must be sealed."""
    if not yes:
        typer.confirm(f"Cancel all tasks of {group_id} that are not resolved?", abort=True, err=True)
    with queue_api() as queue:
        show(queue.cancelTaskGroup(group_id))


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
    """Whether somebody cancelled the task: that is no failure."""
    return bool(status["runs"]) and status["runs"][-1].get("reasonResolved") == "canceled"


def _members(queue: Any, group_id: str) -> list[Any]:
    return gathered(queue.listTaskGroup, group_id, field="tasks")


def _list(found: list[Any]) -> None:
    table(
        ("TASK GROUP", "CREATED", "OWNER", "NAME"),
        [(one["taskGroupId"], ago(one.get("created")), one.get("owner"), one.get("name")) for one in found],
    )


def _show(found: dict[str, Any]) -> None:
    members = found["tasks"]
    facts(
        {
            "task group": found["taskGroupId"],
            "scheduler": found["schedulerId"],
            "sealed": ago(found.get("sealed")) or "no",
            "expires": ago(found["expires"]),
            "tasks": f"{len(members):,}: {counts(one['status']['state'] for one in members)}",
        }
    )
    shown = [one for one in members if one["status"]["state"] != "completed"]
    if shown:
        typer.echo()
        table(("TASK", "STATE", "TASK QUEUE", "NAME"), [_row(one) for one in sorted(shown, key=_order)])


def _row(member: Any) -> tuple[Any, ...]:
    status, definition = member["status"], member["task"]
    reason = status["runs"][-1].get("reasonResolved") if status["state"] == "exception" else None
    state = f"{status['state']} ({reason})" if reason else status["state"]
    return status["taskId"], state, status["taskQueueId"], definition["metadata"]["name"]


def _order(member: Any) -> tuple[str, str]:
    return member["status"]["state"], member["task"]["metadata"]["name"]
