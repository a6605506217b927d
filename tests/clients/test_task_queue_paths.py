"""Task queues in paths, with and without a platform that decodes `%2F` (contract 1.4, design 8)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.clients.deployment import Deployment, format_time, javascript

ROUTES = (
    "/pending/{}",
    "/task-queues/{}/counts",
    "/task-queues/{}/load",
    "/task-queues/{}/pending",
    "/task-queues/{}/claimed",
)


def test_a_task_queue_by_both_clients(deployment: Deployment) -> None:
    expires = {"expires": format_time(timedelta(days=1))}
    declared = deployment.python(
        "declareWorker", "paths", "both", "g", "w", expires, service="Queue", credentials=deployment.root
    )
    assert declared.status == 200
    calls = ("getTaskQueue", "taskQueueCounts", "pendingTasks", "listPendingTasks", "listClaimedTasks")
    answers = javascript(
        *(
            deployment.javascript_call(name, "paths/both", service="Queue", credentials=deployment.root)
            for name in calls
        )
    )
    for name, answer in zip(calls, answers, strict=True):
        again = deployment.python(name, "paths/both", service="Queue", credentials=deployment.root)
        assert again.status == 200
        assert again.body == answer.body


@pytest.mark.parametrize("route", ROUTES)
def test_either_slash_leads_to_the_same_endpoint(deployment: Deployment, route: str) -> None:
    """Seen by its refusal, which names the task queue: no one may look without a scope."""
    for slash in ("/", "%2F", "%2f"):
        answer = deployment.request("GET", "/api/queue/v1" + route.format(f"paths{slash}some"))
        assert (answer.status, answer.code) == (403, "InsufficientScopes")
        assert answer.body["requestInfo"]["params"] == {"taskQueueId": "paths/some"}


def test_a_task_queue_itself_takes_the_encoded_slash_only(deployment: Deployment) -> None:
    assert deployment.request("GET", "/api/queue/v1/task-queues/paths%2Fsome").code == "InsufficientScopes"
    raw = deployment.request("GET", "/api/queue/v1/task-queues/paths/some")
    assert (raw.status, raw.body) == (404, {"error": "Not found"})
