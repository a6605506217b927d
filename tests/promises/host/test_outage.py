"""While the service is dead or storage refuses it, storage alone keeps the leases (design 4); then all goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.promises.host.bare_worker import Plain, claims, find, poll, poll_urls
from tests.promises.host.conftest import start
from tests.promises.host.service import Service, eventually

GROUP_RESOLVED = ("task-group-resolved", None)
"""A task that names no group is one of its own."""


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.large)], ids=["one host", "a host for each group"])
def alone(request: pytest.FixtureRequest) -> Iterator[Service]:
    """Yields a stack of the test's own, on which claims last 2 s, and failing storage is given up after 3 s."""
    settings = {"CLAIM_TIMEOUT_SECONDS": "2"}
    for running in start(settings, hosts=1, by_group=request.param, times={"retry": 0.1, "lease": 15, "take": 5}):
        yield Service(running)


def test_leases_expire_while_the_service_is_dead_and_everything_converges_afterwards(alone: Service) -> None:
    task_id = alone.create()
    stack, url = alone.running.stack, poll_urls(alone)[-1]["signedPollUrl"]
    (first,) = claims(alone, eventually(lambda: find(alone)).text, worker="first")
    places = stack.places
    for place in places:
        stack.stop_host(place, kill=True)

    def next_run() -> Plain | None:
        answer = poll(url, hidden=1)
        return answer if answer.has_message else None

    answer = eventually(next_run)
    assert time.time() > datetime.fromisoformat(first["takenUntil"]).timestamp() - 0.1
    assert [(body["taskId"], body["runId"]) for body in answer.bodies] == [(task_id, 1)]
    for place in places:
        stack.start_host(place)
    second = eventually(lambda: claims(alone, found.text, worker="second") if (found := find(alone)) else None)[0]
    assert (second["status"]["taskId"], second["runId"]) == (task_id, 1)
    alone.worker(second).reportCompleted(task_id, 1)
    assert [run["reasonResolved"] for run in alone.status(task_id)["runs"]] == ["claim-expired", "completed"]
    alone.events.expect(
        task_id,
        ("task-defined", None),
        *(("task-pending", run) for run in (0, 1)),
        *(("task-running", run) for run in (0, 1)),
        ("task-exception", 0),
        ("task-completed", 1),
        GROUP_RESOLVED,
    )
    counts = alone.queue.taskQueueCounts(alone.pool)
    assert (counts["pendingTasks"], counts["claimedTasks"]) == (0, 0)
