"""Who waits for whom (contract 3.6, 6)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.base.ids import new_slugid
from tests.host.service import Service, eventually, in_future, refused
from tests.host.wire import API, send

HOUR = 3600


def create_all(service: Service, task_ids: Sequence[str], dependencies: Sequence[str] = (), **changes: str) -> None:
    """Creates tasks of those ids, some at a time."""
    task = service.a_task(dependencies=list(dependencies), **changes)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda task_id: service.queue.createTask(task_id, task), task_ids))


def complete_next(service: Service) -> str:
    """Claims a task and completes it; returns its id."""
    (claim,) = service.claim()
    task_id = str(claim["status"]["taskId"])
    service.worker(claim).reportCompleted(task_id, claim["runId"])
    return task_id


def test_a_chain_runs_in_order(service: Service) -> None:
    chain = [service.create()]
    for _ in range(3):
        chain.append(service.create(dependencies=[chain[-1]]))
    assert [service.status(task_id)["state"] for task_id in chain] == ["pending", *["unscheduled"] * 3]
    assert [complete_next(service) for _ in chain] == chain
    runs = [service.status(task_id)["runs"] for task_id in chain]
    assert all(run["reasonCreated"] == "scheduled" for (run,) in runs)


def test_the_tasks_of_a_diamond_run_in_the_order_of_dependencies(service: Service) -> None:
    top = service.create()
    left, right = service.create(dependencies=[top]), service.create(dependencies=[top])
    bottom = service.create(dependencies=[left, right, top])
    assert complete_next(service) == top
    assert {complete_next(service)} < {left, right}
    assert service.status(bottom)["state"] == "unscheduled"
    assert complete_next(service) in {left, right}
    assert complete_next(service) == bottom


def test_dependencies_that_are_done_already(service: Service) -> None:
    done, failed = service.completed(), service.claimed()["status"]["taskId"]
    service.queue.reportFailed(failed, 0)
    assert service.status(service.create(dependencies=[done]))["state"] == "pending"
    assert service.status(service.create(dependencies=[done, failed]))["state"] == "unscheduled"
    both = service.create(dependencies=[done, failed], requires="all-resolved")
    assert service.status(both)["state"] == "pending"


@pytest.mark.parametrize("result", ["failed", "exception", "canceled"])
def test_a_dependency_that_does_not_complete(service: Service, result: str) -> None:
    required = service.create(retries=0)
    completed_only = service.create(dependencies=[required])
    resolved = service.create(dependencies=[required], requires="all-resolved")
    if result == "canceled":
        service.queue.cancelTask(required)
    else:
        service.claim()
        if result == "failed":
            service.queue.reportFailed(required, 0)
        else:
            service.queue.reportException(required, 0, {"reason": "worker-shutdown"})
    service.wait_for(resolved, "pending")
    assert service.status(completed_only)["state"] == "unscheduled"

    service.queue.rerunTask(required)
    service.queue.cancelTask(resolved)
    assert complete_next(service) == required
    service.wait_for(completed_only, "pending")


def test_a_retry_is_no_resolution(service: Service) -> None:
    required = service.create(retries=1)
    waiting = service.create(dependencies=[required], requires="all-resolved")
    (claim,) = service.claim()
    service.worker(claim).reportException(required, 0, {"reason": "intermittent-task"})
    (claim,) = service.claim()
    witness = service.create(dependencies=[])
    service.create(dependencies=[witness], taskGroupId=witness)
    assert complete_next(service) == witness
    assert complete_next(service) != waiting
    assert service.status(waiting)["state"] == "unscheduled"
    service.worker(claim).reportFailed(required, 1)
    service.wait_for(waiting, "pending")


def test_an_unscheduled_task_that_is_blocked_ends_at_its_deadline_and_frees_its_dependents(service: Service) -> None:
    required = service.create()
    blocked = service.create(dependencies=[required], deadline=in_future(1.5))
    after = service.create(dependencies=[blocked], requires="all-resolved")
    service.queue.cancelTask(required)
    service.wait_for(after, "pending")
    (run,) = service.status(blocked)["runs"]
    assert (run["reasonCreated"], run["reasonResolved"]) == ("exception", "deadline-exceeded")
    assert run["scheduled"] == run["resolved"]


def test_a_dependent_past_its_deadline_is_not_scheduled(service: Service) -> None:
    required = service.create()
    dependent = service.create(dependencies=[required], deadline=in_future(1))
    service.wait_for(dependent, "exception")
    assert complete_next(service) == required
    service.events.expect(
        required,
        ("task-defined", None),
        ("task-pending", 0),
        ("task-running", 0),
        ("task-completed", 0),
        ("task-group-resolved", None),
    )
    assert len(service.status(dependent)["runs"]) == 1


def test_a_dependent_that_was_scheduled_by_hand_is_left_alone(service: Service) -> None:
    required = service.create(priority="high")
    dependent = service.create(dependencies=[required])
    service.queue.scheduleTask(dependent)
    assert complete_next(service) == required
    assert complete_next(service) == dependent
    service.queue.rerunTask(required)
    assert complete_next(service) == required
    assert len(service.status(dependent)["runs"]) == 1


def test_a_task_that_waits_for_itself(service: Service) -> None:
    task_id = new_slugid()
    service.queue.createTask(task_id, service.a_task(dependencies=[task_id]))
    assert service.status(task_id)["state"] == "unscheduled"
    service.queue.scheduleTask(task_id)
    assert complete_next(service) == task_id
    service.queue.rerunTask(task_id)
    assert complete_next(service) == task_id
    assert len(service.status(task_id)["runs"]) == 2


def test_missing_dependencies_leave_nothing_behind(service: Service) -> None:
    required, missing, task_id = service.create(), new_slugid(), new_slugid()
    task = service.a_task(dependencies=[required, missing], taskGroupId=required)
    with refused(400, "InputError") as errors:
        service.queue.createTask(task_id, task)
    assert missing in errors[0].message
    assert required not in errors[0].message.split("---")[0]
    with refused(404, "ResourceNotFound"):
        service.queue.status(task_id)
    assert service.queue.listDependentTasks(required)["tasks"] == []
    assert [entry["status"]["taskId"] for entry in service.queue.listTaskGroup(required)["tasks"]] == [required]
    service.queue.createTask(missing, service.a_task())
    service.queue.createTask(task_id, task)
    assert service.status(task_id)["state"] == "unscheduled"


def test_ten_thousand_missing_dependencies_are_refused_while_the_client_still_waits(service: Service) -> None:
    task_id, missing = new_slugid(), [new_slugid() for _ in range(10_000)]
    answer = send(service, "PUT", f"{API}/task/{task_id}", json.dumps(service.a_task(dependencies=missing)).encode())
    assert (answer.status, answer.code) == (400, "InputError")
    with refused(404, "ResourceNotFound"):
        service.queue.status(task_id)


def test_a_dependency_must_not_expire_before_the_deadline(service: Service) -> None:
    moment = in_future(HOUR)
    required = service.create(deadline=in_future(60), expires=moment)
    with refused(400, "InputError"):
        service.create(dependencies=[required], deadline=in_future(HOUR + 60))
    service.create(dependencies=[required], deadline=moment)


def test_dependents_are_listed(service: Service) -> None:
    required = service.create()
    assert service.queue.listDependentTasks(required) == {"taskId": required, "tasks": []}
    dependents = sorted(service.create(dependencies=[required]) for _ in range(5))
    listed = service.queue.listDependentTasks(required)["tasks"]
    assert listed == [
        {"task": service.queue.task(task_id), "status": service.status(task_id)} for task_id in dependents
    ]
    assert complete_next(service) == required
    assert {complete_next(service) for _ in dependents} == set(dependents)
    listed = service.queue.listDependentTasks(required)["tasks"]
    assert [entry["status"]["state"] for entry in listed] == ["completed"] * 5
    with refused(404, "ResourceNotFound"):
        service.queue.listDependentTasks(new_slugid())


@pytest.mark.large
def test_fan_out_and_fan_in_of_a_thousand(service: Service) -> None:
    """One task frees many, and those free one."""
    timeout = 300
    top, bottom = service.create(), new_slugid()
    middle = sorted(new_slugid() for _ in range(1000))
    create_all(service, middle, [top])
    service.queue.createTask(bottom, service.a_task(dependencies=middle))
    listed = [entry["status"]["taskId"] for entry in service.queue.listDependentTasks(top)["tasks"]]
    assert listed == middle
    assert complete_next(service) == top

    claims = service.claim(len(middle), timeout=timeout)
    assert sorted(claim["status"]["taskId"] for claim in claims) == middle
    assert service.status(bottom)["state"] == "unscheduled"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda claim: service.queue.reportCompleted(claim["status"]["taskId"], 0), claims))
    assert eventually(lambda: service.claim(timeout=timeout), timeout)[0]["status"]["taskId"] == bottom
