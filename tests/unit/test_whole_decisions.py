"""Decisions compared as a whole: every field of every effect that a command asks for, not only the kind of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.queue.events import rules as announcements
from shared.queue.tasks import transitions
from shared.queue.tasks.effects import (
    AddActive,
    AddPendingRow,
    Decision,
    PutDeadline,
    PutResolved,
    RemoveMessage,
    RewriteMember,
    SetRowPriority,
)
from shared.queue.tasks.rules import Created, MessageHandles, PriorityChange, Resolved, Run, State
from tests.unit.effects import (
    FIRST,
    POOL,
    change,
    ended,
    hold,
    pending_row,
    put_pending,
    retry,
    running_row,
    show,
)
from tests.unit.tasks import (
    ID,
    NOW,
    OTHER,
    a_task,
    handle,
    pending_run,
    resolved_run,
    running_run,
)


@pytest.mark.parametrize(
    ("reason", "created"), [(Resolved.WORKER_SHUTDOWN, Created.RETRY), (Resolved.INTERMITTENT_TASK, Created.TASK_RETRY)]
)
@pytest.mark.parametrize("known", [True, False])
def test_exception_that_is_retried(reason: Resolved, created: Created, known: bool) -> None:
    held = running_run(unfinished=("digest",))
    task = a_task(FIRST, held, retries_left=3)
    task = task if known else replace(task, handles=replace(task.handles, pending=None))
    runs = (FIRST, ended(held, reason), retry(created))
    after = replace(task, runs=runs, retries_left=2, handles=replace(task.handles, claim=None))
    assert transitions.report_exception(task, 1, reason, NOW, "spare") == Decision(
        task=after,
        ahead=() if known else (hold(2, None, pending=False),),
        after=(
            (change(running_row(task, 1, held), pending_row(task, 2, NOW)),),
            (*((show(2),) if known else ()), RemoveMessage(handle=handle("claim"))),
        ),
        events=(announcements.exception(after, 1), announcements.pending(after, 2)),
    )


def test_report_that_resolves() -> None:
    held = running_run()
    task = a_task(FIRST, held)
    runs = (FIRST, ended(held, Resolved.FAILED))
    after = replace(task, runs=runs, handles=MessageHandles(deadline=handle("deadline")))
    assert transitions.report(task, 1, Resolved.FAILED, NOW) == Decision(
        task=after,
        ahead=(PutResolved(task_id=ID, run_id=1),),
        after=((RemoveMessage(handle=handle("claim")), RemoveMessage(handle=handle("pending"))),),
        events=(announcements.resolved(after, 1),),
    )


@pytest.mark.parametrize("reason", [Resolved.CANCELED, Resolved.DEADLINE_EXCEEDED])
def test_end_of_a_task_that_waits(reason: Resolved) -> None:
    waits = pending_run()
    task = a_task(FIRST, waits)
    after = replace(task, runs=(FIRST, ended(waits, reason)), handles=MessageHandles(deadline=handle("deadline")))
    assert transitions.end(task, reason, NOW) == Decision(
        task=after,
        ahead=(PutResolved(task_id=ID, run_id=1),),
        after=((RemoveMessage(handle=handle("pending")), change(pending_row(task, 1, waits.scheduled))),),
        events=(announcements.resolved(after, 1),),
    )


def test_end_of_an_unscheduled_task() -> None:
    task = a_task(generation=2)
    run = Run(
        state=State.EXCEPTION,
        reason_created=Created.EXCEPTION,
        scheduled=NOW,
        generation=2,
        reason_resolved=Resolved.CANCELED,
        resolved=NOW,
    )
    after = replace(task, runs=(run,))
    assert transitions.end(task, Resolved.CANCELED, NOW) == Decision(
        task=after,
        ahead=(PutResolved(task_id=ID, run_id=0),),
        after=((RewriteMember(task_group_id=OTHER, task_id=ID),),),
        events=(announcements.resolved(after, 0),),
    )


def test_scheduling_a_task_adds_its_first_run() -> None:
    task = a_task(generation=2)
    run = Run(state=State.PENDING, reason_created=Created.SCHEDULED, scheduled=NOW, generation=2)
    after = replace(task, runs=(run,), hint_id="new")
    assert transitions.schedule(task, NOW, "new") == Decision(
        task=after,
        ahead=(put_pending(0, "new"), AddPendingRow(task_queue_id=POOL, row=pending_row(task, 0, NOW))),
        events=(announcements.pending(after, 0),),
    )


def test_rerun_opens_the_task_as_its_next_generation() -> None:
    task = a_task(FIRST, resolved_run(), retries_left=1, generation=2)
    run = Run(state=State.PENDING, reason_created=Created.RERUN, scheduled=NOW, generation=3)
    after = replace(task, runs=(*task.runs, run), generation=3, retries_left=5, hint_id="new")
    assert transitions.rerun(task, NOW, "new") == Decision(
        task=after,
        ahead=(
            put_pending(2, "new"),
            AddPendingRow(task_queue_id=POOL, row=pending_row(task, 2, NOW)),
            PutDeadline(task_id=ID, task_group_id=OTHER, scheduler_id="-", deadline=task.deadline),
            AddActive(task_group_id=OTHER, task_id=ID, generation=3),
        ),
        events=(announcements.pending(after, 2),),
    )


def test_renewal_of_a_message() -> None:
    task = a_task(FIRST, pending_run())
    assert transitions.renew_message(task, 1, "new") == Decision(
        task=replace(task, hint_id="new"),
        ahead=(put_pending(1, "new"),),
        after=((RemoveMessage(handle=handle("pending")),),),
    )


def test_change_of_the_priority_of_a_task_that_waits() -> None:
    waits = pending_run()
    task = a_task(FIRST, waits)
    change = PriorityChange(old="medium", at=NOW, sequence=task.sequence)
    after = replace(task, priority="high", prioritised=NOW, priority_change=change, hint_id="new")
    assert transitions.change_priority(task, "high", NOW, "new") == Decision(
        task=after,
        ahead=(
            replace(put_pending(1, "new"), priority="high"),
            SetRowPriority(task_queue_id=POOL, row=pending_row(task, 1, waits.scheduled), priority="high"),
        ),
        after=((RemoveMessage(handle=handle("pending")), RewriteMember(task_group_id=OTHER, task_id=ID)),),
        events=(announcements.priority_changed(after, change),),
    )
