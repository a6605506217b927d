"""Claims expire and deadlines pass without a call (contract 4.2)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.base.dates import parse_date
from tests.promises.host.service import Service, in_future, refused


def reasons(status: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(run["reasonCreated"], run.get("reasonResolved")) for run in status["runs"]]


def test_a_claim_that_is_not_renewed_expires_and_is_retried(hasty: Service) -> None:
    """A claim that is not renewed expires, and its run is retried, by the timer alone, without a poller."""
    claim = hasty.claimed(retries=1)
    task_id, worker = claim["status"]["taskId"], hasty.worker(claim)
    status = hasty.wait_for(task_id, "pending")

    assert reasons(status) == [("scheduled", "claim-expired"), ("retry", None)]
    assert status["retriesLeft"] == 0
    first, retry = status["runs"]
    assert parse_date(first["resolved"]) >= parse_date(first["takenUntil"])
    assert first["resolved"] == retry["scheduled"]
    for call in (worker.reclaimTask, worker.reportCompleted, worker.reportFailed):
        with refused(409, "RequestConflict"):
            call(task_id, 0)
    (claim,) = hasty.claim()
    assert (claim["status"]["taskId"], claim["runId"]) == (task_id, 1)
    status = hasty.wait_for(task_id, "exception")
    assert reasons(status) == [("scheduled", "claim-expired"), ("retry", "claim-expired")]


@pytest.mark.parametrize("state", ["unscheduled", "pending", "running"])
def test_a_deadline_ends_what_is_not_resolved(hasty: Service, state: str) -> None:
    """A deadline ends a task that is not resolved, also before a renewed claim expires, and without a retry."""
    deadline = in_future(1.2)
    required = [hasty.create()] if state == "unscheduled" else []
    task_id = hasty.create(deadline=deadline, dependencies=required, priority="high")
    if state == "running":
        (claim,) = hasty.claim()
    status = hasty.wait_for(task_id, "exception")

    (run,) = status["runs"]
    assert run["reasonResolved"] == "deadline-exceeded"
    assert run["resolved"] >= deadline
    assert status["retriesLeft"] == 5
    assert ("workerId" in run) == (state == "running")
    if state == "running":
        with refused(409, "RequestConflict"):
            hasty.worker(claim).reclaimTask(task_id, 0)
