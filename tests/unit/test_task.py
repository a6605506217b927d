"""Tasks and runs as the contract shows them (contract 4.1)."""

from __future__ import annotations

from shared.queue.tasks.rules import Resolved
from tests.unit.tasks import a_task, pending_run, resolved_run


def test_a_run_is_shown_with_what_it_has() -> None:
    waits = {"runId": 1, "state": "pending", "reasonCreated": "scheduled", "scheduled": "2026-03-01T11:59:00.000Z"}
    assert pending_run(generation=3, by_claim_task=True, unfinished=("digest",)).as_json(1) == waits
    assert resolved_run(Resolved.FAILED).as_json(1) == {
        **waits,
        "state": "failed",
        "reasonResolved": "failed",
        "workerGroup": "group",
        "workerId": "worker",
        "takenUntil": "2026-03-01T12:19:30.000Z",
        "started": "2026-03-01T11:59:30.000Z",
        "resolved": "2026-03-01T11:59:59.000Z",
    }


def test_a_task_is_shown_with_its_runs() -> None:
    task = a_task(resolved_run(), pending_run(), retries_left=4, project_id="project", scheduler_id="scheduler")
    assert task.as_json() == {
        "taskId": task.task_id,
        "provisionerId": "provisioner",
        "workerType": "pool",
        "taskQueueId": "provisioner/pool",
        "schedulerId": "scheduler",
        "projectId": "project",
        "taskGroupId": task.task_group_id,
        "priority": "medium",
        "deadline": "2026-03-01T13:00:00.000Z",
        "expires": "2026-03-02T12:00:00.000Z",
        "retriesLeft": 4,
        "state": "pending",
        "runs": [task.runs[0].as_json(0), task.runs[1].as_json(1)],
    }
