"""createTask: dates, who may call it, groups, and what counts as a repeat (contract 3.2 to 3.6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.base.ids import new_slugid
from tests.promises.host.service import METADATA, Service, in_future, refused

MINUTE = 60
HOUR = 3600
DAY = 24 * HOUR


@pytest.mark.parametrize(
    "dates",
    [
        {"created": -15 * MINUTE - 20},
        {"created": 15 * MINUTE + 20},
        {"created": 10 * MINUTE, "deadline": 5 * MINUTE},
        {"created": -10 * MINUTE, "deadline": -20},
        {"deadline": 5 * DAY + 15 * MINUTE + 20},
        {"deadline": HOUR, "expires": HOUR - 1},
    ],
    ids=["created too early", "created too late", "deadline before created", "past", "too far", "expires early"],
)
def test_dates_beyond_their_limits(service: Service, dates: dict[str, int]) -> None:
    with refused(400, "InputError"):
        service.create(**{name: in_future(seconds) for name, seconds in dates.items()})


@pytest.mark.parametrize(
    "form",
    [
        "{date}T{time}.123456789Z",
        "{date}t{time}.123z",
        "{date} {time}.123+00:00",
        "{date}T{time}.123",
        "{date}T{shifted}.123+0100",
        "{date}T{shifted}.123+01",
        "{date}T{shifted}.1239+01:00",
    ],
)
def test_dates_are_normalised(service: Service, form: str) -> None:
    date = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"
    given = form.format(date=date, time="12:34:56", shifted="13:34:56")
    stored = service.queue.task(service.create(deadline=given))
    assert stored["deadline"] == f"{date}T12:34:56.123Z"


def test_scopes_are_checked_before_dates_and_after_the_schema(service: Service) -> None:
    somebody = service.with_scopes(
        "queue:create-task:project:none", "queue:scheduler-id:-", "queue:create-task:low:a/b"
    )
    with refused(403, "InsufficientScopes"):
        somebody.createTask(new_slugid(), service.a_task(created=in_future(DAY)))
    with refused(403, "InsufficientScopes"):
        somebody.createTask(new_slugid(), service.a_task(scopes=["**"]))
    with refused(400, "InputError"):
        somebody.createTask(new_slugid(), service.a_task(taskQueueId=None))
    with refused(400, "InputValidationError"):
        somebody.createTask(new_slugid(), {})
    with refused(400, "InvalidRequestArguments"):
        somebody.createTask("no-slugid", {})


# Repeats (contract 3.5)


def test_a_repeat_returns_the_present_status(service: Service) -> None:
    task_id, task = new_slugid(), service.a_task()
    first = service.queue.createTask(task_id, task)
    assert service.queue.createTask(task_id, task) == first
    (claim,) = service.claim()
    assert service.queue.createTask(task_id, task)["status"]["state"] == "running"
    service.worker(claim).reportCompleted(task_id, 0)
    assert service.queue.createTask(task_id, task)["status"] == service.status(task_id)
    assert service.queue.claimWork(service.pool, {"workerGroup": "g", "workerId": "w"}) == {"tasks": []}


def test_a_repeat_may_be_written_in_another_way(service: Service) -> None:
    task_id = new_slugid()
    given = service.a_task(payload={"a": 1, "b": {"c": 2, "d": [1, 2.0]}}, tags={"x": "1", "y": "2"})
    service.queue.createTask(task_id, given)
    provisioner_id, worker_type = service.pool.split("/")
    other = dict(reversed(given.items()))
    del other["taskQueueId"]
    other |= {
        "provisionerId": provisioner_id,
        "workerType": worker_type,
        "taskGroupId": task_id,
        "payload": {"b": {"d": [1.0, 2], "c": 2}, "a": 1.0},
        "tags": {"y": "2", "x": "1"},
        "created": given["created"].replace("Z", "999+00:00"),
        "retries": 5.0,
        "dependencies": [],
        "priority": "lowest",
    }
    service.queue.createTask(task_id, other)


BASE: dict[str, Any] = {
    "routes": ["a", "b"],
    "scopes": ["a", "b"],
    "payload": {"flag": True, "list": [1, 2]},
    "extra": {"a": 1},
    "tags": {"a": "b"},
}


@pytest.mark.parametrize(
    "change",
    [
        {"taskQueueId": "test/other"},
        {"schedulerId": "other"},
        {"projectId": "other"},
        {"taskGroupId": "AAAAAAAAQACAAAAAAAAAAA"},
        {"requires": "all-resolved"},
        {"routes": ["b", "a"]},
        {"routes": ["a"]},
        {"priority": "low"},
        {"retries": 4},
        {"deadline": 2 * HOUR},
        {"expires": 3 * HOUR},
        {"scopes": ["b", "a"]},
        {"scopes": ["a", "a", "b"]},
        {"payload": {"flag": 1, "list": [1, 2]}},
        {"payload": {"flag": True, "list": [2, 1]}},
        {"payload": {"flag": True, "list": [1, 2], "more": None}},
        {"metadata": {**METADATA, "name": "other"}},
        {"tags": {"a": "c"}},
        {"extra": {"a": "1"}},
    ],
    ids=str,
)
def test_another_definition_is_a_conflict(service: Service, change: dict[str, Any]) -> None:
    task_id, task = new_slugid(), service.a_task(**BASE)
    before = service.queue.createTask(task_id, task)
    if change.keys() <= {"deadline", "expires"}:
        change = {name: in_future(seconds) for name, seconds in change.items()}
    with refused(409, "RequestConflict"):
        service.queue.createTask(task_id, {**task, **change})
    assert service.queue.status(task_id) == before
    assert service.queue.task(task_id)["payload"] == BASE["payload"]
