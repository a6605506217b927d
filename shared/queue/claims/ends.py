"""How claims end without a report, as pure functions: they expire, or are returned (design 4, contract 5)."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.base.frozen import dataclass, replace
from shared.base.protocol import LATEST_COMMIT, ORPHAN_AFTER
from shared.queue.claims.rules import announced_with_its_claim
from shared.queue.events import rules as announcements
from shared.queue.tasks import effects, transitions
from shared.queue.tasks.effects import After, Decision, NoDecision, pending_content, row_of
from shared.queue.tasks.rules import RETRY_OF, Resolved, State, Task, UndeliveredClaim


@dataclass(eq=False)
class NotExpired(NoDecision):
    """A due claim message finds nothing to expire."""

    again: datetime | None
    """The time at which the claim is to be handled again; None: never."""


def expire(task: Task, run_id: int, put: datetime, now: datetime, spare_hint_id: str, started: datetime) -> Decision:
    """Decides what to do for a due claim message that was put at `put` (design 4). `started` is the start of its claim.

    If takenUntil has passed, the claim expires; after the deadline, the deadline message handles it. If it was never
    committed, its index row is given back, once no request of it can take effect any more.

    If the run was retried or exhausted before, its rows are put right and its events announced again: an earlier
    handler may have died. If it was resolved otherwise, it is followed up again, without its event. Raises
    NotExpired."""
    run = task.runs[run_id] if run_id <= task.last_run_id else None
    if run is None or run.started != started:
        if now - put < ORPHAN_AFTER:
            raise NotExpired(now + _LOOK_AGAIN if now - put < LATEST_COMMIT else put + ORPHAN_AFTER)
        return Decision(task=None, after=((returned(task, run_id, started),),))
    if run.state is State.RUNNING and run.taken_until is not None:
        if task.deadline <= now:
            raise NotExpired(None)
        if run.taken_until > now:
            raise NotExpired(run.taken_until)
        return announced_with_its_claim(task, run_id, _expired(task, run_id, now, spare_hint_id), now)
    if run_id < task.last_run_id and task.runs[run_id + 1].reason_created in RETRY_OF.values():
        return announced_with_its_claim(task, run_id, _audit_retried(task, run_id), now)
    if run_id < task.last_run_id:
        raise NotExpired(None)
    again = transitions.resolved_again(task, run_id, now)
    if run.reason_resolved is Resolved.CLAIM_EXPIRED:
        return announced_with_its_claim(task, run_id, again, now)
    return replace(again, events=())


_LOOK_AGAIN = timedelta(seconds=2)
"""Delay after which a claim message is handled again if the commit of its claim may be under way."""


def _expired(task: Task, run_id: int, now: datetime, spare_hint_id: str) -> Decision:
    decision = transitions.interrupt(task, run_id, Resolved.CLAIM_EXPIRED, now, spare_hint_id)
    if decision.task is None or decision.task.is_resolved:
        return decision
    # The row is written ahead of the commit, since the message is visible at once and the new run could be claimed.
    row = effects.AddPendingRow(row=row_of(decision.task, run_id + 1))
    rows = effects.ChangePoolRows(remove=(row_of(task, run_id),))
    return replace(
        decision, ahead=(transitions.hold_pending(task, run_id + 1, spare_hint_id, None), row), after=((rows,),)
    )


def _audit_retried(task: Task, run_id: int) -> Decision:
    """Removes the index row of a retried run; restores that of its retry if the retry is pending."""
    next_id = run_id + 1
    is_pending = next_id == task.last_run_id and task.state is State.PENDING
    rows = effects.ChangePoolRows(remove=(row_of(task, run_id),), add=(row_of(task, next_id),) if is_pending else ())
    events = (announcements.exception(task, run_id), announcements.pending(task, next_id))
    return Decision(task=None, after=((rows,),), events=events)


def take_back(task: Task, claim: UndeliveredClaim, visible: datetime | None = None) -> Decision:
    """Undoes an undelivered claim: the run is pending again without a retry, at once or at the time `visible`.

    The claim message is removed last: until then its handler can repair the index rows.

    If the task's status does not have the claim, the claim's index row is given back. If the claim's commit may still
    be under way, the task is committed unchanged, so that the claim's commit is refused. Raises NoDecision if the run
    must not be given back any more."""
    run_id, worker = claim.run_id, claim.worker
    run = task.runs[run_id] if run_id <= task.last_run_id else None
    if task.sequence < claim.sequence or run is None or run.started != claim.started:
        rows = (returned(task, run_id, claim.started),)
        return Decision(task=task if task.sequence < claim.sequence else None, after=(rows,))
    if run_id < task.last_run_id or not run.is_held_by(worker.worker_group, worker.worker_id):
        raise NoDecision(f"run {run_id} of task {task.task_id} is not the worker's")
    if run.taken_until != claim.taken_until:
        raise NoDecision(f"run {run_id} of task {task.task_id} was claimed again")
    if run.by_claim_task and task.sequence != claim.sequence:
        raise NoDecision(
            f"run {run_id} of task {task.task_id} may have been given to its worker by a repeated claimTask"
        )
    after = _unclaimed(task, run_id)
    row = effects.ReturnRow(claimed=row_of(task, run_id), pending=row_of(after, run_id))
    handle = task.handles.pending
    show: tuple[After, ...] = ()
    if handle is not None:
        show = (effects.ShowPending(handle=handle, content=pending_content(task, run_id), visible=visible),)
    return Decision(
        task=replace(after, handles=replace(task.handles, claim=None)),
        after=((row, *show), transitions.remove_messages(task.handles.claim)),
    )


def returned(task: Task, run_id: int, started: datetime, claim_id: str = "") -> effects.ReturnRow:
    """Replaces the index row of a claim that failed by that of the pending run, if the run is pending in `task`."""
    is_pending = run_id == task.last_run_id and task.state is State.PENDING
    claimed = effects.PoolRow(
        task_queue_id=task.task_queue_id,
        state=State.RUNNING,
        scheduled=started,
        started=started,
        task_id=task.task_id,
        run_id=run_id,
        priority=task.priority,
        deadline=task.deadline,
        claim_id=claim_id,
    )
    pending = row_of(task, run_id) if is_pending else None
    return effects.ReturnRow(claimed=claimed, pending=pending)


def _unclaimed(task: Task, run_id: int) -> Task:
    """Returns the task as it was before that run was claimed."""
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
