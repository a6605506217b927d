"""Telemetry of committed transitions: counters, lateness, one log line a run."""

from __future__ import annotations

import logging

from shared.domain.task import Resolved, Run, State, Task
from shared.telemetry.instruments import COMPLETED, EXCEPTION, FAILED, TIMER_LATENESS, WAITING
from shared.telemetry.meter import Meter

log = logging.getLogger("taskcluster.tasks")


def note_transition(meter: Meter, before: Task | None, after: Task) -> None:
    """To be called once for each commit; `before` is the task that it was decided on, None for a new one."""
    for run_id, run in enumerate(after.runs):
        known = before is not None and run_id <= before.last_run_id
        was = before.runs[run_id].state if before is not None and known else State.UNSCHEDULED
        if run.state is was:
            continue
        reason = run.reason_resolved.value if run.reason_resolved else run.reason_created.value
        log.info(
            "run %d of task %s is %s: %s",
            run_id,
            after.task_id,
            run.state.value,
            reason,
            extra={
                "action": f"run_{run.state.value}",
                "taskId": after.task_id,
                "runId": run_id,
                "taskQueueId": after.task_queue_id,
                "reason": reason,
            },
        )
        if run.state.is_resolved:
            _count(meter, after, run)
        elif run.state is State.RUNNING and run.started is not None:
            waited = (run.started - run.scheduled).total_seconds()
            meter.record(WAITING, waited, *after.task_queue_id.split("/", 1))


def _count(meter: Meter, task: Task, run: Run) -> None:
    assert run.reason_resolved is not None, "a resolved run has a reason"
    provisioner_id, worker_type = task.task_queue_id.split("/", 1)
    if run.state is State.COMPLETED:
        meter.add(COMPLETED, provisioner_id, worker_type)
        return
    counter = FAILED if run.state is State.FAILED else EXCEPTION
    meter.add(counter, provisioner_id, worker_type, run.reason_resolved.value)
    if run.resolved is None:
        return
    if run.reason_resolved is Resolved.CLAIM_EXPIRED and run.taken_until is not None:
        meter.record(TIMER_LATENESS, (run.resolved - run.taken_until).total_seconds(), "claim")
    elif run.reason_resolved is Resolved.DEADLINE_EXCEEDED:
        meter.record(TIMER_LATENESS, (run.resolved - task.deadline).total_seconds(), "deadline")
