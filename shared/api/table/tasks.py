"""Endpoints that define and move tasks (contract 2.1, 2.2)."""

from __future__ import annotations

from shared.api.endpoint import Endpoint
from shared.api.models.groups import ChangeTaskPriorityRequest
from shared.api.models.task import CreateTaskRequest, TaskResponse, TaskStatusResponse

CREATION_SCOPES = {
    "AllOf": [
        {"for": "scope", "in": "scopes", "each": "<scope>"},
        {"for": "route", "in": "routes", "each": "queue:route:<route>"},
        "queue:create-task:project:<projectId>",
        "queue:scheduler-id:<schedulerId>",
        {
            "AnyOf": [
                {
                    "for": "priority",
                    "in": "priorities",
                    "each": "queue:create-task:<priority>:<provisionerId>/<workerType>",
                }
            ]
        },
    ]
}

DEFINITION_SCOPES = {
    "AllOf": [
        {"for": "scope", "in": "scopes", "each": "<scope>"},
        {"for": "route", "in": "routes", "each": "queue:route:<route>"},
        {
            "AnyOf": [
                {
                    "AllOf": [
                        "queue:scheduler-id:<schedulerId>",
                        {
                            "AnyOf": [
                                {
                                    "for": "priority",
                                    "in": "priorities",
                                    "each": "queue:create-task:<priority>:<provisionerId>/<workerType>",
                                }
                            ]
                        },
                    ]
                },
                {
                    "if": "isLowest",
                    "then": {
                        "AnyOf": [
                            "queue:define-task:<provisionerId>/<workerType>",
                            "queue:create-task:<provisionerId>/<workerType>",
                            {
                                "AllOf": [
                                    "queue:define-task:<provisionerId>/<workerType>",
                                    "queue:task-group-id:<schedulerId>/<taskGroupId>",
                                ]
                            },
                        ]
                    },
                },
            ]
        },
    ]
}
"""As defineTask asked for them until 2020 (contract 2.2)."""


def _moving(verb: str) -> dict[str, object]:
    """What schedule, rerun and cancel need: the same three branches."""
    return {
        "AnyOf": [
            f"queue:{verb}-task:<schedulerId>/<taskGroupId>/<taskId>",
            f"queue:{verb}-task-in-project:<projectId>",
            {"AllOf": [f"queue:{verb}-task", "assume:scheduler-id:<schedulerId>/<taskGroupId>"]},
        ]
    }


ENDPOINTS = (
    Endpoint(
        name="task",
        method="GET",
        route="/task/<taskId>",
        title="Get Task Definition",
        description="Answers the definition of a task, as it was created, with every default filled in.",
        category="Tasks",
        scopes="queue:get-task:<taskId>",
        output=TaskResponse,
        output_schema="task",
    ),
    Endpoint(
        name="status",
        method="GET",
        route="/task/<taskId>/status",
        title="Get task status",
        description="Answers the status of a task: its state and its runs.",
        category="Tasks",
        scopes="queue:status:<taskId>",
        output=TaskStatusResponse,
        output_schema="task-status-response",
    ),
    Endpoint(
        name="createTask",
        method="PUT",
        route="/task/<taskId>",
        title="Create New Task",
        description="Creates a task; it is scheduled as soon as its dependencies are satisfied. The same request may "
        "be sent again: an equal definition is found and its present status answered, another one is a conflict.",
        category="Tasks",
        scopes=CREATION_SCOPES,
        input=CreateTaskRequest,
        input_schema="create-task-request",
        output=TaskStatusResponse,
        output_schema="task-status-response",
    ),
    Endpoint(
        name="scheduleTask",
        method="POST",
        route="/task/<taskId>/schedule",
        title="Schedule Defined Task",
        description="Schedules an unscheduled task, whatever it still waits for. A task with runs stays as it is.",
        category="Tasks",
        scopes=_moving("schedule"),
        output=TaskStatusResponse,
        output_schema="task-status-response",
    ),
    Endpoint(
        name="rerunTask",
        method="POST",
        route="/task/<taskId>/rerun",
        title="Rerun a Resolved Task",
        description="Gives a resolved or unscheduled task another run and fresh retries. A pending or running task "
        "stays as it is.",
        category="Tasks",
        scopes=_moving("rerun"),
        output=TaskStatusResponse,
        output_schema="task-status-response",
    ),
    Endpoint(
        name="cancelTask",
        method="POST",
        route="/task/<taskId>/cancel",
        title="Cancel Task",
        description="Resolves an unresolved task as `exception` with reason `canceled`. A resolved task stays as it "
        "is.",
        category="Tasks",
        scopes=_moving("cancel"),
        output=TaskStatusResponse,
        output_schema="task-status-response",
    ),
    Endpoint(
        name="changeTaskPriority",
        method="POST",
        route="/task/<taskId>/priority",
        title="Change Task Priority",
        description="Changes the priority of a task that has not been resolved yet.",
        category="Tasks",
        scopes={
            "AnyOf": [
                "queue:change-task-priority:<taskId>",
                "queue:change-task-priority-in-queue:<taskQueueId>",
            ]
        },
        input=ChangeTaskPriorityRequest,
        input_schema="change-task-priority-request",
        output=TaskStatusResponse,
        output_schema="task-status-response",
        stability="experimental",
    ),
    Endpoint(
        name="defineTask",
        method="POST",
        route="/task/<taskId>/define",
        title="Define Task",
        description="Creates a task that waits for itself, and so stays unscheduled until it is scheduled by a call. "
        "Kept for clients from before 2020; use createTask with a dependency on the task itself.",
        category="Tasks",
        scopes=DEFINITION_SCOPES,
        input=CreateTaskRequest,
        input_schema="create-task-request",
        output=TaskStatusResponse,
        output_schema="task-status-response",
        stability="deprecated",
    ),
)
