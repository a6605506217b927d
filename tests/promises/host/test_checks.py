"""The order of checks: scopes, arguments, existence (contract 1.5, traps 6 and 7)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from shared.base.ids import new_slugid
from tests.promises.host.service import Service, in_future, refused
from tests.promises.host.wire import API, send


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/task/<taskId>"),
        ("GET", "/task/<taskId>/status"),
        ("GET", "/task/<taskId>/dependents"),
        ("GET", "/task-group/<taskId>"),
        ("GET", "/task-group/<taskId>/list"),
        ("POST", "/task/<taskId>/runs/0/reclaim"),
        ("POST", "/task/<taskId>/runs/0/completed"),
        ("POST", "/task/<taskId>/runs/0/failed"),
        ("POST", "/task/<taskId>/runs/0/exception"),
    ],
)
def test_where_the_url_says_it_all_scopes_come_first(service: Service, method: str, path: str) -> None:
    for task_id in (new_slugid(), "no-slugid"):
        answer = send(service, method, API + path.replace("<taskId>", task_id) + "?foo=1", signed=False)
        assert (answer.status, answer.code) == (403, "InsufficientScopes")
        answer = send(
            service,
            method,
            API + path.replace("<taskId>", task_id),
            signed=False,
            headers={"authorization": "Bearer x"},
        )
        assert (answer.status, answer.code) == (401, "AuthenticationFailed")
        assert answer.headers["www-authenticate"] == "hawk"


@pytest.mark.parametrize("verb", ["schedule", "rerun", "cancel"])
def test_where_the_task_says_who_may_its_absence_comes_first(service: Service, verb: str) -> None:
    nobody = service.with_scopes()
    call = getattr(nobody, f"{verb}Task")
    with refused(404, "ResourceNotFound"):
        call(new_slugid())
    with refused(400, "InvalidRequestArguments"):
        call("no-slugid")
    task_id = service.create(deadline=in_future(1))
    with refused(403, "InsufficientScopes"):
        call(task_id)
    service.wait_for(task_id, "exception")
    with refused(403, "InsufficientScopes"):
        call(task_id)
    with refused(409, "RequestConflict"):
        getattr(service.queue, f"{verb}Task")(task_id)


def test_a_caller_that_no_body_could_help_is_refused_before_the_body_is_looked_at(service: Service) -> None:
    nobody, task_id, unknown = service.with_scopes(), service.create(), new_slugid()
    calls: list[Callable[[], object]] = [
        lambda: nobody.changeTaskPriority(unknown, {"newPriority": "high"}),
        lambda: nobody.changeTaskPriority(task_id, {"newPriority": "urgent"}),
        lambda: nobody.changeTaskGroupPriority(unknown, {"newPriority": "high"}),
        lambda: nobody.claimWork(service.pool, {"workerGroup": "g"}),
        lambda: nobody.claimTask(unknown, 0, {"workerGroup": "g", "workerId": "w"}),
        lambda: nobody.createTask(unknown, {}),
    ]
    for call in calls:
        with refused(403, "InsufficientScopes"):
            call()


def test_refusal_names_the_very_scopes_that_are_missing(service: Service) -> None:
    """A refusal names the very scopes that are missing, also if no body could help the caller, whose body is only read
    for this."""
    somebody, task_id, unknown = (
        service.with_scopes("queue:route:given"),
        service.create(schedulerId="me"),
        new_slugid(),
    )
    task = service.a_task(schedulerId="my-scheduler", priority="highest", routes=["given", "other"], scopes=["a:b"])
    create = f"queue:create-task:highest:{service.pool}"
    worker = {"workerGroup": "g", "workerId": "w"}
    calls: list[tuple[Callable[[], object], list[str]]] = [
        (
            lambda: somebody.createTask(unknown, task),
            ["a:b", "queue:route:other", "queue:create-task:project:none", "queue:scheduler-id:my-scheduler", create],
        ),
        (lambda: somebody.claimWork(service.pool, worker), [f"queue:claim-work:{service.pool}", "queue:worker-id:g/w"]),
        (
            lambda: somebody.changeTaskPriority(task_id, {"newPriority": "low"}),
            [f"queue:change-task-priority:{task_id}", f"queue:change-task-priority-in-queue:{service.pool}"],
        ),
        (
            lambda: somebody.changeTaskGroupPriority(task_id, {"newPriority": "low"}),
            [f"queue:change-task-group-priority:me/{task_id}"],
        ),
    ]
    for call, expected in calls:
        with refused(403, "InsufficientScopes") as found:
            call()
        assert named(found[0].message) == expected


def named(message: str) -> list[str]:
    """Returns the scopes that a refusal names as missing."""
    missing = message.split("```")[1].strip()
    return re.findall(r'"([^"]+:[^"]+)"', missing) if missing.startswith("{") else [missing]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{", ["queue:create-task:project:<projectId>", "queue:scheduler-id:<schedulerId>"]),
        (b'{"schedulerId":7}', ["queue:create-task:project:<projectId>", "queue:scheduler-id:<schedulerId>"]),
        (b'{"payload":"' + b"x" * 20_000 + b'"}', ["queue:scheduler-id:<schedulerId>"]),
    ],
    ids=["malformed", "invalid", "long"],
)
def test_refusal_for_a_body_that_is_not_read_names_what_no_body_could_help(
    service: Service, body: bytes, expected: list[str]
) -> None:
    answer = send(service, "PUT", f"{API}/task/no-slugid?foo=1", body, signed=False)
    assert (answer.status, answer.code) == (403, "InsufficientScopes")
    assert set(expected) <= set(named(answer.body["message"]))


def test_order_of_checks_of_callers_that_a_body_could_help(service: Service) -> None:
    somebody = service.with_scopes(
        "queue:change-task-priority-in-queue:other/queue",
        "queue:change-task-group-priority:other/*",
        f"queue:claim-work:{service.pool}",
        "queue:worker-id:other/*",
        "queue:claim-task:other/queue",
    )
    task_id, unknown, high = service.create(), new_slugid(), {"newPriority": "high"}
    with refused(404, "ResourceNotFound"):
        somebody.changeTaskPriority(unknown, high)
    with refused(400, "InputValidationError"):
        somebody.changeTaskPriority(task_id, {"newPriority": "urgent"})
    with refused(403, "InsufficientScopes"):
        somebody.changeTaskPriority(task_id, high)
    with refused(404, "ResourceNotFound"):
        somebody.changeTaskGroupPriority(unknown, high)
    with refused(403, "InsufficientScopes"):
        somebody.changeTaskGroupPriority(task_id, high)
    with refused(400, "InputValidationError"):
        somebody.claimWork(service.pool, {"workerGroup": "g"})
    with refused(403, "InsufficientScopes"):
        somebody.claimWork(service.pool, {"workerGroup": "g", "workerId": "w"})
    with refused(404, "ResourceNotFound"):
        somebody.claimTask(unknown, 7, {"workerGroup": "other", "workerId": "w"})
    with refused(403, "InsufficientScopes"):
        somebody.claimTask(task_id, 7, {"workerGroup": "other", "workerId": "w"})
