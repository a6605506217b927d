"""Every endpoint about tasks and groups, called as its clients call it (docs/compatibility.md)."""

from __future__ import annotations

import pytest

from shared.base.ids import new_slugid
from tests.promises.host.service import Service, refused


@pytest.mark.endpoint("ping")
@pytest.mark.endpoint("lbheartbeat")
@pytest.mark.endpoint("heartbeat")
@pytest.mark.endpoint("version")
def test_monitoring(service: Service) -> None:
    assert service.anonymous.ping()["alive"] is True
    assert service.anonymous.lbheartbeat() == service.anonymous.heartbeat() == {}
    assert set(service.anonymous.version()) == {"version", "commit", "source", "build"}


@pytest.mark.endpoint("createTask")
@pytest.mark.endpoint("task")
@pytest.mark.endpoint("status")
def test_a_task_is_what_was_created(service: Service) -> None:
    task_id, definition = new_slugid(), service.a_task(payload={"command": ["true"]}, tags={"a": "b"})
    created = service.queue.createTask(task_id, definition)["status"]
    assert (created["taskId"], created["state"], created["runs"][0]["reasonCreated"]) == (
        task_id,
        "pending",
        "scheduled",
    )
    found = service.queue.task(task_id)
    assert {name: found[name] for name in definition} == definition
    assert found["taskGroupId"] == task_id
    assert service.queue.status(task_id)["status"] == created


@pytest.mark.endpoint("tasks")
@pytest.mark.endpoint("statuses")
def test_many_tasks_at_once(service: Service) -> None:
    ids = [service.create() for _ in range(3)]
    asked = {"taskIds": [*ids, new_slugid()]}
    tasks = service.queue.tasks(asked)["tasks"]
    assert {each["taskId"]: each["task"]["taskQueueId"] for each in tasks} == dict.fromkeys(ids, service.pool)
    statuses = service.queue.statuses(asked)["statuses"]
    assert {each["taskId"]: each["status"]["state"] for each in statuses} == dict.fromkeys(ids, "pending")


@pytest.mark.endpoint("defineTask")
@pytest.mark.endpoint("scheduleTask")
@pytest.mark.endpoint("rerunTask")
@pytest.mark.endpoint("cancelTask")
def test_a_task_is_moved(service: Service) -> None:
    task_id = new_slugid()
    defined = service.call("POST", f"task/{task_id}/define", service.a_task())["status"]
    assert (defined["state"], defined["runs"]) == ("unscheduled", [])
    assert service.queue.scheduleTask(task_id)["status"]["state"] == "pending"
    assert service.queue.cancelTask(task_id)["status"]["runs"][0]["reasonResolved"] == "canceled"
    rerun = service.queue.rerunTask(task_id)["status"]
    assert [run["reasonCreated"] for run in rerun["runs"]] == ["scheduled", "rerun"]
    assert rerun["state"] == "pending"


@pytest.mark.endpoint("changeTaskPriority")
def test_a_task_gets_another_priority(service: Service) -> None:
    task_id = service.create()
    assert service.queue.changeTaskPriority(task_id, {"newPriority": "high"})["status"]["priority"] == "high"
    assert service.queue.task(task_id)["priority"] == "high"
    (claim,) = service.claim()
    assert (claim["status"]["taskId"], claim["task"]["priority"]) == (task_id, "high")


@pytest.mark.endpoint("listDependentTasks")
def test_dependents_are_listed(service: Service) -> None:
    required = service.create()
    dependents = sorted(service.create(dependencies=[required]) for _ in range(3))
    first = service.queue.listDependentTasks(required, query={"limit": 2})
    rest = service.queue.listDependentTasks(required, query={"continuationToken": first["continuationToken"]})
    listed = [each["status"]["taskId"] for each in (*first["tasks"], *rest["tasks"])]
    assert (listed, "continuationToken" in rest) == (dependents, False)


@pytest.mark.endpoint("getTaskGroup")
@pytest.mark.endpoint("listTaskGroup")
@pytest.mark.endpoint("changeTaskGroupPriority")
@pytest.mark.endpoint("sealTaskGroup")
@pytest.mark.endpoint("cancelTaskGroup")
def test_a_group_is_handled_as_one(service: Service) -> None:
    group = new_slugid()
    ids = sorted(service.create(taskGroupId=group, schedulerId="s") for _ in range(3))
    assert service.queue.getTaskGroup(group)["schedulerId"] == "s"
    first = service.queue.listTaskGroup(group, query={"limit": 2})
    rest = service.queue.listTaskGroup(group, query={"continuationToken": first["continuationToken"]})
    assert [each["status"]["taskId"] for each in (*first["tasks"], *rest["tasks"])] == ids
    changed = service.queue.changeTaskGroupPriority(group, {"newPriority": "medium"})
    assert (sorted(changed["taskIds"]), changed["tasksAffected"]) == (ids, 3)
    with refused(409, "RequestConflict"):
        service.queue.cancelTaskGroup(group)
    assert service.queue.sealTaskGroup(group)["sealed"]
    with refused(409, "RequestConflict"):
        service.create(taskGroupId=group, schedulerId="s")
    cancelled = service.queue.cancelTaskGroup(group)
    assert (sorted(cancelled["taskIds"]), cancelled["cancelledCount"], cancelled["taskGroupSize"]) == (ids, 3, 3)
