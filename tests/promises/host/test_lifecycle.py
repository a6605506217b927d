"""Who may schedule, cancel, rerun and change the priority of a task (contract 2.2). What these calls make of each state
is in tests/promises/simulator/answers.txt."""

from __future__ import annotations

from typing import Any

import pytest

from shared.base.ids import new_slugid
from tests.promises.host.service import Service, refused


def unscheduled(service: Service, **changes: Any) -> str:
    task_id = new_slugid()
    service.queue.createTask(task_id, service.a_task(dependencies=[task_id], **changes))
    return task_id


@pytest.mark.parametrize("verb", ["schedule", "cancel", "rerun"])
def test_scopes_of_schedule_cancel_and_rerun(service: Service, verb: str) -> None:
    group = new_slugid()
    task_id = unscheduled(service, schedulerId="me", taskGroupId=group, projectId="p/q")
    by_hand = [f"queue:{verb}-task", f"assume:scheduler-id:me/{group}"]
    for scopes in (
        *(by_hand[:1], by_hand[1:]),
        *([f"queue:{verb}-task:me/{group}/other"], [f"queue:{verb}-task:{task_id}"]),
        [f"queue:{verb}-task-in-project:p/other"],
    ):
        with refused(403, "InsufficientScopes"):
            getattr(service.with_scopes(*scopes), f"{verb}Task")(task_id)
    for scopes in (
        [f"queue:{verb}-task:me/{group}/{task_id}"],
        [f"queue:{verb}-task:me/{group}/*"],
        [f"queue:{verb}-task-in-project:p/q"],
        by_hand,
    ):
        getattr(service.with_scopes(*scopes), f"{verb}Task")(task_id)


def test_scopes_of_change_task_priority(service: Service) -> None:
    task_id = unscheduled(service)
    for scope, priority in (
        (f"queue:change-task-priority:{task_id}", "high"),
        (f"queue:change-task-priority-in-queue:{service.pool}", "low"),
    ):
        with refused(403, "InsufficientScopes"):
            service.with_scopes(scope + "x").changeTaskPriority(task_id, {"newPriority": priority})
        service.with_scopes(scope).changeTaskPriority(task_id, {"newPriority": priority})
