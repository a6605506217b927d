"""Workers, worker types, task queues and provisioners, as the public client sees them (contract 8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shared.base.dates import parse_date
from shared.base.ids import new_slugid
from tests.promises.host.service import Service, in_future, refused

DAY = 86_400
PROVISIONERS = "provisioners"


@pytest.fixture
def worker(service: Service) -> tuple[str, str, str, str]:
    """Returns a worker of the test's own pool that has been declared."""
    provisioner_id, worker_type = service.pool.split("/")
    names = (provisioner_id, worker_type, "some-group", f"w{new_slugid()}")
    service.queue.declareWorker(*names, {"expires": in_future(DAY)})
    return names


def pages(call: Any, *args: str, entries: str, limit: int = 1, **query: str) -> Iterator[Any]:
    """Yields all entries of a listing, read in small pages."""
    options = {"limit": str(limit), **query}
    while True:
        page = call(*args, query=options)
        assert len(page[entries]) <= limit
        yield from page[entries]
        if not page.get("continuationToken"):
            return
        options["continuationToken"] = page["continuationToken"]


def quarantine(service: Service, worker: tuple[str, str, str, str], seconds: float, info: str | None = None) -> Any:
    """Quarantines a worker on both hosts, as each may remember the worker for half a minute."""
    body = {"quarantineUntil": in_future(seconds), **({} if info is None else {"quarantineInfo": info})}
    service.queue.quarantineWorker(*worker, body)
    return service.queue.quarantineWorker(*worker, body)


def test_claim_work_makes_everybody_known(service: Service) -> None:
    provisioner_id, worker_type = service.pool.split("/")
    with refused(404, "ResourceNotFound"):
        service.queue.getTaskQueue(service.pool)
    claims = [service.claimed() for _ in range(3)]

    queue = service.queue.getTaskQueue(service.pool)
    assert queue.keys() == {"taskQueueId", "stability", "description", "expires", "lastDateActive"}
    assert (queue["taskQueueId"], queue["stability"], queue["description"]) == (service.pool, "experimental", "")
    assert parse_date(queue["expires"]) > parse_date(queue["lastDateActive"])

    expected = {**queue, "provisionerId": provisioner_id, "workerType": worker_type}
    assert service.queue.getWorkerType(provisioner_id, worker_type) == expected
    assert expected in list(pages(service.queue.listWorkerTypes, provisioner_id, entries="workerTypes", limit=100))
    provisioner = service.queue.getProvisioner(provisioner_id)
    assert provisioner.keys() == {"provisionerId", "stability", "description", "expires", "lastDateActive"}
    assert provisioner in service.queue.listProvisioners()["provisioners"]

    worker = service.queue.getWorker(provisioner_id, worker_type, "g", "w")
    assert worker.keys() == {
        *("provisionerId", "workerType", "taskQueueId", "workerGroup", "workerId", "recentTasks"),
        *("expires", "firstClaim", "lastDateActive", "quarantineUntil"),
    }
    runs = [{"taskId": claim["status"]["taskId"], "runId": 0} for claim in claims]
    assert worker["recentTasks"] == runs
    assert parse_date(worker["quarantineUntil"]) < parse_date(worker["firstClaim"])
    (listed,) = service.queue.listWorkers(provisioner_id, worker_type)["workers"]
    assert listed == {
        "workerGroup": "g",
        "workerId": "w",
        "firstClaim": worker["firstClaim"],
        "lastDateActive": worker["lastDateActive"],
        "latestTask": runs[-1],
    }


def test_task_queues_in_pages_and_in_order(service: Service) -> None:
    provisioner_id = f"p{new_slugid()}"
    names = [f"{provisioner_id}/{name}" for name in ("b", "a-b", "a", "ab", "a1")]
    for name in names:
        service.queue.declareWorker(*name.split("/"), "g", "w", {"expires": in_future(60)})
    found = [entry["taskQueueId"] for entry in pages(service.queue.listTaskQueues, entries="taskQueues", limit=3)]
    assert found == sorted(found)
    assert [name for name in found if name in names] == sorted(names)
    types = list(pages(service.queue.listWorkerTypes, provisioner_id, entries="workerTypes", limit=2))
    assert [entry["taskQueueId"] for entry in types] == sorted(names)
    provisioners = list(pages(service.queue.listProvisioners, entries="provisioners", limit=1))
    assert [entry["provisionerId"] for entry in provisioners].count(provisioner_id) == 1
    assert service.queue.listTaskQueues(query={"limit": "0"}) == {"taskQueues": []}


def test_quarantine(service: Service, worker: tuple[str, str, str, str]) -> None:
    service.create()
    answered = quarantine(service, worker, DAY, "its disk fails 💾")
    assert service.queue.getWorker(*worker) == answered
    entry = answered["quarantineDetails"][-1]
    assert entry["quarantineInfo"] == "its disk fails 💾"
    assert entry["clientId"] == service.running.deployment.root["clientId"]
    assert entry["quarantineUntil"] == answered["quarantineUntil"]
    (listed,) = service.queue.listWorkers(*worker[:2])["workers"]
    assert listed["quarantineUntil"] == answered["quarantineUntil"]
    assert [*pages(service.queue.listWorkers, *worker[:2], entries="workers", quarantined="true")] == [listed]
    assert [*pages(service.queue.listWorkers, *worker[:2], entries="workers", quarantined="false")] == []

    request = {"workerGroup": worker[2], "workerId": worker[3]}
    assert service.queue.claimWork(service.pool, request) == {"tasks": []}
    assert service.queue.claimWork(service.pool, request) == {"tasks": []}

    lifted = quarantine(service, worker, -1)
    assert [entry["quarantineInfo"] for entry in lifted["quarantineDetails"]] == [
        *["its disk fails 💾"] * 2,
        *["[unspecified]"] * 2,
    ]
    assert "quarantineUntil" not in service.queue.listWorkers(*worker[:2])["workers"][0]
    assert len(service.queue.claimWork(service.pool, request)["tasks"]) == 1


@pytest.mark.endpoint("workerRemoved")
def test_a_removed_worker(service: Service) -> None:
    done = service.status(service.completed())
    first, second = service.create(), service.create(retries=0)
    service.claim(2)
    third = service.create()
    other = service.queue.claimWork(service.pool, {"workerGroup": "g", "workerId": "other"})["tasks"]
    assert [claim["status"]["taskId"] for claim in other] == [third]

    route = f"{PROVISIONERS}/{service.pool.replace('/', '/worker-types/')}/workers/g/w/removed"
    answered = service.call("post", route)
    assert sorted(run["taskId"] for run in answered["tasks"]) == sorted([first, second])
    status = service.status(first)
    assert [run["state"] for run in status["runs"]] == ["exception", "pending"]
    assert status["runs"][0]["reasonResolved"] == "worker-shutdown"
    assert status["runs"][1]["reasonCreated"] == "retry"
    assert service.status(second)["state"] == "exception"
    assert service.status(third)["state"] == "running"
    assert service.status(done["taskId"]) == done
    assert service.call("post", route) == {"tasks": []}
    begun = [("task-defined", None), ("task-pending", 0), ("task-running", 0), ("task-exception", 0)]
    service.events.expect(first, *begun, ("task-pending", 1))
    service.events.expect(second, *begun, ("task-group-resolved", None))
    (claim,) = service.claim()
    assert (claim["status"]["taskId"], claim["runId"]) == (first, 1)


def test_declared_worker_types_and_provisioners(service: Service) -> None:
    provisioner_id, worker_type = f"p{new_slugid()}", "some"
    route = f"{PROVISIONERS}/{provisioner_id}/worker-types/{worker_type}"
    declared = service.call("put", route, {"description": "d", "stability": "stable"})
    assert (declared["description"], declared["stability"]) == ("d", "stable")
    assert service.queue.getWorkerType(provisioner_id, worker_type) == declared
    later = in_future(30 * DAY)
    assert service.call("put", route, {"expires": later})["expires"] == later
    assert service.call("put", route, {"expires": in_future(1)})["expires"] == later
    actions = [
        {"name": "n", "title": "t", "context": context, "url": "u", "method": "POST", "description": ""}
        for context in ("provisioner", "worker-type", "worker")
    ]
    provisioner = service.call("put", f"{PROVISIONERS}/{provisioner_id}", {"actions": actions, "description": "all"})
    assert provisioner["actions"] == actions
    assert service.queue.getProvisioner(provisioner_id) == provisioner
    assert service.queue.getWorkerType(provisioner_id, worker_type)["actions"] == [actions[1]]
    service.queue.declareWorker(provisioner_id, worker_type, "g", "w", {"expires": later})
    assert service.queue.getWorker(provisioner_id, worker_type, "g", "w")["actions"] == [actions[2]]
    unstorable: list[dict[str, Any]] = [{}, {"actions": [{**actions[0], "url": "x" * 40_000}]}]
    for bad in unstorable:
        with refused(400, "InputError"):
            service.call("put", f"{PROVISIONERS}/{provisioner_id}", bad)
    malformed: list[dict[str, Any]] = [
        {"stability": "unknown"},
        {"actions": [{"name": "n"}]},
        {"description": "x" * 10_241},
    ]
    for bad in malformed:
        with refused(400, "InputValidationError"):
            service.call("put", f"{PROVISIONERS}/{provisioner_id}", bad)


def test_each_call_needs_its_own_scope(service: Service, worker: tuple[str, str, str, str]) -> None:
    provisioner_id, worker_type, _, _ = worker
    path = "/".join(worker)
    until = {"quarantineUntil": in_future(-DAY)}
    calls: list[tuple[str, str, tuple[Any, ...]]] = [
        ("queue:list-provisioners", "listProvisioners", ()),
        (f"queue:get-provisioner:{provisioner_id}", "getProvisioner", (provisioner_id,)),
        ("queue:list-task-queues", "listTaskQueues", ()),
        (f"queue:get-task-queue:{service.pool}", "getTaskQueue", (service.pool,)),
        (f"queue:list-worker-types:{provisioner_id}", "listWorkerTypes", (provisioner_id,)),
        (f"queue:get-worker-type:{service.pool}", "getWorkerType", worker[:2]),
        (f"queue:list-workers:{service.pool}", "listWorkers", worker[:2]),
        (f"queue:get-worker:{path}", "getWorker", worker),
        (f"queue:quarantine-worker:{path}", "quarantineWorker", (*worker, until)),
        (f"queue:declare-worker:{path}#expires", "declareWorker", (*worker, {"expires": in_future(60)})),
    ]
    nobody = service.with_scopes()
    for scope, name, args in calls:
        getattr(service.with_scopes(scope), name)(*args)
        with refused(403, "InsufficientScopes"):
            getattr(nobody, name)(*args)
    removed = f"{PROVISIONERS}/{provisioner_id}/worker-types/{worker_type}/workers/{worker[2]}/{worker[3]}/removed"
    service.with_scopes(f"queue:worker-removed:{path}")._makeHttpRequest("post", removed, None)
    with refused(403, "InsufficientScopes"):
        nobody._makeHttpRequest("post", removed, None)
    for route, kind in (
        (f"{PROVISIONERS}/{provisioner_id}", f"declare-provisioner:{provisioner_id}"),
        (f"{PROVISIONERS}/{provisioner_id}/worker-types/{worker_type}", f"declare-worker-type:{service.pool}"),
    ):
        body = {"stability": "stable", "description": ""}
        both = [f"queue:{kind}#stability", f"queue:{kind}#description"]
        service.with_scopes(*both)._makeHttpRequest("put", route, body)
        for scope in both:
            with refused(403, "InsufficientScopes"):
                service.with_scopes(scope)._makeHttpRequest("put", route, body)
