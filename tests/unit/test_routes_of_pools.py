"""Which endpoint a path on task queues and workers leads to, with either form of the slash (contract 1.4)."""

from __future__ import annotations

from itertools import product

import pytest

from shared.api.endpoint import Router
from shared.api.validation import validate_params
from shared.app.apis import QUEUE
from shared.base.errors import InvalidRequestArguments

ROUTER = Router(QUEUE.prefix, QUEUE.endpoints)


def found(method: str, path: str) -> tuple[str, dict[str, str]] | None:
    match = ROUTER.find(method, QUEUE.prefix + path)
    return None if match is None else (match.endpoint.name, dict(match.params))


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/pending/{}", "pendingTasks"),
        ("HEAD", "/pending/{}", "pendingTasks"),
        ("GET", "/task-queues/{}/counts", "taskQueueCounts"),
        ("GET", "/task-queues/{}/load", "taskQueueLoad"),
        ("GET", "/task-queues/{}/pending", "listPendingTasks"),
        ("GET", "/task-queues/{}/claimed", "listClaimedTasks"),
        ("POST", "/claim-work/{}", "claimWork"),
    ],
)
def test_task_queue_id_may_have_raw_or_encoded_slash(method: str, path: str, name: str) -> None:
    for slash, end in product(["%2F", "%2f", "/"], ["", "/"]):
        called = path.format(f"prov{slash}wt") + end
        assert found(method, called) == (name, {"taskQueueId": "prov/wt"}), called


def test_a_task_queue_itself_takes_the_encoded_slash_only() -> None:
    assert found("GET", "/task-queues/prov%2Fwt") == ("getTaskQueue", {"taskQueueId": "prov/wt"})
    assert found("GET", "/task-queues/prov/wt") is None


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/task-queues", "listTaskQueues"),
        ("GET", "/task-queues/", "listTaskQueues"),
        ("POST", "/task-queues/counts", "taskQueueCountsBatch"),
        ("GET", "/provisioners", "listProvisioners"),
        ("GET", "/provisioners/p", "getProvisioner"),
        ("PUT", "/provisioners/p", "declareProvisioner"),
        ("GET", "/provisioners/p/worker-types", "listWorkerTypes"),
        ("GET", "/provisioners/p/worker-types/w", "getWorkerType"),
        ("PUT", "/provisioners/p/worker-types/w", "declareWorkerType"),
        ("GET", "/provisioners/p/worker-types/w/workers", "listWorkers"),
        ("GET", "/provisioners/p/worker-types/w/workers/g/i", "getWorker"),
        ("PUT", "/provisioners/p/worker-types/w/workers/g/i", "quarantineWorker"),
        ("PUT", "/provisioners/p/worker-types/w/g/i", "declareWorker"),
        ("PUT", "/provisioners/p/worker-types/w/workers/i", "declareWorker"),
        ("POST", "/provisioners/p/worker-types/w/workers/g/i/removed", "workerRemoved"),
    ],
)
def test_routes_of_provisioners_and_workers(method: str, path: str, name: str) -> None:
    match = found(method, path)
    assert match is not None and match[0] == name


@pytest.mark.parametrize(
    "path",
    [
        "/task-queues/a/b/c/counts",
        "/pending/a/b/c",
        "/pending",
        "/Task-Queues",
        "/task-queues//counts",
        "/provisioners/p/worker-types/w/workers/g",
        "/provisioners/p/worker-types/w/workers/g/i/j",
    ],
)
def test_paths_without_a_route_are_not_found(path: str) -> None:
    assert found("GET", path) is None


def test_a_task_queue_needs_both_halves() -> None:
    match = ROUTER.find("GET", f"{QUEUE.prefix}/task-queues/prov/counts")
    assert match is not None and match.endpoint.name == "taskQueueCounts"
    with pytest.raises(InvalidRequestArguments):
        validate_params(match.endpoint, match.params)
