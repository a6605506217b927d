"""What happens by itself: claims expire, deadlines pass (contract 4.2)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from shared.base.dates import parse_date
from tests.host.conftest import HASTY_CLAIM_SECONDS
from tests.host.service import Service, in_future, refused

ME = {"workerGroup": "g", "workerId": "w"}


def reasons(status: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(run["reasonCreated"], run.get("reasonResolved")) for run in status["runs"]]


def test_a_claim_that_is_not_renewed_expires_and_is_retried(hasty: Service) -> None:
    """Without a poller: the timer alone does it."""
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


def test_a_poller_at_the_time_a_claim_expires_gets_the_retry(hasty: Service) -> None:
    """The message reappears at takenUntil; it or the timer comes first, and there is one retry either way."""
    task_id = hasty.claimed()["status"]["taskId"]
    (claim,) = hasty.claim()
    assert (claim["status"]["taskId"], claim["runId"]) == (task_id, 1)
    assert reasons(claim["status"]) == [("scheduled", "claim-expired"), ("retry", None)]
    assert hasty.worker(claim).reportCompleted(task_id, 1)["status"]["retriesLeft"] == 4


def test_a_claim_that_is_renewed_lasts(hasty: Service) -> None:
    claim = hasty.claimed()
    task_id = claim["status"]["taskId"]
    started, renewed = time.monotonic(), claim
    while time.monotonic() - started < 2.5 * HASTY_CLAIM_SECONDS:
        renewed = hasty.worker(renewed).reclaimTask(task_id, 0)
        time.sleep(0.3)
    assert hasty.worker(renewed).reportCompleted(task_id, 0)["status"]["state"] == "completed"
    assert hasty.queue.claimWork(hasty.pool, ME) == {"tasks": []}


def test_a_claim_by_task_expires_as_well(hasty: Service) -> None:
    task_id = hasty.create(retries=1)
    hasty.queue.claimTask(task_id, 0, ME)
    (claim,) = hasty.claim()
    assert (claim["status"]["taskId"], claim["runId"]) == (task_id, 1)


def test_a_run_that_was_reported_does_not_expire(hasty: Service) -> None:
    claim = hasty.claimed()
    task_id = claim["status"]["taskId"]
    hasty.worker(claim).reportCompleted(task_id, 0)
    other = hasty.claimed()["status"]["taskId"]
    hasty.wait_for(other, "pending")
    assert reasons(hasty.status(task_id)) == [("scheduled", "completed")]


@pytest.mark.parametrize("state", ["unscheduled", "pending", "running"])
def test_a_deadline_ends_what_is_not_resolved(hasty: Service, state: str) -> None:
    """Also before a claim that is renewed expires, and without a retry."""
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


def test_a_deadline_leaves_what_is_resolved(hasty: Service) -> None:
    deadline = in_future(4)
    task_id, open_one = hasty.create(deadline=deadline), hasty.create(deadline=deadline)
    status = hasty.queue.cancelTask(task_id)["status"]
    hasty.wait_for(open_one, "exception")
    assert hasty.status(task_id) == status


def test_the_deadline_wins_over_an_expired_claim(hasty: Service) -> None:
    """takenUntil lies just before the deadline, or behind it: no retry after the deadline (trap 15)."""
    task_id = hasty.claimed(deadline=in_future(HASTY_CLAIM_SECONDS - 0.3))["status"]["taskId"]
    status = hasty.wait_for(task_id, "exception")
    assert reasons(status) == [("scheduled", "deadline-exceeded")]


def test_a_rerun_has_the_deadline_again(hasty: Service) -> None:
    claim = hasty.claimed(deadline=in_future(4))
    task_id = claim["status"]["taskId"]
    hasty.worker(claim).reportFailed(task_id, 0)
    hasty.queue.rerunTask(task_id)
    status = hasty.wait_for(task_id, "exception")
    assert reasons(status) == [("scheduled", "failed"), ("rerun", "deadline-exceeded")]
