"""How runs end: reports, their repeats, retries (contract 4.2 to 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.base.ids import new_slugid
from tests.host.service import Service, refused

REASONS = ["worker-shutdown", "malformed-payload", "resource-unavailable", "internal-error", "intermittent-task"]
RETRIED = {"worker-shutdown": "retry", "intermittent-task": "task-retry"}

REPORTS: dict[str, Callable[[Any, str, int], Any]] = {
    "completed": lambda queue, task_id, run_id: queue.reportCompleted(task_id, run_id),
    "failed": lambda queue, task_id, run_id: queue.reportFailed(task_id, run_id),
    **{
        reason: lambda queue, task_id, run_id, reason=reason: queue.reportException(  # type: ignore[misc]
            task_id, run_id, {"reason": reason}
        )
        for reason in REASONS
    },
}
STATES = {"completed": "completed", "failed": "failed", **dict.fromkeys(REASONS, "exception")}


@pytest.mark.parametrize("result", REPORTS)
def test_a_report_resolves_the_run(service: Service, result: str) -> None:
    claim = service.claimed(retries=0)
    task_id = claim["status"]["taskId"]
    status = REPORTS[result](service.worker(claim), task_id, 0)["status"]

    (run,) = status["runs"]
    assert status["state"] == run["state"] == STATES[result]
    assert run["reasonResolved"] == result
    assert run.keys() == {*claim["status"]["runs"][0], "reasonResolved", "resolved"}
    assert run["started"] <= run["resolved"]
    assert run["takenUntil"] == claim["takenUntil"]
    assert status == service.status(task_id)


@pytest.mark.parametrize("result", REPORTS)
def test_the_same_report_again_changes_nothing_and_others_are_conflicts(service: Service, result: str) -> None:
    claim = service.claimed(retries=0)
    task_id = claim["status"]["taskId"]
    first = REPORTS[result](service.worker(claim), task_id, 0)
    for other, report in REPORTS.items():
        if other == result:
            assert report(service.worker(claim), task_id, 0) == first
        else:
            with refused(409, "RequestConflict"):
                report(service.worker(claim), task_id, 0)
    assert service.status(task_id) == first["status"]


@pytest.mark.parametrize("result", REPORTS)
def test_only_the_running_last_run_can_be_reported(service: Service, result: str) -> None:
    report = REPORTS[result]
    with refused(404, "ResourceNotFound"):
        report(service.queue, new_slugid(), 0)
    task_id = service.create(priority="high")
    with refused(404, "ResourceNotFound"):
        report(service.queue, task_id, 1)
    with refused(409, "RequestConflict"):
        report(service.queue, task_id, 0)
    blocked = service.create(dependencies=[task_id])
    with refused(404, "ResourceNotFound"):
        report(service.queue, blocked, 0)
    (claim,) = service.claim()
    service.worker(claim).reportFailed(task_id, 0)
    service.queue.rerunTask(task_id)
    if result != "failed":
        with refused(409, "RequestConflict"):
            report(service.queue, task_id, 0)
    with refused(409, "RequestConflict"):
        report(service.queue, task_id, 1)
    assert service.status(task_id)["state"] == "pending"


@pytest.mark.parametrize("reason", REASONS)
def test_exceptions_with_retries_left(service: Service, reason: str) -> None:
    claim = service.claimed(retries=1)
    task_id = claim["status"]["taskId"]
    status = service.worker(claim).reportException(task_id, 0, {"reason": reason})["status"]

    first, *rest = status["runs"]
    assert (first["state"], first["reasonResolved"]) == ("exception", reason)
    if reason not in RETRIED:
        assert (status["state"], status["retriesLeft"], rest) == ("exception", 1, [])
        return
    (retry,) = rest
    assert (status["state"], status["retriesLeft"]) == ("pending", 0)
    assert (retry["runId"], retry["state"], retry["reasonCreated"]) == (1, "pending", RETRIED[reason])
    assert retry.keys() == {"runId", "state", "reasonCreated", "scheduled"}
    (claim,) = service.claim()
    assert (claim["status"]["taskId"], claim["runId"]) == (task_id, 1)
    status = service.worker(claim).reportException(task_id, 1, {"reason": reason})["status"]
    assert (status["state"], status["retriesLeft"], len(status["runs"])) == ("exception", 0, 2)


def test_the_legacy_way_to_report_a_failure(service: Service) -> None:
    """reportCompleted with `{"success": false}` (contract 2.4)."""
    for success, state in ((False, "failed"), (True, "completed")):
        task_id = service.claimed()["status"]["taskId"]
        answer = service.call("post", f"task/{task_id}/runs/0/completed", {"success": success})
        assert answer["status"]["state"] == state
