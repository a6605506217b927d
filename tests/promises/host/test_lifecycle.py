"""scheduleTask, cancelTask, rerunTask and changeTaskPriority in every state of a task (contract 2.4, 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.base.ids import new_slugid
from tests.promises.host.service import Service, in_future, refused


def unscheduled(service: Service, **changes: Any) -> str:
    task_id = new_slugid()
    service.queue.createTask(task_id, service.a_task(dependencies=[task_id], **changes))
    return task_id


def pending(service: Service, **changes: Any) -> str:
    return service.create(**changes)


def running(service: Service, **changes: Any) -> str:
    return str(service.claimed(**changes)["status"]["taskId"])


def completed(service: Service, **changes: Any) -> str:
    return service.completed(**changes)


def failed(service: Service, **changes: Any) -> str:
    task_id = running(service, **changes)
    service.queue.reportFailed(task_id, 0)
    return task_id


def exception(service: Service, **changes: Any) -> str:
    task_id = running(service, **changes)
    service.queue.reportException(task_id, 0, {"reason": "internal-error"})
    return task_id


def canceled(service: Service, **changes: Any) -> str:
    task_id = pending(service, **changes)
    service.queue.cancelTask(task_id)
    return task_id


Start = Callable[..., str]
UNRESOLVED: tuple[Start, ...] = (unscheduled, pending, running)
RESOLVED: tuple[Start, ...] = (completed, failed, exception, canceled)


def named(start: Start) -> str:
    return start.__name__


def summary(status: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Returns state, reasonCreated and reasonResolved of each run."""
    return [(run["state"], run["reasonCreated"], run.get("reasonResolved")) for run in status["runs"]]


# scheduleTask


# cancelTask


# rerunTask


# changeTaskPriority


def test_a_new_priority_decides_who_is_next(service: Service) -> None:
    first, second = pending(service, priority="medium"), pending(service, priority="lowest")
    service.queue.changeTaskPriority(second, {"newPriority": "very-high"})
    claims = service.claim(2)
    assert [claim["status"]["taskId"] for claim in claims] == [second, first]
    assert claims[0]["task"]["priority"] == claims[0]["status"]["priority"] == "very-high"


# After the deadline (contract 4.4)


@pytest.mark.parametrize("start", [*UNRESOLVED, completed], ids=named)
def test_after_the_deadline_nothing_moves_any_more(service: Service, start: Start) -> None:
    task_id = start(service, deadline=in_future(1.2))
    before = service.status(task_id)
    if start is completed:
        service.events.expect(
            task_id,
            ("task-defined", None),
            ("task-pending", 0),
            ("task-running", 0),
            ("task-completed", 0),
            ("task-group-resolved", None),
        )
        while in_future(0) <= before["deadline"]:
            assert service.status(task_id) == before
        after = before
    else:
        after = service.wait_for(task_id, "exception")
        (run,) = after["runs"]
        assert run["reasonResolved"] == "deadline-exceeded"
        assert run["reasonCreated"] == ("exception" if start is unscheduled else "scheduled")
        assert run["resolved"] >= after["deadline"]
    for call in (service.queue.scheduleTask, service.queue.rerunTask, service.queue.cancelTask):
        with refused(409, "RequestConflict"):
            call(task_id)
    with refused(409, "RequestConflict"):
        service.queue.changeTaskPriority(task_id, {"newPriority": "high"})
    assert service.status(task_id) == after


# Who may (contract 2.2)


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
