"""Calls on many tasks, and paging (contract 2.4, 13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.base.ids import new_slugid
from tests.host.service import Service, refused


def pages(call: Callable[[dict[str, str]], dict[str, Any]], name: str, limit: int) -> list[list[Any]]:
    """Every page of a listing."""
    found: list[list[Any]] = []
    query = {"limit": str(limit)}
    while True:
        answer = call(query)
        found.append(answer[name])
        token = answer.get("continuationToken")
        if token is None:
            assert "continuationToken" not in answer
            return found
        assert token
        query["continuationToken"] = token


def test_many_definitions_and_statuses(service: Service) -> None:
    task_ids = [service.create() for _ in range(3)]
    service.queue.changeTaskPriority(task_ids[0], {"newPriority": "high"})
    asked = {"taskIds": [*task_ids, new_slugid(), "no-slugid", "", task_ids[0], "../x"]}
    tasks = service.queue.tasks(asked)["tasks"]
    assert {each["taskId"]: each["task"] for each in tasks} == {each: service.queue.task(each) for each in task_ids}
    assert len(tasks) == 3
    statuses = service.queue.statuses(asked)["statuses"]
    assert {each["taskId"]: each["status"] for each in statuses} == {each: service.status(each) for each in task_ids}
    assert len(statuses) == 3


def test_every_id_must_be_allowed(service: Service) -> None:
    mine, other = service.create(), service.create()
    for verb, call in (("get-task", "tasks"), ("status", "statuses")):
        client = service.with_scopes(f"queue:{verb}:{mine}")
        assert len(getattr(client, call)({"taskIds": [mine]})[call]) == 1
        for asked in ([mine, other], [new_slugid()]):
            with refused(403, "InsufficientScopes"):
                getattr(client, call)({"taskIds": asked})


def test_answersof_many_tasks(service: Service) -> None:
    task_ids = [service.create() for _ in range(5)]
    asked = {"taskIds": [task_ids[0], new_slugid(), *task_ids[1:]]}
    for name, call in (("tasks", service.queue.tasks), ("statuses", service.queue.statuses)):
        found = pages(lambda query, call=call: call(payload=asked, query=query), name, 2)  # type: ignore[misc]
        assert len(found) == 3
        assert sorted(each["taskId"] for page in found for each in page) == sorted(task_ids)
        assert call(payload=asked, query={"limit": "0"}) == {name: []}
        assert len(call(payload=asked, query={"limit": "99999999999999999999"})[name]) == 5
        with refused(400, "InputError"):
            call(payload=asked, query={"continuationToken": "!!"})


def test_answersof_a_group_and_of_dependents(service: Service) -> None:
    group = new_slugid()
    first = service.create(taskGroupId=group)
    rest = sorted(service.create(taskGroupId=group, dependencies=[first]) for _ in range(6))
    listings: list[tuple[Any, str, list[str]]] = [
        (service.queue.listTaskGroup, group, sorted([first, *rest])),
        (service.queue.listDependentTasks, first, rest),
    ]
    for call, subject, expected in listings:
        for limit in (1, 4, 7, 1000):
            found = pages(lambda query, call=call, subject=subject: call(subject, query=query), "tasks", limit)  # type: ignore[misc]
            assert all(len(page) <= limit for page in found)
            assert [each["status"]["taskId"] for page in found for each in page] == expected
        empty = call(subject, query={"limit": "0"})
        assert (empty["tasks"], "continuationToken" in empty) == ([], False)
    token = service.queue.listTaskGroup(group, query={"limit": "2"})["continuationToken"]
    with refused(400, "InputError"):
        service.queue.listDependentTasks(first, query={"continuationToken": token})


def test_answersof_very_large_tasks_end_where_an_answer_is_full(service: Service) -> None:
    group = new_slugid()
    payload = {"text": "x" * 1_000_000}
    task_ids = sorted(service.create(taskGroupId=group, payload=payload) for _ in range(18))
    asked = {"taskIds": ["no-slugid", *task_ids]}
    batches = pages(lambda query: service.queue.tasks(payload=asked, query=query), "tasks", 1000)
    assert [each["taskId"] for page in batches for each in page] == task_ids
    listed = pages(lambda query: service.queue.listTaskGroup(group, query=query), "tasks", 1000)
    assert [each["status"]["taskId"] for page in listed for each in page] == task_ids
    assert all(1 < len(answers) < 18 and max(map(len, answers)) <= 16 for answers in (batches, listed))
    assert all(each["task"]["payload"] == payload for page in listed for each in page)
