"""What waits and what runs in a task queue, as the public client sees it (contract 9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.promises.host.service import Service, refused
from tests.promises.host.wire import API, send


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
