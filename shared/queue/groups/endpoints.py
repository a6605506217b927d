"""Endpoints on task groups: models, rows and handlers (contract 2.1 to 2.3)."""

from __future__ import annotations

from typing import Annotated, Any

from shared.api.endpoint import Call, Endpoints, Json
from shared.api.validation import page_of, place_of
from shared.auth import audit
from shared.base.dates import format_date
from shared.base.errors import RequestConflict
from shared.base.types import Closed, Count, Date, Id, Priority, SlugId, Unique, optional, page_model
from shared.queue.groups.jobs import GroupJob
from shared.queue.groups.listing import Listed
from shared.queue.groups.recent import CREATED_COLUMNS, RecentGroup
from shared.queue.groups.rows import Group
from shared.queue.services import QueueServices
from shared.queue.tasks.models import ChangeTaskPriorityRequest, TaskDefinitionAndStatus


class TaskGroupResponse(Closed):
    """A task group."""

    taskGroupId: SlugId
    schedulerId: Id
    expires: Date
    sealed: Date = optional()


class RecentTaskGroup(TaskGroupResponse):
    """A task group, with what its first task says: `taskId` is that task's. `single`: the group has no other task."""

    created: Date
    taskId: SlugId
    projectId: str
    single: bool
    name: str
    owner: str
    source: str


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


ListTaskGroupResponse = page_model(
    "ListTaskGroupResponse", "A page of a task group.", base=TaskGroupResponse, tasks=list[TaskDefinitionAndStatus]
)
ListTaskGroupsResponse = page_model(
    "ListTaskGroupsResponse", "A page of task groups, latest first.", taskGroups=list[RecentTaskGroup]
)
ListDependentTasksResponse = page_model(
    "ListDependentTasksResponse",
    "A page of the tasks that depend on a task.",
    taskId=SlugId,
    tasks=list[TaskDefinitionAndStatus],
)
ENDPOINTS = Endpoints[QueueServices]("Task Groups")


@ENDPOINTS(
    "listTaskGroup",
    "GET /task-group/<taskGroupId>/list",
    "List Task Group",
    scopes="queue:list-task-group:<taskGroupId>",
)
async def list_task_group(services: QueueServices, call: Call) -> Annotated[Json, ListTaskGroupResponse]:
    """Lists the tasks of a group, a page at a time, in the order of taskId."""
    group, listed = await services.groups.list(call.params["taskGroupId"], **place_of(call.query))
    return {**_group(group), **page_of("tasks", listed, _task_and_status)}


@ENDPOINTS(
    "listTaskGroups", "GET /task-groups", "List Task Groups", scopes="queue:list-task-groups", stability="experimental"
)
async def list_task_groups(services: QueueServices, call: Call) -> Annotated[Json, ListTaskGroupsResponse]:
    """Lists the task groups that have not expired, the latest first, each with the name, owner and source of its first
    task; at most 100 a page. A page may be short while there are more. Not part of the public API."""
    return page_of("taskGroups", await services.recent_groups.group_page(**place_of(call.query)), _recent)


@ENDPOINTS(
    "getTaskGroup", "GET /task-group/<taskGroupId>", "Get Task Group", scopes="queue:list-task-group:<taskGroupId>"
)
async def get_task_group(services: QueueServices, call: Call) -> Annotated[Json, TaskGroupResponse]:
    """Returns the properties of a group, without its tasks."""
    return _group(await services.groups.existing(call.params["taskGroupId"]))


@ENDPOINTS(
    "sealTaskGroup",
    "POST /task-group/<taskGroupId>/seal",
    "Seal Task Group",
    scopes="queue:seal-task-group:<schedulerId>/<taskGroupId>",
    stability="experimental",
)
async def seal_task_group(services: QueueServices, call: Call) -> Annotated[Json, TaskGroupResponse]:
    """Seals a group permanently: no task can be added to it any more."""
    group = await services.groups.existing(call.params["taskGroupId"])
    await call.authorise({"schedulerId": group.scheduler_id})
    async with services.audit.entry_of(call, audit.task_group(group.task_group_id), "sealed") as entry:
        return _group(await services.groups.seal(group, entry))


@ENDPOINTS(
    "cancelTaskGroup",
    "POST /task-group/<taskGroupId>/cancel",
    "Cancel Task Group",
    scopes="queue:cancel-task-group:<schedulerId>/<taskGroupId>",
    stability="experimental",
)
async def cancel_task_group(services: QueueServices, call: Call) -> Annotated[Json, CancelTaskGroupResponse]:
    """Cancels every unresolved task of a sealed group. A large group is cancelled in the background after the first
    seconds; a repeat reports the rest."""
    group = await services.groups.existing(call.params["taskGroupId"])
    if group.sealed is None:  # checked before the scopes (trap 7)
        raise RequestConflict(f"task group {group.task_group_id} is not sealed")
    await call.authorise({"schedulerId": group.scheduler_id})
    async with services.audit.entry_of(call, audit.task_group(group.task_group_id), "canceled") as entry:
        task_ids = await services.group_jobs.call(GroupJob(task_group_id=group.task_group_id, kind="cancel"), entry)
    return {
        "taskGroupId": group.task_group_id,
        "taskGroupSize": await services.group_jobs.size(group.task_group_id),
        "cancelledCount": len(task_ids),
        "taskIds": task_ids,
    }


@ENDPOINTS(
    "changeTaskGroupPriority",
    "POST /task-group/<taskGroupId>/priority",
    "Change Task Group Priority",
    scopes="queue:change-task-group-priority:<schedulerId>/<taskGroupId>",
    input=ChangeTaskPriorityRequest,
    stability="experimental",
)
async def change_task_group_priority(
    services: QueueServices, call: Call
) -> Annotated[Json, TaskGroupPriorityChangeResponse]:
    """Changes the priority of every task of a group that has not been resolved yet."""
    group = await services.groups.existing(call.params["taskGroupId"])
    await call.authorise({"schedulerId": group.scheduler_id})
    priority = call.payload(ChangeTaskPriorityRequest).newPriority
    job = GroupJob(task_group_id=group.task_group_id, kind="priority", new_priority=priority)
    noted = audit.task_group(group.task_group_id), "priority changed", f"to {priority}"
    async with services.audit.entry_of(call, *noted) as entry:
        task_ids = await services.group_jobs.call(job, entry)
    await services.groups.announce_priority(group, priority, len(task_ids))
    return {
        "taskGroupId": group.task_group_id,
        "schedulerId": group.scheduler_id,
        "newPriority": priority,
        "tasksAffected": len(task_ids),
        "taskIds": task_ids,
    }


@ENDPOINTS(
    "listDependentTasks",
    "GET /task/<taskId>/dependents",
    "List Dependent Tasks",
    category="Tasks",
    scopes="queue:list-dependent-tasks:<taskId>",
)
async def list_dependent_tasks(services: QueueServices, call: Call) -> Annotated[Json, ListDependentTasksResponse]:
    """Lists the tasks that depend on a task, a page at a time, in the order of taskId."""
    task_id = call.params["taskId"]
    listed = await services.batches.dependents(task_id, **place_of(call.query))
    return {"taskId": task_id, **page_of("tasks", listed, _task_and_status)}


def _group(group: Group) -> dict[str, Any]:
    shown = {
        "taskGroupId": group.task_group_id,
        "schedulerId": group.scheduler_id,
        "expires": format_date(group.expires),
    }
    return shown if group.sealed is None else {**shown, "sealed": format_date(group.sealed)}


def _recent(group: RecentGroup) -> dict[str, Any]:
    created, header, is_single = group
    return {**_group(header), **CREATED_COLUMNS.encode(created), "single": is_single}


def _task_and_status(task: Listed) -> dict[str, Any]:
    return {"task": task.task, "status": task.status}
