"""Endpoints on task groups: models, rows and handlers (contract 2.1 to 2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from shared.api.endpoint import PAGING, Call, Endpoint
from shared.api.validation import continued, limit_of, start_of
from shared.auth import audit
from shared.auth.audit import Audit, Entry
from shared.base.dates import format_date
from shared.base.errors import RequestConflict
from shared.base.frozen import dataclass
from shared.base.types import Closed, Count, Date, Id, Priority, SlugId, Unique, optional
from shared.queue.groups.jobs import GroupJob, GroupJobs
from shared.queue.groups.listing import Batches, Groups, ListedTasks
from shared.queue.groups.recent import RecentGroup, RecentGroups
from shared.queue.groups.rows import Group
from shared.queue.tasks.models import ChangeTaskPriorityRequest, TaskDefinitionAndStatus


class TaskGroupResponse(Closed):
    """A task group."""

    taskGroupId: SlugId
    schedulerId: Id
    expires: Date
    sealed: Date = optional()


class ListTaskGroupResponse(TaskGroupResponse):
    """A page of a task group."""

    tasks: list[TaskDefinitionAndStatus]
    continuationToken: str = optional()


class RecentTaskGroup(TaskGroupResponse):
    """A task group, with what its first task says: `taskId` is that task's. `single`: the group has no other task.

    `taskId` and `projectId` are absent for a group that was created before they were noted.
    """

    created: Date
    taskId: SlugId = optional()
    projectId: str = optional()
    single: bool
    name: str
    owner: str
    source: str


class ListTaskGroupsResponse(Closed):
    """A page of task groups, latest first."""

    taskGroups: list[RecentTaskGroup]
    continuationToken: str = optional()


class CancelTaskGroupResponse(Closed):
    """What cancelling a group did now."""

    taskGroupId: SlugId
    taskGroupSize: Count
    cancelledCount: Count
    taskIds: Unique[SlugId]


class TaskGroupPriorityChangeResponse(Closed):
    """What changing a group's priority did now."""

    taskGroupId: SlugId
    schedulerId: Id
    newPriority: Priority
    tasksAffected: Count
    taskIds: list[SlugId]


class ListDependentTasksResponse(Closed):
    """A page of the tasks that depend on a task."""

    taskId: SlugId
    tasks: list[TaskDefinitionAndStatus]
    continuationToken: str = optional()


@dataclass(frozen=True, kw_only=True)
class GroupServices:
    """What the endpoints of task groups call."""

    audit: Audit
    batches: Batches
    groups: Groups
    group_jobs: GroupJobs
    recent_groups: RecentGroups


async def list_task_group(services: GroupServices, call: Call) -> Mapping[str, Any]:
    """A page of a group."""
    group, listed = await services.groups.list(
        call.params["taskGroupId"], start=start_of(call.query), limit=limit_of(call.query)
    )
    return {**_group(group), **_page(listed)}


async def list_task_groups(services: GroupServices, call: Call) -> Mapping[str, Any]:
    """A page of all groups."""
    found, resume = await services.recent_groups.page(start=start_of(call.query), limit=limit_of(call.query))
    return {"taskGroups": [_recent(group) for group in found], **continued(resume)}


async def get_task_group(services: GroupServices, call: Call) -> Mapping[str, Any]:
    """A group's header."""
    return _group(await services.groups.existing(call.params["taskGroupId"]))


async def seal_task_group(services: GroupServices, call: Call) -> Mapping[str, Any]:
    """sealTaskGroup."""
    group = await services.groups.existing(call.params["taskGroupId"])
    await call.authorise({"schedulerId": group.scheduler_id})
    async with _noted(services, call, group, "sealed") as entry:
        return _group(await services.groups.seal(group, entry))


async def cancel_task_group(services: GroupServices, call: Call) -> Mapping[str, Any]:
    """cancelTaskGroup: the seal is checked before the scopes (trap 7)."""
    group = await services.groups.existing(call.params["taskGroupId"])
    if group.sealed is None:
        raise RequestConflict(f"task group {group.task_group_id} is not sealed")
    await call.authorise({"schedulerId": group.scheduler_id})
    async with _noted(services, call, group, "canceled") as entry:
        task_ids = await services.group_jobs.call(GroupJob(task_group_id=group.task_group_id, kind="cancel"), entry)
    return {
        "taskGroupId": group.task_group_id,
        "taskGroupSize": await services.group_jobs.size(group.task_group_id),
        "cancelledCount": len(task_ids),
        "taskIds": task_ids,
    }


async def change_task_group_priority(services: GroupServices, call: Call) -> Mapping[str, Any]:
    """changeTaskGroupPriority."""
    group = await services.groups.existing(call.params["taskGroupId"])
    await call.authorise({"schedulerId": group.scheduler_id})
    priority = call.payload(ChangeTaskPriorityRequest).newPriority
    job = GroupJob(task_group_id=group.task_group_id, kind="priority", new_priority=priority)
    async with _noted(services, call, group, "priority changed", f"to {priority}") as entry:
        task_ids = await services.group_jobs.call(job, entry)
    await services.groups.announce_priority(group, priority, len(task_ids))
    return {
        "taskGroupId": group.task_group_id,
        "schedulerId": group.scheduler_id,
        "newPriority": priority,
        "tasksAffected": len(task_ids),
        "taskIds": task_ids,
    }


async def list_dependent_tasks(services: GroupServices, call: Call) -> Mapping[str, Any]:
    """A page of a task's dependents."""
    task_id = call.params["taskId"]
    listed = await services.batches.dependents(task_id, start=start_of(call.query), limit=limit_of(call.query))
    return {"taskId": task_id, **_page(listed)}


def _noted(
    services: GroupServices, call: Call, group: Group, action: str, detail: str = ""
) -> AbstractAsyncContextManager[Entry]:
    return services.audit.entry_of(call, audit.task_group(group.task_group_id), action, detail)


def _group(group: Group) -> dict[str, Any]:
    shown = {
        "taskGroupId": group.task_group_id,
        "schedulerId": group.scheduler_id,
        "expires": format_date(group.expires),
    }
    return shown if group.sealed is None else {**shown, "sealed": format_date(group.sealed)}


def _recent(group: RecentGroup) -> dict[str, Any]:
    created = group.created
    return {
        **_group(group.header),
        "created": format_date(created.created),
        **({"taskId": created.task_id, "projectId": created.project_id} if created.task_id else {}),
        "single": group.is_single,
        "name": created.name,
        "owner": created.owner,
        "source": created.source,
    }


def _page(listed: ListedTasks) -> dict[str, Any]:
    tasks = [{"task": each.task, "status": each.status} for each in listed.tasks]
    return {"tasks": tasks, **continued(listed.resume)}


ENDPOINTS: tuple[Endpoint[GroupServices], ...] = (
    Endpoint(
        name="listTaskGroup",
        method="GET",
        route="/task-group/<taskGroupId>/list",
        handler=list_task_group,
        title="List Task Group",
        description="Lists the tasks of a group, a page at a time, in the order of taskId.",
        category="Task Groups",
        scopes="queue:list-task-group:<taskGroupId>",
        query=PAGING,
        output=ListTaskGroupResponse,
    ),
    Endpoint(
        name="listTaskGroups",
        method="GET",
        route="/task-groups",
        handler=list_task_groups,
        title="List Task Groups",
        description="Lists the task groups that have not expired, the latest first, each with the name, owner and "
        "source of its first task; at most 100 a page. A page may be short while there are more. Not part of the "
        "public API.",
        category="Task Groups",
        scopes="queue:list-task-groups",
        query=PAGING,
        output=ListTaskGroupsResponse,
        stability="experimental",
    ),
    Endpoint(
        name="getTaskGroup",
        method="GET",
        route="/task-group/<taskGroupId>",
        handler=get_task_group,
        title="Get Task Group",
        description="Returns the properties of a group, without its tasks.",
        category="Task Groups",
        scopes="queue:list-task-group:<taskGroupId>",
        output=TaskGroupResponse,
    ),
    Endpoint(
        name="sealTaskGroup",
        method="POST",
        route="/task-group/<taskGroupId>/seal",
        handler=seal_task_group,
        title="Seal Task Group",
        description="Seals a group permanently: no task can be added to it any more.",
        category="Task Groups",
        scopes="queue:seal-task-group:<schedulerId>/<taskGroupId>",
        output=TaskGroupResponse,
        stability="experimental",
    ),
    Endpoint(
        name="cancelTaskGroup",
        method="POST",
        route="/task-group/<taskGroupId>/cancel",
        handler=cancel_task_group,
        title="Cancel Task Group",
        description="Cancels every unresolved task of a sealed group. A large group is cancelled in the background "
        "after the first seconds; a repeat reports the rest.",
        category="Task Groups",
        scopes="queue:cancel-task-group:<schedulerId>/<taskGroupId>",
        output=CancelTaskGroupResponse,
        stability="experimental",
    ),
    Endpoint(
        name="changeTaskGroupPriority",
        method="POST",
        route="/task-group/<taskGroupId>/priority",
        handler=change_task_group_priority,
        title="Change Task Group Priority",
        description="Changes the priority of every task of a group that has not been resolved yet.",
        category="Task Groups",
        scopes="queue:change-task-group-priority:<schedulerId>/<taskGroupId>",
        input=ChangeTaskPriorityRequest,
        output=TaskGroupPriorityChangeResponse,
        stability="experimental",
    ),
    Endpoint(
        name="listDependentTasks",
        method="GET",
        route="/task/<taskId>/dependents",
        handler=list_dependent_tasks,
        title="List Dependent Tasks",
        description="Lists the tasks that depend on a task, a page at a time, in the order of taskId.",
        category="Tasks",
        scopes="queue:list-dependent-tasks:<taskId>",
        query=PAGING,
        output=ListDependentTasksResponse,
    ),
)
