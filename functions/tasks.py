"""Endpoints that define and read tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functions.http import Handler
from shared.api.call import Call
from shared.api.definitions import complete_definition
from shared.api.models.groups import ChangeTaskPriorityRequest
from shared.api.models.task import CreateTaskRequest
from shared.auth.scopes import Params
from shared.domain.definition import Definition
from shared.domain.priority import PRIORITIES, at_least
from shared.services import Services
from shared.storage.tasks import Loaded


async def task(services: Services, call: Call) -> Mapping[str, Any]:
    """The definition."""
    return await services.lifecycle.definition(call.params["taskId"])


async def status(services: Services, call: Call) -> Mapping[str, Any]:
    """The status."""
    found = await services.lifecycle.status(call.params["taskId"])
    return {"status": found.as_json()}


async def create_task(services: Services, call: Call) -> Mapping[str, Any]:
    """createTask: the definition has to be complete before it can be authorised."""
    definition = complete_definition(call.params["taskId"], call.payload(CreateTaskRequest))
    await call.authorise(_definition_params(definition))
    created = await services.create_task(definition)
    return {"status": created.as_json()}


async def define_task(services: Services, call: Call) -> Mapping[str, Any]:
    """defineTask: as createTask, of a task that waits for itself."""
    task_id = call.params["taskId"]
    definition = complete_definition(task_id, call.payload(CreateTaskRequest))
    if task_id not in definition.dependencies:
        body = {**definition.body, "dependencies": [task_id, *definition.dependencies]}
        definition = Definition(task_id=task_id, body=body)
    await call.authorise(_definition_params(definition))
    created = await services.create_task(definition)
    return {"status": created.as_json()}


async def schedule_task(services: Services, call: Call) -> Mapping[str, Any]:
    """scheduleTask."""
    read = await _authorised(services, call)
    return {"status": (await services.lifecycle.schedule(read)).as_json()}


async def rerun_task(services: Services, call: Call) -> Mapping[str, Any]:
    """rerunTask."""
    read = await _authorised(services, call)
    return {"status": (await services.lifecycle.rerun(read)).as_json()}


async def cancel_task(services: Services, call: Call) -> Mapping[str, Any]:
    """cancelTask."""
    read = await _authorised(services, call)
    return {"status": (await services.lifecycle.cancel(read)).as_json()}


async def change_task_priority(services: Services, call: Call) -> Mapping[str, Any]:
    """changeTaskPriority."""
    read = await _authorised(services, call)
    priority = call.payload(ChangeTaskPriorityRequest).newPriority
    return {"status": (await services.lifecycle.change_priority(read, priority)).as_json()}


async def _authorised(services: Services, call: Call) -> Loaded:
    """The task that the call is about; its stored properties decide who may make it (contract 1.5, H)."""
    read = await services.lifecycle.known(call.params["taskId"])
    await call.authorise(
        {
            "schedulerId": read.task.scheduler_id,
            "taskGroupId": read.task.task_group_id,
            "projectId": read.task.project_id,
            "taskQueueId": read.task.task_queue_id,
        }
    )
    return read


def _definition_params(definition: Definition) -> Params:
    provisioner_id, worker_type = definition.task_queue_id.split("/", 1)
    return {
        "scopes": definition.scopes,
        "routes": definition.routes,
        "projectId": definition.project_id,
        "schedulerId": definition.scheduler_id,
        "taskGroupId": definition.task_group_id,
        "priorities": at_least(definition.priority),
        "isLowest": definition.priority == PRIORITIES[-1],
        "provisionerId": provisioner_id,
        "workerType": worker_type,
    }


HANDLERS: Mapping[str, Handler] = {
    "task": task,
    "status": status,
    "createTask": create_task,
    "defineTask": define_task,
    "scheduleTask": schedule_task,
    "rerunTask": rerun_task,
    "cancelTask": cancel_task,
    "changeTaskPriority": change_task_priority,
}
