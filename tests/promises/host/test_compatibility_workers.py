"""Every endpoint for workers and about them, called as its clients call it (docs/compatibility.md)."""

from __future__ import annotations

import pytest

from shared.base.ids import new_slugid
from tests.promises.host.bare_worker import claims, find, poll
from tests.promises.host.service import Service, eventually, in_future, refused


@pytest.mark.endpoint("claimWork")
@pytest.mark.endpoint("reclaimTask")
@pytest.mark.endpoint("reportCompleted")
def test_a_worker_claims_renews_and_completes(service: Service) -> None:
    claim = service.claimed()
    task_id, worker = claim["status"]["taskId"], service.worker(claim)
    renewed = worker.reclaimTask(task_id, 0)
    assert renewed["takenUntil"] >= claim["takenUntil"]
    worker = service.worker(renewed)
    assert worker.reportCompleted(task_id, 0)["status"]["state"] == "completed"


@pytest.mark.endpoint("claimWork")
def test_a_worker_of_2019_writes_the_task_queue_in_two_parts(service: Service) -> None:
    task_id = service.create()
    request = {"workerGroup": "g", "workerId": "w", "tasks": 1}
    (claim,) = eventually(lambda: service.call("POST", f"claim-work/{service.pool}", request)["tasks"])
    assert claim["status"]["taskId"] == task_id


@pytest.mark.endpoint("claimTask")
@pytest.mark.endpoint("reportFailed")
def test_a_worker_claims_a_task_by_name(service: Service) -> None:
    task_id = service.create()
    claim = service.queue.claimTask(task_id, 0, {"workerGroup": "g", "workerId": "w"})
    assert (claim["runId"], claim["task"]["taskQueueId"]) == (0, service.pool)
    assert service.worker(claim).reportFailed(task_id, 0)["status"]["state"] == "failed"


def test_a_failure_is_reported_as_in_2014(service: Service) -> None:
    """A failure can be reported the old way: reportCompleted with `{"success": false}` (contract 2.4)."""
    for success, state in ((False, "failed"), (True, "completed")):
        task_id = service.claimed()["status"]["taskId"]
        answer = service.call("post", f"task/{task_id}/runs/0/completed", {"success": success})
        assert answer["status"]["state"] == state


@pytest.mark.endpoint("reportException")
def test_a_worker_shuts_down(service: Service) -> None:
    claim = service.claimed()
    task_id, reason = claim["status"]["taskId"], {"reason": "worker-shutdown"}
    status = service.worker(claim).reportException(task_id, 0, reason)["status"]
    assert [run["state"] for run in status["runs"]] == ["exception", "pending"]
    assert status["runs"][1]["reasonCreated"] == "retry"


@pytest.mark.endpoint("pollTaskUrls")
@pytest.mark.endpoint("claimWork with xmlMessage")
def test_a_worker_polls_azure_itself(service: Service) -> None:
    task_id = service.create()
    urls = service.call("GET", f"poll-task-url/{service.pool}")
    assert len(urls["queues"]) == 7
    answer = eventually(lambda: find(service))
    request = {"workerGroup": "g", "workerId": "w", "xmlMessage": answer.text}
    (claim,) = service.call("POST", f"claim-work/{service.pool}", request)["tasks"]
    assert claim["status"]["taskId"] == task_id
    assert claims(service, answer.text) == []
    assert [found for queue in urls["queues"] for found in poll(queue["signedPollUrl"]).bodies] == []


@pytest.mark.endpoint("pollTaskUrl")
@pytest.mark.endpoint("accessTasks")
def test_drafts_that_were_replaced_within_days(service: Service) -> None:
    assert set(service.call("GET", f"poll-task-url/{service.pool}")) == {"queues", "expires"}
    with refused(404, None) as errors:
        service.call("GET", f"access-tasks/{service.pool}")
    assert errors[0].body == {"error": "Not found"}


@pytest.mark.endpoint("createTask by POST")
@pytest.mark.endpoint("defineTasks")
@pytest.mark.endpoint("claimTask without a run")
@pytest.mark.endpoint("reportTaskCompleted")
@pytest.mark.endpoint("requestArtifactUrls")
@pytest.mark.endpoint("getPendingTasks")
@pytest.mark.endpoint("getAMQPConnectionString")
def test_calls_of_the_first_years_are_not_found(service: Service) -> None:
    task_id = service.create()
    for method, path in (
        ("POST", "task/new"),
        ("GET", "define-tasks"),
        ("POST", f"task/{task_id}/claim"),
        ("POST", f"task/{task_id}/completed"),
        ("POST", f"task/{task_id}/artifact-urls"),
        ("GET", f"pending-tasks/{service.pool.split('/')[0]}"),
        ("GET", "settings/amqp-connection-string"),
    ):
        with refused(404, None) as errors:
            service.call(method, path)
        assert errors[0].body == {"error": "Not found"}


@pytest.mark.endpoint("pendingTaskCount")
def test_a_provisioner_is_no_task_queue(service: Service) -> None:
    with refused(400, "InvalidRequestArguments"):
        service.call("GET", f"pending/{service.pool.split('/')[0]}")


@pytest.mark.endpoint("pendingTasks")
@pytest.mark.endpoint("taskQueueCounts")
@pytest.mark.endpoint("taskQueueCountsBatch")
@pytest.mark.endpoint("listPendingTasks")
@pytest.mark.endpoint("listClaimedTasks")
def test_what_waits_and_what_runs(service: Service) -> None:
    first = service.claimed()["status"]["taskId"]
    second, third = service.create(), service.create()
    provisioner_id, worker_type = service.pool.split("/")
    expected = {
        "provisionerId": provisioner_id,
        "workerType": worker_type,
        "taskQueueId": service.pool,
        "pendingTasks": 2,
    }
    assert service.queue.pendingTasks(service.pool) == expected
    assert service.call("GET", f"pending/{service.pool}") == expected
    counts = {**expected, "claimedTasks": 1}
    assert service.queue.taskQueueCounts(service.pool) == counts
    assert service.queue.taskQueueCountsBatch({"taskQueueIds": [service.pool]}) == {"taskQueueCounts": [counts]}
    pending = service.queue.listPendingTasks(service.pool)["tasks"]
    assert [each["taskId"] for each in pending] == [second, third]
    (claimed,) = service.queue.listClaimedTasks(service.pool)["tasks"]
    assert (claimed["taskId"], claimed["workerGroup"], claimed["workerId"]) == (first, "g", "w")


@pytest.mark.endpoint("listTaskQueues")
@pytest.mark.endpoint("getTaskQueue")
@pytest.mark.endpoint("listProvisioners")
@pytest.mark.endpoint("getProvisioner")
@pytest.mark.endpoint("listWorkerTypes")
@pytest.mark.endpoint("getWorkerType")
@pytest.mark.endpoint("listWorkers")
@pytest.mark.endpoint("getWorker")
def test_who_has_been_seen(service: Service) -> None:
    task_id = service.claimed()["status"]["taskId"]
    provisioner_id, worker_type = service.pool.split("/")
    assert service.queue.getTaskQueue(service.pool)["taskQueueId"] == service.pool
    assert service.queue.getProvisioner(provisioner_id)["provisionerId"] == provisioner_id
    assert service.queue.getWorkerType(provisioner_id, worker_type)["workerType"] == worker_type
    assert service.pool in paged(service, "listTaskQueues", "taskQueues", "taskQueueId")
    assert provisioner_id in paged(service, "listProvisioners", "provisioners", "provisionerId")
    assert worker_type in paged(service, "listWorkerTypes", "workerTypes", "workerType", provisioner_id)
    (listed,) = service.queue.listWorkers(provisioner_id, worker_type)["workers"]
    assert listed["latestTask"] == {"taskId": task_id, "runId": 0}
    worker = service.queue.getWorker(provisioner_id, worker_type, "g", "w")
    assert worker["recentTasks"] == [{"taskId": task_id, "runId": 0}]


@pytest.mark.endpoint("quarantineWorker")
@pytest.mark.endpoint("declareWorker")
def test_a_worker_is_declared_and_quarantined(service: Service) -> None:
    provisioner_id, worker_type = service.pool.split("/")
    service.create()
    declared = service.queue.declareWorker(provisioner_id, worker_type, "g", "w", {"expires": in_future(86_400 * 3)})
    assert declared["recentTasks"] == []
    until = {"quarantineUntil": in_future(3600), "quarantineInfo": "smells"}
    quarantined = service.queue.quarantineWorker(provisioner_id, worker_type, "g", "w", until)
    assert quarantined["quarantineUntil"] == until["quarantineUntil"]
    (listed,) = service.queue.listWorkers(provisioner_id, worker_type, query={"quarantined": "true"})["workers"]
    assert listed["quarantineUntil"] == until["quarantineUntil"]


@pytest.mark.endpoint("declareProvisioner")
@pytest.mark.endpoint("declareWorkerType")
def test_a_pool_is_declared(service: Service) -> None:
    provisioner_id = f"p{new_slugid()}"
    declared = {"stability": "stable", "description": "of a test", "expires": in_future(86_400)}
    answer = service.call("PUT", f"provisioners/{provisioner_id}", declared)
    assert {name: answer[name] for name in declared} == declared
    answer = service.call("PUT", f"provisioners/{provisioner_id}/worker-types/pool", declared)
    assert {name: answer[name] for name in declared} == declared
    assert service.queue.getWorkerType(provisioner_id, "pool")["description"] == "of a test"


def paged(service: Service, method: str, of: str, name: str, *args: str) -> list[str]:
    """Returns all names of a listing, page by page."""
    found: list[str] = []
    query: dict[str, str] = {}
    while True:
        page = getattr(service.queue, method)(*args, query={"limit": "100", **query})
        found += [each[name] for each in page[of]]
        if "continuationToken" not in page:
            return found
        query = {"continuationToken": page["continuationToken"]}
