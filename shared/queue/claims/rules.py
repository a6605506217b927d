"""Claims as pure functions: polled messages, claiming, renewing, removed workers (design 4; contract 4.2, 5, 14.2)."""

from __future__ import annotations

from datetime import datetime
from enum import Enum, auto

from shared.base.errors import RequestConflict
from shared.base.frozen import dataclass, replace
from shared.base.protocol import ORPHAN_AFTER, REPEATS_RECOGNISED
from shared.queue.events import rules as announcements
from shared.queue.events.rules import TaskEvent
from shared.queue.tasks import effects, transitions
from shared.queue.tasks.effects import Ahead, Decision, NoDecision, pending_content, row_of
from shared.queue.tasks.rules import MessageHandle, Resolved, Run, State, Task, Worker


class Verdict(Enum):
    """The decision on a pending message that was polled (design 4, the table)."""

    REMOVE = auto()
    """The run is resolved, the deadline has passed, or the message does not count any more."""
    CLAIM = auto()
    """The last run is pending: claim it."""
    HIDE = auto()
    """The last run is claimed: hide the message until takenUntil."""
    CLAIM_NEXT = auto()
    """The claim of the last run has expired and a retry is left: resolve it and claim the next, in one commit."""
    EXHAUST = auto()
    """The claim of the last run has expired and no retry is left: resolve the task, then remove the message."""
    LATER = auto()
    """The message's commit may be under way: put it back for a while."""


def judge_message(task: Task | None, hint_id: str, age: float, now: datetime) -> Verdict:
    """Decides what to do with a message, perhaps an orphan, given its hintId and its age in seconds. Its run is a hint.
    Even if the task is resolved, a message may count: a rerun puts the message of its run before it is committed."""
    if task is not None and task.deadline <= now:
        return Verdict.REMOVE
    if task is None or not task.runs or task.hint_id != hint_id:
        return Verdict.LATER if age < ORPHAN_AFTER.total_seconds() else Verdict.REMOVE
    if task.is_resolved:
        return Verdict.REMOVE
    run = task.last_run
    if run.state is State.PENDING:
        return Verdict.CLAIM
    if run.taken_until is not None and run.taken_until > now:
        return Verdict.HIDE
    return Verdict.CLAIM_NEXT if task.retries_left > 0 else Verdict.EXHAUST


@dataclass(eq=False)
class NotClaimed(NoDecision):
    """The received message leads to no claim; the verdict says what becomes of it."""

    task: Task
    verdict: Verdict


def decide(
    task: Task, hint_id: str, age: float, worker: Worker, handle: MessageHandle, taken_until: datetime, now: datetime
) -> Decision:
    """Returns the decision on a received message, as of the time that its claim message names. Raises NotClaimed."""
    verdict = judge_message(task, hint_id, age, now)
    if verdict is Verdict.CLAIM:
        return claim(task, worker, handle, taken_until, now)
    if verdict is Verdict.CLAIM_NEXT:
        return claim_next(task, worker, handle, taken_until, now)
    if verdict is Verdict.EXHAUST:
        return exhaust(task, handle, now)
    raise NotClaimed(task, verdict)


def claim(task: Task, worker: Worker, handle: MessageHandle, taken_until: datetime, now: datetime) -> Decision:
    """Decides that the worker gets the pending last run. The polled message becomes the run's lease (contract 5.1)."""
    run_id = task.last_run_id
    after = _claimed(task, worker, taken_until, now)
    return Decision(
        task=after,
        ahead=(
            effects.PutClaim(task_id=task.task_id, run_id=run_id, taken_until=taken_until, started=now),
            # The received message becomes the lease: the next run's message, invisible until takenUntil.
            effects.TakeLease(handle=handle, content=pending_content(task, run_id + 1), visible=taken_until),
        ),
        events=(announcements.running(after, run_id),),
    )


def rows_ahead(task: Task, claimed: Task) -> effects.ChangePoolRows:
    """Returns the change of index rows ahead of a claim's commit. The row of an expired run goes afterwards."""
    run_id = claimed.last_run_id
    pending = (row_of(task, run_id),) if run_id == task.last_run_id else ()
    return effects.ChangePoolRows(remove=pending, add=(row_of(claimed, run_id),))


def claim_next(task: Task, worker: Worker, handle: MessageHandle, taken_until: datetime, now: datetime) -> Decision:
    """Resolves the last run, whose claim has expired, and claims its retry, in one commit (design 4)."""
    run_id = task.last_run_id
    retried = transitions.with_retry(task, run_id, Resolved.CLAIM_EXPIRED, now)
    decision = claim(retried, worker, handle, taken_until, now)
    expired = effects.ChangePoolRows(remove=(row_of(task, run_id),))
    return replace(
        decision,
        after=((expired,), transitions.remove_messages(task.handles.claim)),
        events=(
            *claim_of(task, run_id, now),
            announcements.exception(retried, run_id),
            announcements.pending(retried, run_id + 1),
            *decision.events,
        ),
    )


def exhaust(task: Task, handle: MessageHandle, now: datetime) -> Decision:
    """Resolves the task whose last run's claim has expired and that has no retry left, then removes the message."""
    decision = transitions.resolve(task, task.last_run_id, Resolved.CLAIM_EXPIRED, now)
    after = (transitions.remove_messages(task.handles.claim, handle),)
    return replace(announced_with_its_claim(task, task.last_run_id, decision, now), after=after)


def claim_by_task(
    task: Task, run_id: int, worker: Worker, taken_until: datetime, now: datetime, hint_id: str
) -> Decision:
    """Decides claimTask: like `claim`, but with a lease message of its own, since old workers delete the message that
    they polled. A repeat by the same worker changes nothing in the task, but is committed all the same. So if its first
    call is about to give it back, that commit is refused. If `run_id` is the next one after an expired run, the retry
    is claimed."""
    transitions.refuse_after_deadline(task, now)
    until = task.last_run.taken_until if task.state is State.RUNNING else None
    if run_id == task.last_run_id + 1 and until is not None and until <= now and task.retries_left > 0:
        expired = claim_next(task, worker, _NO_TICKET, taken_until, now)
        return _with_own_lease(expired, hint_id, taken_until)
    run = transitions.existing_run(task, run_id)
    if run_id != task.last_run_id:
        raise RequestConflict(f"run {run_id} of task {task.task_id} is not the last one")
    if run.by_claim_task and run.is_held_by(worker.worker_group, worker.worker_id):
        return Decision(task=task, events=(announcements.running(task, run_id),))
    if run.state is not State.PENDING:
        raise RequestConflict(f"run {run_id} of task {task.task_id} is {run.state.value}, not pending")
    return _with_own_lease(claim(task, worker, _NO_TICKET, taken_until, now), hint_id, taken_until)


_NO_TICKET = MessageHandle(queue="", message_id="", pop_receipt="")


def _with_own_lease(decision: Decision, hint_id: str, taken_until: datetime) -> Decision:
    task = decision.task
    assert task is not None
    run_id = task.last_run_id
    content = replace(pending_content(task, run_id + 1), hint_id=hint_id)
    lease = effects.PutPending(content=content, priority=task.priority, visible=taken_until)
    ahead: tuple[Ahead, ...] = tuple(effect for effect in decision.ahead if not isinstance(effect, effects.TakeLease))
    claimed = task.with_run(run_id, replace(task.last_run, by_claim_task=True))
    return replace(decision, task=replace(claimed, hint_id=hint_id), ahead=(*ahead, lease))


def reclaim(task: Task, run_id: int, taken_until: datetime, now: datetime, spare_hint_id: str) -> Decision:
    """Decides reclaimTask: takenUntil moves forward, not back. Both messages move before the commit (contract 5.4)."""
    run = transitions.existing_run(task, run_id)
    transitions.refuse_after_deadline(task, now)
    if run_id != task.last_run_id or run.state is not State.RUNNING:
        raise RequestConflict(f"run {run_id} of task {task.task_id} is {run.state.value}, not running as the last run")
    assert run.started is not None, "a running run has started"
    until = max(taken_until, run.taken_until or taken_until)
    return Decision(
        task=task.with_run(run_id, replace(run, taken_until=until)),
        ahead=(
            effects.PutClaim(
                task_id=task.task_id, run_id=run_id, taken_until=until, started=run.started, handle=task.handles.claim
            ),
            transitions.hold_pending(task, run_id + 1, spare_hint_id, until),
        ),
    )


def announced_with_its_claim(task: Task, run_id: int, decision: Decision, now: datetime) -> Decision:
    """Returns the decision with the event of the run's claim before that of its end: the former may be unsent."""
    return replace(decision, events=(*claim_of(task, run_id, now), *decision.events))


def claim_of(task: Task, run_id: int, now: datetime) -> tuple[TaskEvent, ...]:
    """Returns the taskRunning event of a run if duplicate detection still recognises its MessageId, else nothing. A
    claim that was made longer ago has been renewed since. So its worker had received it, after it was announced."""
    started = task.runs[run_id].started
    is_recent = started is not None and now - started < REPEATS_RECOGNISED
    return (announcements.running(task, run_id),) if is_recent else ()


def _claimed(task: Task, worker: Worker, taken_until: datetime, now: datetime) -> Task:
    run: Run = replace(
        task.last_run,
        state=State.RUNNING,
        worker_group=worker.worker_group,
        worker_id=worker.worker_id,
        taken_until=taken_until,
        started=now,
    )
    return task.with_run(task.last_run_id, run)


def worker_removed(task: Task, run_id: int, worker: Worker, now: datetime, spare_hint_id: str) -> Decision:
    """Ends the worker's run as `worker-shutdown`, retried while retries are left. If this has ended the run before, it
    is announced again. After the deadline, the deadline message ends it. If the worker is claiming the run at this
    moment, as an index row shows, the task is committed unchanged, so that the claim loses its race. Raises NoDecision
    for a run that is not the worker's, or has ended otherwise."""
    run = task.runs[run_id] if run_id <= task.last_run_id else None
    if not task.is_resolved and (run_id == task.last_run_id + 1 or (run is not None and run.state is State.PENDING)):
        return Decision(task=task)
    if run is None or (run.worker_group, run.worker_id) != (worker.worker_group, worker.worker_id):
        raise NoDecision(f"run {run_id} of task {task.task_id} is not the worker's")
    if run.reason_resolved is Resolved.WORKER_SHUTDOWN and run_id >= task.last_run_id - 1:
        return announced_with_its_claim(task, run_id, transitions.resolved_again(task, run_id, now), now)
    if run_id != task.last_run_id or run.state.is_resolved or task.deadline <= now:
        raise NoDecision(f"run {run_id} of task {task.task_id} is not running")
    return announced_with_its_claim(
        task, run_id, transitions.interrupt(task, run_id, Resolved.WORKER_SHUTDOWN, now, spare_hint_id), now
    )
