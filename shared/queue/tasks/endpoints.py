"""Endpoints that define, read and move tasks: rows and handlers (contract 2.1, 2.2, 3.1, 3.3)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from shared.api.endpoint import Call, Endpoints, Json
from shared.api.scopes import Params, Template, all_of, any_of, for_each
from shared.api.validation import limit_of, start_of, token_of
from shared.auth import audit
from shared.auth.audit import Entry
from shared.base import bounds
from shared.base.dates import a_year_after, format_date, parse_date
from shared.base.errors import InputError
from shared.base.priority import PRIORITIES, at_least
from shared.base.types import SLUGID_PATTERN
from shared.queue.services import QueueServices
from shared.queue.tasks import models
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.rows import Loaded
from shared.queue.tasks.rules import Task, ids_of


def complete_definition(task_id: str, request: models.CreateTaskRequest) -> Definition:
    """Returns the definition with every field filled in. Raises InputError for a task queue that contradicts itself."""
    body: dict[str, Any] = request.model_dump(mode="json", exclude={"payload", "extra"})
    # These may hold very much: they are passed on as they are.
    body |= {"payload": request.payload, "extra": request.extra}
    joined = f"{request.provisionerId}/{request.workerType}" if request.provisionerId and request.workerType else None
    task_queue_id = request.taskQueueId or joined
    if task_queue_id is None:
        raise InputError("either `taskQueueId`, or `provisionerId` and `workerType` must be given")
    if joined is not None and joined != task_queue_id:
        raise InputError("`taskQueueId` must be `provisionerId`/`workerType`")
    provisioner_id, worker_type = task_queue_id.split("/", 1)
    body |= {"taskQueueId": task_queue_id, "provisionerId": provisioner_id, "workerType": worker_type}
    body["taskGroupId"] = request.taskGroupId or task_id
    try:
        body["expires"] = request.expires or format_date(a_year_after(parse_date(request.deadline)))
    except ValueError:
        raise InputError("`deadline` is too far in the future") from None
    return Definition(task_id=task_id, body=body)


_ROUTES = for_each("scope", "scopes", "<scope>"), for_each("route", "routes", "queue:route:<route>")
_AT_PRIORITY = any_of(for_each("priority", "priorities", "queue:create-task:<priority>:<provisionerId>/<workerType>"))
CREATION_SCOPES = all_of(
    *_ROUTES, "queue:create-task:project:<projectId>", "queue:scheduler-id:<schedulerId>", _AT_PRIORITY
)
_DEFINE = "queue:define-task:<provisionerId>/<workerType>"
_LEGACY = any_of(
    _DEFINE,
    "queue:create-task:<provisionerId>/<workerType>",
    all_of(_DEFINE, "queue:task-group-id:<schedulerId>/<taskGroupId>"),
)
DEFINITION_SCOPES = all_of(
    *_ROUTES, any_of(all_of("queue:scheduler-id:<schedulerId>", _AT_PRIORITY), {"if": "isLowest", "then": _LEGACY})
)
"""The scope expression of defineTask as it was until 2020 (contract 2.2)."""


def _moving(verb: str) -> Template:
    """Returns the scopes of scheduleTask, rerunTask or cancelTask: each has the same three alternatives."""
    return any_of(
        f"queue:{verb}-task:<schedulerId>/<taskGroupId>/<taskId>",
        f"queue:{verb}-task-in-project:<projectId>",
        all_of(f"queue:{verb}-task", "assume:scheduler-id:<schedulerId>/<taskGroupId>"),
    )


_SLUGID = re.compile(SLUGID_PATTERN.removesuffix("$"))
ENDPOINTS = Endpoints[QueueServices]("Tasks")


@ENDPOINTS("task", "GET /task/<taskId>", "Get Task Definition", scopes="queue:get-task:<taskId>")
async def task(services: QueueServices, call: Call) -> Annotated[Json, models.TaskResponse]:
    """Returns the definition of a task, with every default filled in and the priority that it has now."""
    return await services.lifecycle.definition(call.params["taskId"])


@ENDPOINTS("status", "GET /task/<taskId>/status", "Get task status", scopes="queue:status:<taskId>")
async def status(services: QueueServices, call: Call) -> Annotated[Json, models.TaskStatusResponse]:
    """Returns the status of a task: its state and its runs."""
    found = await services.lifecycle.status(call.params["taskId"])
    return {"status": found.as_json()}


@ENDPOINTS(
    "defineTask",
    "POST /task/<taskId>/define",
    "Define Task",
    description="Creates a task that waits for itself, and so stays unscheduled until it is scheduled by a call. Kept "
    "for clients from before 2020; use createTask with a dependency on the task itself.",
    scopes=DEFINITION_SCOPES,
    input=models.CreateTaskRequest,
    stability="deprecated",
)
@ENDPOINTS(
    "createTask", "PUT /task/<taskId>", "Create New Task", scopes=CREATION_SCOPES, input=models.CreateTaskRequest
)
async def create_task(services: QueueServices, call: Call) -> Annotated[Json, models.TaskStatusResponse]:
    """Creates a task; it is scheduled as soon as its dependencies are satisfied. The same request may be sent again:
    for an equal definition the present status is returned, another definition is a conflict."""
    task_id = call.params["taskId"]
    definition = complete_definition(task_id, call.payload(models.CreateTaskRequest))
    if call.endpoint.name == "defineTask" and task_id not in definition.dependencies:
        body = {**definition.body, "dependencies": [task_id, *definition.dependencies]}
        definition = Definition(task_id=task_id, body=body)
    # Authorised late, since the scopes follow from the complete definition.
    await call.authorise(_definition_params(definition))
    created = await services.create_task(definition)
    return {"status": created.as_json()}


@ENDPOINTS("scheduleTask", "POST /task/<taskId>/schedule", "Schedule Defined Task", scopes=_moving("schedule"))
async def schedule_task(services: QueueServices, call: Call) -> Annotated[Json, models.TaskStatusResponse]:
    """Schedules an unscheduled task, whatever its dependencies. A task with runs is not changed."""
    return await _move_task(services, call, services.lifecycle.schedule, "scheduled")


@ENDPOINTS("rerunTask", "POST /task/<taskId>/rerun", "Rerun a Resolved Task", scopes=_moving("rerun"))
async def rerun_task(services: QueueServices, call: Call) -> Annotated[Json, models.TaskStatusResponse]:
    """Gives a resolved or unscheduled task another run and its full number of retries. A pending or running task is not
    changed."""
    return await _move_task(services, call, services.lifecycle.rerun, "rerun")


@ENDPOINTS("cancelTask", "POST /task/<taskId>/cancel", "Cancel Task", scopes=_moving("cancel"))
async def cancel_task(services: QueueServices, call: Call) -> Annotated[Json, models.TaskStatusResponse]:
    """Resolves an unresolved task as `exception` with reason `canceled`. A resolved task is not changed."""
    return await _move_task(services, call, services.lifecycle.cancel, "canceled")


@ENDPOINTS(
    "changeTaskPriority",
    "POST /task/<taskId>/priority",
    "Change Task Priority",
    scopes=any_of("queue:change-task-priority:<taskId>", "queue:change-task-priority-in-queue:<taskQueueId>"),
    input=models.ChangeTaskPriorityRequest,
    stability="experimental",
)
async def change_task_priority(services: QueueServices, call: Call) -> Annotated[Json, models.TaskStatusResponse]:
    """Changes the priority of a task that has not been resolved yet."""
    priority = call.payload(models.ChangeTaskPriorityRequest).newPriority

    async def change(read: Loaded, entry: Entry) -> Task:
        return await services.lifecycle.change_priority(read, priority, entry)

    return await _move_task(services, call, change, "priority changed", f"to {priority}")


@ENDPOINTS(
    "tasks",
    "POST /tasks",
    "Get Multiple Task Definitions",
    scopes=all_of(for_each("taskId", "taskIds", "queue:get-task:<taskId>")),
    input=models.TasksRequest,
    stability="experimental",
)
async def tasks(services: QueueServices, call: Call) -> Annotated[Json, models.TasksResponse]:
    """Returns the definitions of those of the given tasks that exist."""
    task_ids, following = await _ids(call, bounds.PAGE)
    found, rest = await services.batches.definitions(task_ids)
    shown = [{"taskId": each.definition.task_id, "task": each.task} for each in found]
    return {"tasks": shown, **following(rest)}


@ENDPOINTS(
    "statuses",
    "POST /tasks/status",
    "Get multiple task statuses",
    scopes=all_of(for_each("taskId", "taskIds", "queue:status:<taskId>")),
    input=models.TasksRequest,
    stability="experimental",
)
async def statuses(services: QueueServices, call: Call) -> Annotated[Json, models.TasksStatusesResponse]:
    """Returns the statuses of those of the given tasks that exist."""
    task_ids, following = await _ids(call, bounds.PAGE_OF_LOOKUPS)
    found = await services.batches.statuses(task_ids)
    return {"statuses": [{"taskId": task_id, "status": status} for task_id, status in found], **following(None)}


async def _move_task(
    services: QueueServices, call: Call, move: Callable[[Loaded, Entry], Awaitable[Task]], action: str, detail: str = ""
) -> Mapping[str, Any]:
    """Moves a task by a call that is audited. The task's stored properties decide who may make it (contract 1.5, H)."""
    read = await services.lifecycle.existing(call.params["taskId"])
    task = read.task
    await call.authorise(
        {
            "schedulerId": task.scheduler_id,
            "taskGroupId": task.task_group_id,
            "projectId": task.project_id,
            "taskQueueId": task.task_queue_id,
        }
    )
    async with services.audit.entry_of(call, audit.task(task.task_id, task.task_group_id), action, detail) as entry:
        return {"status": (await move(read, entry)).as_json()}


def _definition_params(definition: Definition) -> Params:
    return {
        **ids_of(definition.task_queue_id),
        "scopes": definition.scopes,
        "routes": definition.routes,
        "projectId": definition.project_id,
        "schedulerId": definition.scheduler_id,
        "taskGroupId": definition.task_group_id,
        "priorities": at_least(definition.priority),
        "isLowest": definition.priority == PRIORITIES[-1],
    }


async def _ids(call: Call, default: int) -> tuple[list[str], Callable[[str | None], Mapping[str, str]]]:
    """Returns the ids of the page that can be ids at all, and a function that returns the token of the next page. The
    next page starts after this one, or with an id for which this page had no room. The page has `default` ids unless
    the caller says more. The caller is authorised for the whole list. Raises InputError for a token that is no position
    in it."""
    task_ids = call.payload(models.TasksRequest).taskIds
    await call.authorise({"taskIds": task_ids})
    position = start_of(call.query) or "0"
    if not (position.isascii() and position.isdigit() and len(position) < 10):
        raise InputError("invalid continuationToken")
    start = int(position)
    end = start + limit_of(call.query, default)

    def following(rest: str | None) -> Mapping[str, str]:
        following = end if rest is None else task_ids.index(rest, start)
        return {"continuationToken": token_of(str(following))} if start < following < len(task_ids) else {}

    return [task_id for task_id in task_ids[start:end] if _SLUGID.fullmatch(task_id)], following
