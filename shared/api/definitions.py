"""From a createTask request to a complete definition (contract 3.1, 3.3)."""

from __future__ import annotations

from typing import Any

from shared.api.models.task import CreateTaskRequest
from shared.domain.dates import a_year_after, format_date, parse_date
from shared.domain.definition import Definition
from shared.errors import InputError


def complete_definition(task_id: str, request: CreateTaskRequest) -> Definition:
    """The definition with every field filled in. Raises InputError for a task queue that contradicts itself."""
    body: dict[str, Any] = request.model_dump(mode="json", exclude={"payload", "extra"})
    # These may hold very much: they are passed on as they are.
    body |= {"payload": request.payload, "extra": request.extra}
    task_queue_id = _task_queue_id(request)
    provisioner_id, worker_type = task_queue_id.split("/", 1)
    body |= {"taskQueueId": task_queue_id, "provisionerId": provisioner_id, "workerType": worker_type}
    body["taskGroupId"] = request.taskGroupId or task_id
    body["expires"] = request.expires or _default_expires(request.deadline)
    return Definition(task_id=task_id, body=body)


def _task_queue_id(request: CreateTaskRequest) -> str:
    joined = f"{request.provisionerId}/{request.workerType}" if request.provisionerId and request.workerType else None
    task_queue_id = request.taskQueueId or joined
    if task_queue_id is None:
        raise InputError("either `taskQueueId`, or `provisionerId` and `workerType` must be given")
    if joined is not None and joined != task_queue_id:
        raise InputError("`taskQueueId` must be `provisionerId`/`workerType`")
    return task_queue_id


def _default_expires(deadline: str) -> str:
    try:
        return format_date(a_year_after(parse_date(deadline)))
    except ValueError:
        raise InputError("`deadline` is too far in the future") from None
