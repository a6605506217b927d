"""Task groups: listing, sealing, cancelling, priorities, when they are resolved (contract 2.4, 3.4, 6)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.base.ids import new_slugid
from tests.promises.host.events import Event
from tests.promises.host.service import Service, eventually, in_future, refused

GROUP_RESOLVED = "task-group-resolved"


def resolutions(service: Service, group: str) -> list[Event]:
    """Returns the events by which a group was announced as resolved."""
    return [event for event in service.events.of(group) if event.topic == GROUP_RESOLVED]


def wait_for_resolutions(service: Service, group: str, count: int) -> list[Event]:
    """Waits until the group was announced as resolved `count` times; fails when it was more often."""
    eventually(lambda: len(resolutions(service, group)) >= count, otherwise=lambda: str(service.events.of(group)))
    found = resolutions(service, group)
    assert len(found) == count
    return found


def complete(service: Service, count: int) -> None:
    """Claims and completes `count` tasks."""
    for claim in service.claim(count):
        service.worker(claim).reportCompleted(claim["status"]["taskId"], claim["runId"])


def test_a_group_and_its_tasks(service: Service) -> None:
    group, moment = new_slugid(), in_future(7200)
    first = service.create(taskGroupId=group, schedulerId="me", expires=moment)
    header = service.queue.getTaskGroup(group)
    assert header == {"taskGroupId": group, "schedulerId": "me", "expires": header["expires"]}
    others = [service.create(taskGroupId=group, schedulerId="me", expires=moment) for _ in range(4)]
    complete(service, 1)
    service.queue.cancelTask(others[0])
    members = sorted([first, *others])
    listed = service.queue.listTaskGroup(group)
    assert listed == {
        **header,
        "tasks": [{"task": service.queue.task(each), "status": service.status(each)} for each in members],
    }
    assert service.queue.getTaskGroup(group) == header


@pytest.mark.endpoint("listTaskGroups")
def test_groups_are_listed_latest_first(service: Service) -> None:
    first = service.create(schedulerId="me")
    second, group = service.create(), new_slugid()
    for _ in range(2):
        service.create(taskGroupId=group)
    service.queue.sealTaskGroup(second)
    wanted = [group, second, first]
    listed = [each for each in _all_groups(service, first) if each["taskGroupId"] in wanted]
    assert [each["taskGroupId"] for each in listed] == wanted
    for each in listed:
        header = service.queue.getTaskGroup(each["taskGroupId"])
        assert {name: each[name] for name in header} == header
        assert each.keys() - header.keys() == {"created", "taskId", "projectId", "single", "name", "owner", "source"}
    metadata = service.queue.task(first)["metadata"]
    assert {name: listed[-1][name] for name in ("name", "owner", "source")} == {
        name: metadata[name] for name in ("name", "owner", "source")
    }
    assert [each["single"] for each in listed] == [False, True, True]
    assert listed[-1]["taskId"] == first
    assert listed[-1]["projectId"] == service.queue.task(first)["projectId"]
    with refused(403, "InsufficientScopes"):
        service.anonymous._makeHttpRequest("GET", "task-groups", None)


def _all_groups(service: Service, last: str) -> list[dict[str, Any]]:
    """Lists groups in pages of two as far as this group, then in large ones: other tests have left hundreds."""
    found: list[dict[str, Any]] = []
    token, limit = "", 2
    while True:
        page = service.call("GET", f"task-groups?limit={limit}{token}")
        assert len(page["taskGroups"]) <= limit
        found.extend(page["taskGroups"])
        if "continuationToken" not in page:
            return found
        token = f"&continuationToken={page['continuationToken']}"
        if last in (each["taskGroupId"] for each in page["taskGroups"]):
            limit = 1000


def test_a_seal_is_for_good(service: Service) -> None:
    group = service.create()
    sealed = service.queue.sealTaskGroup(group)
    assert sealed.keys() == {"taskGroupId", "schedulerId", "expires", "sealed"}
    assert service.queue.sealTaskGroup(group) == sealed == service.queue.getTaskGroup(group)
    assert service.queue.listTaskGroup(group)["sealed"] == sealed["sealed"]
    complete(service, 1)
    assert service.queue.rerunTask(group)["status"]["state"] == "pending"


def test_cancel_a_group(service: Service) -> None:
    group = new_slugid()
    open_ids = [service.create(taskGroupId=group) for _ in range(3)]
    open_ids.append(service.create(taskGroupId=group, dependencies=[open_ids[0]]))
    done = service.completed(taskGroupId=group, priority="high")  # claimed first; alone, it would resolve its group
    service.claim()
    nobody = service.with_scopes()
    for queue in (service.queue, nobody):
        with refused(409, "RequestConflict"):
            queue.cancelTaskGroup(group)
    service.queue.sealTaskGroup(group)
    with refused(403, "InsufficientScopes"):
        nobody.cancelTaskGroup(group)
    answer = service.queue.cancelTaskGroup(group)

    assert sorted(answer.pop("taskIds")) == sorted(open_ids)
    assert answer == {"taskGroupId": group, "taskGroupSize": 5, "cancelledCount": 4}
    assert service.status(done)["state"] == "completed"
    for task_id in open_ids:
        assert service.status(task_id)["runs"][-1]["reasonResolved"] == "canceled"
    assert service.queue.cancelTaskGroup(group) == {
        "taskGroupId": group, "taskGroupSize": 5, "cancelledCount": 0, "taskIds": []
    }  # fmt: skip
    wait_for_resolutions(service, group, 1)
    service.queue.rerunTask(open_ids[0])
    assert service.queue.cancelTaskGroup(group)["taskIds"] == [open_ids[0]]
    assert len(service.status(open_ids[0])["runs"]) == 2


def test_scopes_of_groups(service: Service) -> None:
    group = service.create(schedulerId="me")
    calls: dict[str, Any] = {
        "seal-task-group": lambda queue: queue.sealTaskGroup(group),
        "change-task-group-priority": lambda queue: queue.changeTaskGroupPriority(group, {"newPriority": "high"}),
        "cancel-task-group": lambda queue: queue.cancelTaskGroup(group),
    }
    for name, call in calls.items():
        for scope in (f"queue:{name}:you/{group}", f"queue:{name}:{group}"):
            with refused(403, "InsufficientScopes"):
                call(service.with_scopes(scope))
        call(service.with_scopes(f"queue:{name}:me/{group}"))
