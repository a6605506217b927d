"""A worker that is gone for good (contract 4.2, 14.2): pure."""

from __future__ import annotations

from datetime import datetime

from shared.domain.claims import Worker, announced_with_its_claim
from shared.domain.effects import Decision, NoDecision
from shared.domain.task import Resolved, State, Task
from shared.domain.transitions import interrupt, resolved_again


def worker_removed(task: Task, run_id: int, worker: Worker, now: datetime, spare_hint_id: str) -> Decision:
    """The worker's run ends as `worker-shutdown`, retried while retries are left.

    A run that was ended so before is announced again. After the deadline the deadline message handles it. One that the
    worker is just claiming, as its index row says, is kept from it: the task is committed unchanged.
    Raises NoDecision for a run that is not the worker's, or has come to another end.
    """
    run = task.runs[run_id] if run_id <= task.last_run_id else None
    if not task.is_resolved and (run_id == task.last_run_id + 1 or (run is not None and run.state is State.PENDING)):
        return Decision(task=task)
    if run is None or (run.worker_group, run.worker_id) != (worker.worker_group, worker.worker_id):
        raise NoDecision(f"run {run_id} of task {task.task_id} is not the worker's")
    if run.reason_resolved is Resolved.WORKER_SHUTDOWN and run_id >= task.last_run_id - 1:
        return announced_with_its_claim(task, run_id, resolved_again(task, run_id, now), now)
    if run_id != task.last_run_id or run.state.is_resolved or task.deadline <= now:
        raise NoDecision(f"run {run_id} of task {task.task_id} is not running")
    return announced_with_its_claim(
        task, run_id, interrupt(task, run_id, Resolved.WORKER_SHUTDOWN, now, spare_hint_id), now
    )
