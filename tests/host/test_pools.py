"""What waits and what runs in a task queue, as the public client sees it (contract 9)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.host.service import Service, refused
from tests.host.wire import API, send
from tools.admin.signing import signed_url


def counts(service: Service) -> tuple[int, int]:
    found = service.queue.taskQueueCounts(service.pool)
    assert service.queue.pendingTasks(service.pool)["pendingTasks"] == found["pendingTasks"]
    return found["pendingTasks"], found["claimedTasks"]


def test_counts_follow_creation_claim_and_cancellation(service: Service) -> None:
    provisioner_id, worker_type = service.pool.split("/")
    ids = {"provisionerId": provisioner_id, "workerType": worker_type, "taskQueueId": service.pool}
    assert service.queue.pendingTasks(service.pool) == {**ids, "pendingTasks": 0}
    assert service.queue.taskQueueCounts(service.pool) == {**ids, "pendingTasks": 0, "claimedTasks": 0}
    made = [service.create() for _ in range(4)]
    service.create(dependencies=[made[0]])
    assert counts(service) == (4, 0)
    claimed = [claim["status"]["taskId"] for claim in service.claim(2)]
    assert counts(service) == (2, 2)
    (waiting, *_) = [task_id for task_id in made if task_id not in claimed]
    service.queue.cancelTask(waiting)
    assert counts(service) == (1, 2)
    service.queue.cancelTask(claimed[0])
    assert counts(service) == (1, 1)
    service.queue.reportException(claimed[1], "0", {"reason": "worker-shutdown"})
    assert counts(service) == (2, 0)


def load(service: Service) -> dict[str, Any]:
    answer = service.call("GET", f"task-queues/{service.pool.replace('/', '%2F')}/load")
    assert isinstance(answer, dict)
    return answer


@pytest.mark.endpoint("taskQueueLoad")
def test_the_load_of_a_task_queue(service: Service) -> None:
    nothing = {"taskQueueId": service.pool, "pendingTasks": 0, "claimedTasks": 0, "unresolvedTasks": 0}
    nothing["waitingWorkers"] = {"claimWork": 0, "pollTaskUrls": 0}
    assert load(service) == nothing
    for priority in ("high", "low", "low", "lowest"):
        service.create(priority=priority)
    waiting = load(service)
    assert waiting.pop("stalled")["reason"] == "no-worker"
    assert waiting == {**nothing, "pendingTasks": 4, "unresolvedTasks": 4}
    first, second, third = service.claim(3)
    assert load(service) == {**nothing, "pendingTasks": 1, "claimedTasks": 3, "unresolvedTasks": 4}
    service.queue.reportCompleted(first["status"]["taskId"], 0)
    service.queue.cancelTask(second["status"]["taskId"])
    assert load(service) == {**nothing, "pendingTasks": 1, "claimedTasks": 1, "unresolvedTasks": 2}
    service.queue.reportException(third["status"]["taskId"], 0, {"reason": "worker-shutdown"})
    assert load(service) == {**nothing, "pendingTasks": 2, "unresolvedTasks": 2}


@pytest.mark.endpoint("listTaskQueueStates")
def test_task_queues_are_listed_with_their_counts(service: Service) -> None:
    def state() -> dict[str, Any] | None:
        query = ""
        found: dict[str, dict[str, Any]] = {}
        while True:
            page = service.call("GET", f"task-queue-states?limit=20{query}")
            assert len(page["taskQueues"]) <= 20
            found |= {each["taskQueueId"]: each for each in page["taskQueues"]}
            if "continuationToken" not in page:
                return found.get(service.pool)
            query = f"&continuationToken={page['continuationToken']}"

    assert state() is None
    for _ in range(2):
        service.create()
    waiting = state()
    assert waiting is not None
    assert (waiting["pendingTasks"], waiting["claimedTasks"]) == (2, 0)
    assert "lastDateActive" not in waiting, "no worker has asked for work"
    assert "oldestPending" in waiting
    assert (waiting["workers"], waiting["quarantinedWorkers"]) == (0, 0)
    assert waiting["stalled"]["reason"] == "no-worker"
    service.claim()
    claimed = state()
    assert claimed is not None
    assert (claimed["pendingTasks"], claimed["claimedTasks"]) == (1, 1)
    assert claimed["lastDateActive"]
    assert "stalled" not in claimed
    with refused(403, "InsufficientScopes"):
        service.anonymous._makeHttpRequest("GET", "task-queue-states", None)


@pytest.mark.parametrize("slash", ["%2F", "/"])
def test_a_scaler_asks_with_a_signature_in_the_url(service: Service, slash: str) -> None:
    """As KEDA sends it: the URL as it was configured, with the secret as the parameter `bewit`."""
    path = f"{API}/task-queues/{service.pool.replace('/', slash)}/load"
    deployment = service.running.deployment
    scopes = [f"queue:{kind}-count:{service.pool}" for kind in ("pending", "claimed")]
    for held, status in ((scopes, 200), (scopes[:1], 403), (scopes[1:], 403)):
        signed = signed_url(deployment.new_client(*held), deployment.root_url + path, timedelta(days=365))
        answer = send(service, "GET", signed.removeprefix(deployment.root_url), signed=False)
        assert answer.status == status
    assert send(service, "GET", f"{path}?limit=1").status == 400


def test_pending_and_claimed_tasks_are_listed(service: Service) -> None:
    made = [service.create(priority=priority) for priority in ("low", "high", "lowest")]
    listed = service.queue.listPendingTasks(service.pool)["tasks"]
    assert [entry["taskId"] for entry in listed] == made, "in the order of time, whatever the priority"
    for entry in listed:
        status = service.status(entry["taskId"])
        assert entry == {
            "taskId": status["taskId"],
            "runId": 0,
            "task": service.queue.task(status["taskId"]),
            "inserted": status["runs"][0]["scheduled"],
        }
    (claim,) = service.claim()
    run = claim["status"]["runs"][0]
    assert service.queue.listClaimedTasks(service.pool)["tasks"] == [
        {
            "taskId": made[1],
            "runId": 0,
            "workerGroup": "g",
            "workerId": "w",
            "claimed": run["started"],
            "task": claim["task"],
        }
    ]
    assert [entry["taskId"] for entry in service.queue.listPendingTasks(service.pool)["tasks"]] == [made[0], made[2]]
    service.queue.changeTaskPriority(made[2], {"newPriority": "highest"})
    assert service.queue.listPendingTasks(service.pool)["tasks"][1]["task"]["priority"] == "highest"


@pytest.mark.parametrize("call", ["listPendingTasks", "listClaimedTasks"])
def test_pages(service: Service, call: str) -> None:
    made = [service.create() for _ in range(5)]
    if call == "listClaimedTasks":
        made = [claim["status"]["taskId"] for _ in made for claim in service.claim()]
    found: list[str] = []
    query = {"limit": "2"}
    while True:
        page = getattr(service.queue, call)(service.pool, query=query)
        found.extend(entry["taskId"] for entry in page["tasks"])
        assert len(page["tasks"]) <= 2
        if "continuationToken" not in page:
            break
        query["continuationToken"] = page["continuationToken"]
    assert found == made
    assert getattr(service.queue, call)(service.pool, query={"limit": "0"}) == {"tasks": []}
    with refused(400, "InputError"):
        getattr(service.queue, call)(service.pool, query={"continuationToken": "?"})


@pytest.mark.parametrize(
    "path", ["/pending/{}", "/task-queues/{}/counts", "/task-queues/{}/load", "/task-queues/{}/pending"]
)
def test_task_queue_id_may_have_raw_or_encoded_slash(service: Service, path: str) -> None:
    service.create()
    raw = send(service, "GET", API + path.format(service.pool))
    encoded = send(service, "GET", API + path.format(service.pool.replace("/", "%2F")))
    assert (raw.status, raw.body) == (encoded.status, encoded.body) == (200, encoded.body)


def test_each_call_needs_its_own_scopes(service: Service) -> None:
    pool = service.pool
    calls: list[tuple[list[str], str, Any]] = [
        ([f"queue:pending-count:{pool}"], "pendingTasks", pool),
        ([f"queue:pending-count:{pool}", f"queue:claimed-count:{pool}"], "taskQueueCounts", pool),
        ([f"queue:pending-list:{pool}"], "listPendingTasks", pool),
        ([f"queue:claimed-list:{pool}"], "listClaimedTasks", pool),
        (
            [f"queue:{kind}-count:{name}" for kind in ("pending", "claimed") for name in (pool, "a/b")],
            "taskQueueCountsBatch",
            {"taskQueueIds": [pool, "a/b"]},
        ),
    ]
    for scopes, name, argument in calls:
        getattr(service.with_scopes(*scopes), name)(argument)
        for missing in scopes:
            held = [scope for scope in scopes if scope != missing]
            with refused(403, "InsufficientScopes"):
                getattr(service.with_scopes(*held), name)(argument)
    body = json.dumps({"taskQueueIds": ["nonsense"]}).encode()
    assert send(service, "POST", f"{API}/task-queues/counts", body, signed=False).status == 400, "an H (contract 1.5)"
    assert send(service, "GET", f"{API}/pending/nonsense", signed=False).status == 403, "a U"
