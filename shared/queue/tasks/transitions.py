"""The state machine (contract 4), as pure functions: (task, command, now) to a decision, or an ApiError. A repeat that
changes nothing still yields the effects that repair and re-announce (design 5)."""

from __future__ import annotations

from datetime import datetime

from shared.base.errors import RequestConflict, ResourceNotFound
from shared.base.frozen import replace
from shared.base.priority import Priority
from shared.base.protocol import REPEATS_RECOGNISED
from shared.queue.events import rules as announcements
from shared.queue.tasks import effects, rules
from shared.queue.tasks.effects import After, Ahead, Decision, NoDecision, pending_content, row_of
from shared.queue.tasks.rules import Resolved, Run, State, Task


def schedule(task: Task, now: datetime, hint_id: str) -> Decision:
    """Decides scheduleTask: an unscheduled task gets its first run, whatever its dependencies (contract 2.4, 4.2)."""
    refuse_after_deadline(task, now)
    return make_pending(task, now, hint_id)


def satisfy(
    task: Task, now: datetime, hint_id: str, dependencies: int, resolved: datetime, *, at_deadline: bool = False
) -> Decision:
    """Satisfies dependencies, given as a bitmap, of which the last one was resolved at `resolved`. Schedules the task
    if none is left and it has no run yet (contract 6). A repeat announces the run again, unless it was scheduled so
    long before that this resolution is not the cause. A repeat that a deadline message has caused does so only while
    the event is recognised: the message that scheduled the run is handled until it has announced it (design 5)."""
    satisfied = replace(task, satisfied=task.satisfied | dependencies)
    if task.runs:
        scheduled = task.runs[0].scheduled
        is_late = at_deadline and now - scheduled >= REPEATS_RECOGNISED
        is_cause = resolved - scheduled < REPEATS_RECOGNISED / 2
        return make_pending(task, now, hint_id) if is_cause and not is_late else Decision(task=None)
    if task.deadline <= now:
        return Decision(task=None)
    if satisfied.is_free:
        return make_pending(satisfied, now, hint_id)
    return Decision(task=None if satisfied == task else satisfied)


def make_pending(task: Task, now: datetime, hint_id: str) -> Decision:
    """Gives an unscheduled task its first run. A repeat only announces that run again."""
    if task.runs:
        return Decision(task=None, events=announcements.pending_again(task, 0, now))
    after = with_first_run(task, now, hint_id)
    return Decision(task=after, ahead=put_pending_run(after, 0), events=(announcements.pending(after, 0),))


def with_first_run(task: Task, now: datetime, hint_id: str) -> Task:
    """Returns the task with its run 0 pending."""
    created = rules.Created.SCHEDULED
    run = Run(state=State.PENDING, reason_created=created, scheduled=now, generation=task.generation)
    return replace(task.with_run(0, run), hint_id=hint_id)


def report(task: Task, run_id: int, resolution: Resolved, now: datetime) -> Decision:
    """Decides reportCompleted and reportFailed (contract 4.4)."""
    run = existing_run(task, run_id)
    if run_id != task.last_run_id:
        raise RequestConflict(f"run {run_id} of task {task.task_id} is not the last one")
    if run.reason_resolved is resolution:
        return resolved_again(task, run_id, now)
    if run.state is not State.RUNNING:
        raise RequestConflict(f"run {run_id} of task {task.task_id} is {run.state.value}, not running")
    if resolution is Resolved.COMPLETED and run.unfinished:
        raise RequestConflict(f"run {run_id} of task {task.task_id} has `blob` artifacts that are not complete")
    return resolve(task, run_id, resolution, now)


def report_exception(task: Task, run_id: int, reason: Resolved, now: datetime, spare_hint_id: str) -> Decision:
    """Decides reportException: a retry for some reasons, while any is left, else a resolution (contract 4.3, 4.4)."""
    run = existing_run(task, run_id)
    if run.reason_resolved is reason and run_id >= task.last_run_id - 1:
        return resolved_again(task, run_id, now)
    if run_id != task.last_run_id or run.state is not State.RUNNING:
        raise RequestConflict(f"run {run_id} of task {task.task_id} is {run.state.value}, not running as the last run")
    return interrupt(task, run_id, reason, now, spare_hint_id)


def interrupt(task: Task, run_id: int, reason: Resolved, now: datetime, spare_hint_id: str) -> Decision:
    """Ends the running last run as an exception. It is retried if the reason allows it and a retry is left."""
    if reason in rules.RETRY_OF and task.retries_left > 0:
        return _retry(task, run_id, reason, now, spare_hint_id)
    return resolve(task, run_id, reason, now)


def _retry(task: Task, run_id: int, reason: Resolved, now: datetime, spare_hint_id: str) -> Decision:
    """Resolves the run and makes the next one pending, in one commit. The lease becomes the new run's message. The
    index rows move after the commit, before the lease is shown, and the claim message is removed last: until then its
    handler can repair the rows. So that of the new run need not be written ahead in a request of its own."""
    after = with_retry(task, run_id, reason, now)
    moved = effects.ChangePoolRows(remove=(row_of(after, run_id),), add=(row_of(after, run_id + 1),))
    ahead: tuple[Ahead, ...] = ()
    show: tuple[After, ...] = ()
    if task.handles.pending is None:
        ahead = (hold_pending(task, run_id + 1, spare_hint_id, None),)
    else:
        show = (effects.ShowPending(handle=task.handles.pending, content=pending_content(task, run_id + 1)),)
    return Decision(
        task=replace(after, handles=replace(task.handles, claim=None)),
        ahead=ahead,
        after=((moved,), (*show, *remove_messages(task.handles.claim))),
        events=(announcements.exception(after, run_id), announcements.pending(after, run_id + 1)),
    )


def with_retry(task: Task, run_id: int, reason: Resolved, now: datetime) -> Task:
    """Returns the task after its run was resolved for a reason that allows a retry, with the retry run pending."""
    resolved = ended(task.runs[run_id], reason, now)
    retry = Run(state=State.PENDING, reason_created=rules.RETRY_OF[reason], scheduled=now, generation=task.generation)
    after = task.with_run(run_id, resolved).with_run(run_id + 1, retry)
    return replace(after, retries_left=task.retries_left - 1)


def ended(run: Run, reason: Resolved, now: datetime) -> Run:
    """Returns the run as resolved. What only a running run needs is dropped, so that rows with many runs stay small."""
    return replace(run, state=reason.state, reason_resolved=reason, resolved=now, unfinished=())


def resolve(task: Task, run_id: int, resolution: Resolved, now: datetime) -> Decision:
    """Resolves the last run, and the task with it; messages of the run are removed after the commit."""
    after = task.with_run(run_id, ended(task.runs[run_id], resolution, now))
    after = replace(after, handles=rules.MessageHandles(deadline=task.handles.deadline))
    return Decision(
        task=after,
        ahead=(effects.PutResolved(task_id=task.task_id, run_id=run_id),),
        after=(remove_messages(task.handles.claim, task.handles.pending),),
        events=(announcements.resolved(after, run_id),),
    )


def resolved_again(task: Task, run_id: int, now: datetime) -> Decision:
    """Decides a repeated report: announces the resolution again as it was, and the retry run that followed, if any."""
    is_last = run_id == task.last_run_id
    return Decision(
        task=None,
        ahead=(effects.PutResolved(task_id=task.task_id, run_id=run_id),) if is_last else (),
        events=(
            announcements.resolved(task, run_id),
            *(() if is_last else announcements.pending_again(task, run_id + 1, now)),
        ),
    )


def cancel(task: Task, now: datetime) -> Decision:
    """Decides cancelTask: an unresolved task becomes exception/canceled (contract 2.4, 4.2)."""
    refuse_after_deadline(task, now)
    if task.is_resolved:
        if task.last_run.reason_resolved is Resolved.CANCELED:
            again = resolved_again(task, task.last_run_id, now)
            return replace(again, after=((rewrite_member(task),),))  # the first call may have died before this
        return Decision(task=None)
    return end(task, Resolved.CANCELED, now)


def end(task: Task, reason: Resolved, now: datetime) -> Decision:
    """Ends an unresolved task without a retry: canceled, or deadline-exceeded. An unscheduled one gets its run 0. The
    index row goes here, which a process that has seen the task unscheduled may have missed. So a task that had to wait
    shows the change in its member row."""
    run_id = max(task.last_run_id, 0)
    rows: tuple[After, ...] = (rewrite_member(task),) if task.dependencies or not task.runs else ()
    if not task.runs:
        run = Run(
            state=State.EXCEPTION, reason_created=rules.Created.EXCEPTION, scheduled=now, generation=task.generation
        )
        decision = resolve(task.with_run(0, run), 0, reason, now)
    else:
        decision = resolve(task, run_id, reason, now)
        rows += (effects.ChangePoolRows(remove=(row_of(task, run_id),)),)
    removals = decision.after[0]
    return replace(decision, after=((*removals, *rows),))


def rerun(task: Task, now: datetime, hint_id: str, number: int = 0, *, is_confirmed: bool = False) -> Decision:
    """Decides rerunTask: the task gets a next run with reasonCreated `rerun` and fresh retries (contract 4.2). A
    resolved task is opened again, as its next generation: its active row and its deadline message are written ahead. A
    pending or running task is confirmed as of a number of its group: a call that has cancelled the group before may
    still come to it. Unless the number `is_confirmed`, the commit counts once it is known to be the present one."""
    refuse_after_deadline(task, now)
    if task.state in {State.PENDING, State.RUNNING}:
        after = replace(task, opened_as_of=max(number, task.opened_as_of))
        confirmed = replace(rewrite_member(task), number=after.opened_as_of)
        return Decision(
            task=None if after == task else after,
            after=() if is_confirmed else ((confirmed,),),
            events=announcements.pending_again(task, task.last_run_id, now),
        )
    run_id = task.last_run_id + 1
    if run_id >= rules.MAX_RUNS:
        raise RequestConflict(f"task {task.task_id} has {len(task.runs)} runs already; {rules.MAX_RUNS} is the limit")
    generation = task.generation + task.is_resolved
    run = Run(state=State.PENDING, reason_created=rules.Created.RERUN, scheduled=now, generation=generation)
    after = replace(
        task.with_run(run_id, run),
        generation=generation,
        retries_left=min(task.retries, rules.MAX_RUNS - (run_id + 1)),
        hint_id=hint_id,
    )
    opened = (put_deadline(task), add_active(after)) if task.is_resolved else ()
    return Decision(
        task=after, ahead=(*put_pending_run(after, run_id), *opened), events=(announcements.pending(after, run_id),)
    )


def renew_message(task: Task, run_id: int, hint_id: str) -> Decision:
    """Gives a pending run a new message that counts from now on, because somebody hides its message or has deleted it.
    Raises NoDecision when the run is not pending any more."""
    if run_id != task.last_run_id or task.state is not State.PENDING:
        raise NoDecision(f"run {run_id} of task {task.task_id} is not pending")
    after = replace(task, hint_id=hint_id)
    return Decision(task=after, ahead=(put_pending(after, run_id),), after=(remove_messages(task.handles.pending),))


def change_priority(
    task: Task, priority: Priority, now: datetime, hint_id: str, number: int, *, is_confirmed: bool = False
) -> Decision:
    """Decides changeTaskPriority as of a number of the group. Unless the number `is_confirmed`, the commit counts once
    that number is known to be the present one. The change is refused for a task that was ever resolved, and if the task
    has the priority already. In the latter case it is announced and confirmed again: this may be the repeat of a call
    that died before it did so."""
    refuse_after_deadline(task, now)
    if task.is_resolved or task.generation > 0:
        raise RequestConflict(f"task {task.task_id} has been resolved")
    number = max(number, task.prioritised_as_of)
    rewritten: tuple[After, ...] = (replace(rewrite_member(task), number=None if is_confirmed else number),)
    if is_confirmed and task.state is State.RUNNING:
        rewritten = ()
    if task.priority != priority:
        return _with_priority(task, priority, now, hint_id, number, rewritten)
    after = replace(task, prioritised_as_of=number)
    return Decision(
        task=None if after == task else after,
        after=(rewritten,),
        events=announcements.priority_changed_again(task, now),
        refusal=RequestConflict(f"task {task.task_id} has priority {priority} already"),
    )


def _with_priority(
    task: Task, priority: Priority, now: datetime, hint_id: str, number: int, rewritten: tuple[After, ...]
) -> Decision:
    """Changes the priority. A pending run's message moves to the new band; a lease stays (contract 2.4)."""
    change = rules.PriorityChange(old=task.priority, at=now, sequence=task.sequence)
    after = replace(task, priority=priority, prioritised_as_of=number, priority_change=change)
    events = (*announcements.priority_changed_again(task, now), announcements.priority_changed(after, change))
    if task.state is not State.PENDING:
        return Decision(task=after, after=(rewritten,) if rewritten else (), events=events)
    after = replace(after, hint_id=hint_id)
    moved = effects.SetRowPriority(row=row_of(task, task.last_run_id), priority=priority)
    return Decision(
        task=after,
        ahead=(put_pending(after, task.last_run_id), moved),
        after=((*remove_messages(task.handles.pending), *rewritten),),
        events=events,
    )


def set_priority(task: Task, priority: Priority, now: datetime, hint_id: str, number: int) -> Decision:
    """Decides changeTaskGroupPriority for one task; `number` is the group's number that the call has raised. Several
    such calls may reach a task in any order, and the one with the highest number counts. So the task notes the number
    even if it has the priority already."""
    refuse_after_deadline(task, now)
    if task.is_resolved or task.generation > 0 or task.prioritised_as_of >= number:
        return Decision(task=None, events=announcements.priority_changed_again(task, now))
    if task.priority != priority:
        rewritten = () if task.state is State.RUNNING else (rewrite_member(task),)
        return _with_priority(task, priority, now, hint_id, number, rewritten)
    return Decision(
        task=replace(task, prioritised_as_of=number), events=announcements.priority_changed_again(task, now)
    )


def cancel_by_group(task: Task, now: datetime, number: int) -> Decision:
    """Decides cancelTaskGroup for one task; `number` is the group's number that the call has raised. The task is
    cancelled as by cancelTask, unless it was opened since. The number is noted: a later rerun is likely to find it as
    the present one. Raises NoDecision."""
    if not task.is_resolved and task.opened_as_of >= number:
        raise NoDecision(f"task {task.task_id} was opened after the call")
    decision = cancel(task, now)
    after = decision.task
    return decision if after is None else replace(decision, task=replace(after, opened_as_of=number))


def hold_pending(task: Task, run_id: int, spare_hint_id: str, visible: datetime | None) -> effects.HoldPending:
    """Returns the effect that makes the task's pending message one for `run_id`, `visible` then (None: at once)."""
    return effects.HoldPending(
        handle=task.handles.pending,
        content=pending_content(task, run_id),
        priority=task.priority,
        spare_hint_id=spare_hint_id,
        visible=visible,
    )


def put_pending_run(task: Task, run_id: int) -> tuple[Ahead, ...]:
    """Returns the effects that write what a run needs before it becomes pending: its message and its index row."""
    return put_pending(task, run_id), effects.AddPendingRow(row=row_of(task, run_id))


def put_pending(task: Task, run_id: int) -> effects.PutPending:
    """Returns a pending message for a run of the task, under the task's hintId."""
    return effects.PutPending(content=pending_content(task, run_id), priority=task.priority)


def put_deadline(task: Task) -> effects.PutDeadline:
    """Returns the task's deadline message."""
    return effects.PutDeadline(
        task_id=task.task_id, task_group_id=task.task_group_id, scheduler_id=task.scheduler_id, deadline=task.deadline
    )


def add_active(task: Task) -> effects.AddActive:
    """Returns the task's active row in its group, of its generation."""
    return effects.AddActive(
        task_group_id=task.task_group_id,
        task_id=task.task_id,
        generation=task.generation,
        number=max(task.opened_as_of, task.prioritised_as_of),
    )


def rewrite_member(task: Task) -> effects.RewriteMember:
    """Returns the effect by which listings of the group see that a task has changed, unless it runs (design 11)."""
    return effects.RewriteMember(task_group_id=task.task_group_id, task_id=task.task_id)


def remove_messages(*handles: rules.MessageHandle | None) -> tuple[After, ...]:
    """Returns effects that remove the given messages, as far as they exist."""
    return tuple(effects.RemoveMessage(handle=handle) for handle in handles if handle is not None)


def existing_run(task: Task, run_id: int) -> Run:
    """Returns the run of that number. Raises ResourceNotFound."""
    if run_id > task.last_run_id:
        raise ResourceNotFound(f"task {task.task_id} has no run {run_id}")
    return task.runs[run_id]


def refuse_after_deadline(task: Task, now: datetime) -> None:
    """Raises RequestConflict at or after the deadline (contract 4.4)."""
    if task.deadline <= now:
        raise RequestConflict(f"the deadline of task {task.task_id} has passed")
