"""How claims end without a report, as pure functions: they expire, or are returned (design 4, contract 5)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from shared.domain import announcements
from shared.domain.claims import Worker, announced_with_its_claim, removal
from shared.domain.effects import (
    AddPendingRow,
    After,
    ChangePoolRows,
    Decision,
    NoDecision,
    PoolRow,
    ShowPending,
    row_of,
)
from shared.domain.protocol import LATEST_COMMIT
from shared.domain.task import RETRY_OF, Resolved, State, Task
from shared.domain.transitions import hold_pending, interrupt, resolved_again


class NotExpired(NoDecision):
    """A due claim message finds nothing to expire; `again` is when to look again, None never."""

    def __init__(self, again: datetime | None) -> None:
        super().__init__(str(again))
        self.again = again


def expire(task: Task, run_id: int, put: datetime, now: datetime, spare_hint_id: str) -> Decision:
    """A claim message, put at that time, is due (design 4): the claim expires if it was not renewed.

    After the deadline the deadline message handles an expired claim. A run that was retried or exhausted before has
    its index rows put right and its events announced again, since its claim message goes only after them.
    Raises NotExpired.
    """
    run = task.runs[run_id] if run_id <= task.last_run_id else None
    if run is None or run.state is State.PENDING:
        raise NotExpired(now + _LOOK_AGAIN if now - put < LATEST_COMMIT else None)
    if run.state is State.RUNNING and run.taken_until is not None:
        if task.deadline <= now:
            raise NotExpired(None)
        if run.taken_until > now:
            raise NotExpired(run.taken_until)
        return announced_with_its_claim(task, run_id, _expired(task, run_id, now, spare_hint_id), now)
    if run_id < task.last_run_id and task.runs[run_id + 1].reason_created in RETRY_OF.values():
        return announced_with_its_claim(task, run_id, _audit_retried(task, run_id), now)
    if run.reason_resolved is Resolved.CLAIM_EXPIRED and run_id == task.last_run_id:
        return announced_with_its_claim(task, run_id, resolved_again(task, run_id, now), now)
    raise NotExpired(None)


_LOOK_AGAIN = timedelta(seconds=2)
"""A claim message whose claim may be about to commit is looked at again after this."""


def _expired(task: Task, run_id: int, now: datetime, spare_hint_id: str) -> Decision:
    decision = interrupt(task, run_id, Resolved.CLAIM_EXPIRED, now, spare_hint_id)
    if decision.task is None or decision.task.is_resolved:
        return decision
    # The message is visible from now on, so the new run's row is there before anybody can claim it.
    row = AddPendingRow(task_queue_id=task.task_queue_id, row=row_of(decision.task, run_id + 1))
    rows = ChangePoolRows(task_queue_id=task.task_queue_id, remove=(row_of(task, run_id),))
    return replace(decision, ahead=(hold_pending(task, run_id + 1, spare_hint_id, None), row), after=((rows,),))


def _audit_retried(task: Task, run_id: int) -> Decision:
    """The row of the run goes; its retry, while it is not resolved, has its own, whatever its claim has written."""
    next_id = run_id + 1
    gone: tuple[PoolRow, ...] = (row_of(task, run_id),)
    is_there = next_id == task.last_run_id and not task.is_resolved
    if is_there and task.state is State.RUNNING:
        gone += (row_of(unclaimed(task, next_id), next_id),)
    rows = ChangePoolRows(
        task_queue_id=task.task_queue_id, remove=gone, add=(row_of(task, next_id),) if is_there else ()
    )
    events = (announcements.exception(task, run_id), announcements.pending(task, next_id))
    return Decision(task=None, after=((rows,),), events=events)


def hand_back(task: Task, run_id: int, worker: Worker, taken_until: datetime, sequence: int) -> Decision:
    """Undoes a claim, committed as that `sequence`, that no worker has received: the run is pending again, at once and
    without a retry.

    So a worker that was quarantined, removed, or has called again while its claim was made does not delay the task.
    The index rows have been put right before. Raises NoDecision when the run is not in that claim any more.
    """
    run = task.runs[run_id]
    if run_id != task.last_run_id or not run.is_held_by(worker.worker_group, worker.worker_id):
        raise NoDecision(f"run {run_id} of task {task.task_id} is not the worker's")
    if run.taken_until != taken_until:
        raise NoDecision(f"run {run_id} of task {task.task_id} was claimed again")
    if run.by_claim_task and task.sequence != sequence:
        raise NoDecision(
            f"run {run_id} of task {task.task_id} may have been given to its worker by a repeated claimTask"
        )
    after = unclaimed(task, run_id)
    handle = task.handles.pending
    show: tuple[After, ...] = ()
    if handle is not None:
        show = (
            ShowPending(
                handle=handle,
                task_queue_id=task.task_queue_id,
                task_id=task.task_id,
                run_id=run_id,
                hint_id=task.hint_id,
            ),
        )
    return Decision(
        task=replace(after, handles=replace(task.handles, claim=None)),
        after=((*show, *removal(task.handles.claim)),),
    )


def unclaimed(task: Task, run_id: int) -> Task:
    """The task as it was before that run was claimed."""
    pending = replace(
        task.runs[run_id],
        state=State.PENDING,
        worker_group=None,
        worker_id=None,
        taken_until=None,
        started=None,
        by_claim_task=False,
    )
    return task.with_run(run_id, pending)
