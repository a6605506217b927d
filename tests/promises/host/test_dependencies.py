"""Dependencies: which tasks wait for which others (contract 3.6, 6)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from shared.base.ids import new_slugid
from tests.promises.host.service import Service, refused

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
