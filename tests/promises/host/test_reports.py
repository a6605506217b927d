"""How runs end: reports, their repeats, retries (contract 4.2 to 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.base.ids import new_slugid
from tests.promises.host.service import Service, refused

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


def test_the_legacy_way_to_report_a_failure(service: Service) -> None:
    """A failure can be reported the old way: reportCompleted with `{"success": false}` (contract 2.4)."""
    for success, state in ((False, "failed"), (True, "completed")):
        task_id = service.claimed()["status"]["taskId"]
        answer = service.call("post", f"task/{task_id}/runs/0/completed", {"success": success})
        assert answer["status"]["state"] == state
