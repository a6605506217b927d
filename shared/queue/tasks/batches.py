"""Endpoints on many tasks at once: models, rows and handlers (contract 2.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field

from shared.api.endpoint import PAGING, Call, Endpoints
from shared.api.scopes import all_of, for_each
from shared.api.validation import limit_of, start_of, token_of
from shared.base import bounds
from shared.base.errors import InputError
from shared.base.types import SLUGID_PATTERN, Closed, Unique, page_model
from shared.queue.services import QueueServices
from shared.queue.tasks.models import TaskResponse, TaskStatus


class TasksRequest(Closed):
    """Which tasks."""

    taskIds: list[str] = Field(default=[])


class NamedTask(Closed):
    """A task with its id."""

    taskId: str
    task: TaskResponse


class NamedStatus(Closed):
    """A status with its task's id."""

    taskId: str
    status: TaskStatus


TasksResponse = page_model("TasksResponse", "The tasks that exist, in no promised order.", tasks=Unique[NamedTask])
TasksStatusesResponse = page_model(
    "TasksStatusesResponse", "The statuses of the tasks that exist, in no promised order.", statuses=Unique[NamedStatus]
)


_SLUGID = re.compile(SLUGID_PATTERN.removesuffix("$"))


ENDPOINTS = Endpoints[QueueServices]("Tasks")


@ENDPOINTS(
    "tasks",
    "POST /tasks",
    "Get Multiple Task Definitions",
    scopes=all_of(for_each("taskId", "taskIds", "queue:get-task:<taskId>")),
    query=PAGING,
    input=TasksRequest,
    output=TasksResponse,
    stability="experimental",
)
async def tasks(services: QueueServices, call: Call) -> Mapping[str, Any]:
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
    query=PAGING,
    input=TasksRequest,
    output=TasksStatusesResponse,
    stability="experimental",
)
async def statuses(services: QueueServices, call: Call) -> Mapping[str, Any]:
    """Returns the statuses of those of the given tasks that exist."""
    task_ids, following = await _ids(call, bounds.PAGE_OF_LOOKUPS)
    found = await services.batches.statuses(task_ids)
    return {"statuses": [{"taskId": task_id, "status": status} for task_id, status in found], **following(None)}


async def _ids(call: Call, default: int) -> tuple[list[str], Callable[[str | None], Mapping[str, str]]]:
    """Those ids on the page that can be ids at all, and a function that returns the token of the next page. That starts
    after this one, or with the id that the page had no room for. The page is of `default` ids unless the caller says
    more; the whole list is authorised.

    Raises InputError for a token that is not a position in the list.
    """
    task_ids = call.payload(TasksRequest).taskIds
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
