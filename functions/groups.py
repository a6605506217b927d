"""Endpoints on task groups and on many tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from functions.http import Handler
from shared.api.call import Call
from shared.api.models.groups import ChangeTaskPriorityRequest, TasksRequest
from shared.api.paging import limit_of, start_of, token_of
from shared.api.types import SLUGID_PATTERN
from shared.domain.dates import format_date
from shared.errors import InputError, RequestConflict
from shared.services import Services
from shared.storage.group_rows import Group
from shared.usecases.group_jobs import GroupJob
from shared.usecases.groups import ListedTasks

_SLUGID = re.compile(SLUGID_PATTERN.removesuffix("$"))


async def tasks(services: Services, call: Call) -> Mapping[str, Any]:
    """Definitions of many tasks."""
    page, more = await _ids(call)
    found = await services.batches.definitions(page)
    return {"tasks": [{"taskId": task_id, "task": task} for task_id, task in found], **more}


async def statuses(services: Services, call: Call) -> Mapping[str, Any]:
    """Statuses of many tasks."""
    page, more = await _ids(call)
    found = await services.batches.statuses(page)
    return {"statuses": [{"taskId": task_id, "status": status} for task_id, status in found], **more}


async def list_task_group(services: Services, call: Call) -> Mapping[str, Any]:
    """A page of a group."""
    group, listed = await services.groups.list(
        call.params["taskGroupId"], start=start_of(call.query), limit=limit_of(call.query)
    )
    return {**_group(group), **_page(listed)}


async def get_task_group(services: Services, call: Call) -> Mapping[str, Any]:
    """A group's header."""
    return _group(await services.groups.known(call.params["taskGroupId"]))


async def seal_task_group(services: Services, call: Call) -> Mapping[str, Any]:
    """sealTaskGroup."""
    group = await services.groups.known(call.params["taskGroupId"])
    await call.authorise({"schedulerId": group.scheduler_id})
    return _group(await services.groups.seal(group))


async def cancel_task_group(services: Services, call: Call) -> Mapping[str, Any]:
    """cancelTaskGroup: the seal is checked before the scopes (trap 7)."""
    group = await services.groups.known(call.params["taskGroupId"])
    if group.sealed is None:
        raise RequestConflict(f"task group {group.task_group_id} is not sealed")
    await call.authorise({"schedulerId": group.scheduler_id})
    task_ids = await services.group_jobs.call(GroupJob(task_group_id=group.task_group_id, kind="cancel"))
    return {
        "taskGroupId": group.task_group_id,
        "taskGroupSize": await services.group_jobs.size(group.task_group_id),
        "cancelledCount": len(task_ids),
        "taskIds": task_ids,
    }


async def change_task_group_priority(services: Services, call: Call) -> Mapping[str, Any]:
    """changeTaskGroupPriority."""
    group = await services.groups.known(call.params["taskGroupId"])
    await call.authorise({"schedulerId": group.scheduler_id})
    priority = call.payload(ChangeTaskPriorityRequest).newPriority
    job = GroupJob(task_group_id=group.task_group_id, kind="priority", new_priority=priority)
    task_ids = await services.group_jobs.call(job)
    await services.groups.announce_priority(group, priority, len(task_ids))
    return {
        "taskGroupId": group.task_group_id,
        "schedulerId": group.scheduler_id,
        "newPriority": priority,
        "tasksAffected": len(task_ids),
        "taskIds": task_ids,
    }


async def list_dependent_tasks(services: Services, call: Call) -> Mapping[str, Any]:
    """A page of a task's dependents."""
    task_id = call.params["taskId"]
    listed = await services.batches.dependents(task_id, start=start_of(call.query), limit=limit_of(call.query))
    return {"taskId": task_id, **_page(listed)}


async def _ids(call: Call) -> tuple[Sequence[str], Mapping[str, str]]:
    """The page of ids that is asked for, authorised as a whole, and the token of the next one.

    Raises InputError for a token that is not a position in the list.
    """
    task_ids = call.payload(TasksRequest).taskIds
    await call.authorise({"taskIds": task_ids})
    position = start_of(call.query) or "0"
    if not (position.isascii() and position.isdigit() and len(position) < 10):
        raise InputError("invalid continuationToken")
    start = int(position)
    end = start + limit_of(call.query)
    more = {"continuationToken": token_of(str(end))} if start < end < len(task_ids) else {}
    return [task_id for task_id in task_ids[start:end] if _SLUGID.fullmatch(task_id)], more


def _group(group: Group) -> dict[str, Any]:
    shown = {
        "taskGroupId": group.task_group_id,
        "schedulerId": group.scheduler_id,
        "expires": format_date(group.expires),
    }
    return shown if group.sealed is None else {**shown, "sealed": format_date(group.sealed)}


def _page(listed: ListedTasks) -> dict[str, Any]:
    page: dict[str, Any] = {"tasks": [{"task": task.definition, "status": task.status} for task in listed.tasks]}
    return page if listed.resume is None else {**page, "continuationToken": token_of(listed.resume)}


HANDLERS: Mapping[str, Handler] = {
    "tasks": tasks,
    "statuses": statuses,
    "listTaskGroup": list_task_group,
    "getTaskGroup": get_task_group,
    "sealTaskGroup": seal_task_group,
    "cancelTaskGroup": cancel_task_group,
    "changeTaskGroupPriority": change_task_group_priority,
    "listDependentTasks": list_dependent_tasks,
}
