"""Decisions compared as a whole: every field of every effect that a command asks for, not only the kind of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from shared.domain import announcements, claim_ends, claims, transitions
from shared.domain.claims import Worker
from shared.domain.effects import (
    AddActive,
    AddPendingRow,
    ChangePoolRows,
    Decision,
    HoldPending,
    MoveClaim,
    NoDecision,
    PoolRow,
    PutClaim,
    PutDeadline,
    PutPending,
    PutResolved,
    RemoveMessage,
    RewriteMember,
    SetRowPriority,
    ShowPending,
    TakeLease,
)
from shared.domain.task import Created, MessageHandles, Resolved, Run, State, Task
from tests.unit.tasks import (
    CLAIM_TIMEOUT,
    ID,
    NOW,
    OTHER,
    SECOND,
    a_task,
    handle,
    pending_run,
    resolved_run,
    running_run,
)

POOL = "provisioner/pool"
ME = Worker(worker_group="mine", worker_id="me")
HAND = handle("in-hand")
UNTIL = NOW + CLAIM_TIMEOUT
FIRST = resolved_run(Resolved.WORKER_SHUTDOWN)
"""A run before the one that a command is about, so that no number of a run is 0."""
EXPIRED = running_run(taken_until=NOW, unfinished=("digest",))
MINE: dict[str, Any] = {
    "state": State.RUNNING,
    "worker_group": "mine",
    "worker_id": "me",
    "taken_until": UNTIL,
    "started": NOW,
}


def ended(run: Run, reason: Resolved) -> Run:
    return replace(run, state=reason.state, reason_resolved=reason, resolved=NOW, unfinished=())


def retry(reason: Created = Created.RETRY) -> Run:
    return Run(state=State.PENDING, reason_created=reason, scheduled=NOW, generation=0)


def pending_row(task: Task, run_id: int, scheduled: datetime) -> PoolRow:
    return PoolRow(
        state=State.PENDING,
        scheduled=scheduled,
        task_id=ID,
        run_id=run_id,
        priority=task.priority,
        deadline=task.deadline,
    )


def running_row(task: Task, run_id: int, run: Run) -> PoolRow:
    assert run.started is not None
    return PoolRow(
        state=State.RUNNING,
        scheduled=run.scheduled,
        started=run.started,
        task_id=ID,
        run_id=run_id,
        priority=task.priority,
        deadline=task.deadline,
        worker_group=run.worker_group or "",
        worker_id=run.worker_id or "",
    )


def put_pending(run_id: int, hint_id: str, visible: datetime | None = None) -> PutPending:
    return PutPending(
        task_queue_id=POOL, priority="medium", task_id=ID, run_id=run_id, hint_id=hint_id, visible=visible
    )


def hold(run_id: int, visible: datetime | None, pending: bool = True) -> HoldPending:
    return HoldPending(
        handle=handle("pending") if pending else None,
        task_queue_id=POOL,
        priority="medium",
        task_id=ID,
        run_id=run_id,
        hint_id="hint",
        spare_hint_id="spare",
        visible=visible,
    )


def show(run_id: int) -> ShowPending:
    return ShowPending(handle=handle("pending"), task_queue_id=POOL, task_id=ID, run_id=run_id, hint_id="hint")


def change(remove: PoolRow, *add: PoolRow) -> ChangePoolRows:
    return ChangePoolRows(task_queue_id=POOL, remove=(remove,), add=add)


def test_claim_of_a_pending_run() -> None:
    waits = pending_run()
    task = a_task(FIRST, waits)
    claimed = replace(waits, **MINE)
    after = replace(task, runs=(FIRST, claimed))
    assert claims.claim(task, ME, HAND, UNTIL, NOW) == Decision(
        task=after,
        ahead=(
            PutClaim(task_id=ID, run_id=1, taken_until=UNTIL),
            TakeLease(handle=HAND, task_queue_id=POOL, task_id=ID, run_id=2, hint_id="hint", visible=UNTIL),
        ),
        after=((change(pending_row(task, 1, waits.scheduled), running_row(task, 1, claimed)),),),
        events=(announcements.running(after, 1),),
    )


def test_claim_of_the_run_after_an_expired_one() -> None:
    task = a_task(FIRST, EXPIRED, retries_left=3)
    over = ended(EXPIRED, Resolved.CLAIM_EXPIRED)
    retried = replace(task, runs=(FIRST, over, retry()), retries_left=2)
    claimed = replace(retry(), **MINE)
    after = replace(retried, runs=(FIRST, over, claimed))
    assert claims.claim_next(task, ME, HAND, UNTIL, NOW) == Decision(
        task=after,
        ahead=(
            PutClaim(task_id=ID, run_id=2, taken_until=UNTIL),
            TakeLease(handle=HAND, task_queue_id=POOL, task_id=ID, run_id=3, hint_id="hint", visible=UNTIL),
        ),
        after=(
            (change(running_row(task, 1, EXPIRED), running_row(task, 2, claimed)),),
            (RemoveMessage(handle=handle("claim")),),
        ),
        events=(
            announcements.running(task, 1),
            announcements.exception(retried, 1),
            announcements.pending(retried, 2),
            announcements.running(after, 2),
        ),
    )


def test_claim_that_exhausts_the_retries() -> None:
    task = a_task(FIRST, EXPIRED, retries_left=0)
    after = replace(
        task,
        runs=(FIRST, ended(EXPIRED, Resolved.CLAIM_EXPIRED)),
        handles=MessageHandles(deadline=handle("deadline")),
    )
    assert claims.exhaust(task, HAND, NOW) == Decision(
        task=after,
        ahead=(PutResolved(task_id=ID, run_id=1),),
        after=((RemoveMessage(handle=handle("claim")), RemoveMessage(handle=HAND)),),
        events=(announcements.running(task, 1), announcements.resolved(after, 1)),
    )


def test_claim_by_task_id() -> None:
    waits = pending_run()
    task = a_task(FIRST, waits)
    claimed = replace(waits, by_claim_task=True, **MINE)
    after = replace(task, runs=(FIRST, claimed), hint_id="own")
    assert claims.claim_by_task(task, 1, ME, UNTIL, NOW, "own") == Decision(
        task=after,
        ahead=(PutClaim(task_id=ID, run_id=1, taken_until=UNTIL), put_pending(2, "own", UNTIL)),
        after=((change(pending_row(task, 1, waits.scheduled), running_row(task, 1, claimed)),),),
        events=(announcements.running(after, 1),),
    )


def test_claim_by_task_id_of_the_run_after_an_expired_one_has_one_lease() -> None:
    task = a_task(FIRST, EXPIRED)
    decision = claims.claim_by_task(task, 2, ME, UNTIL, NOW, "own")
    assert decision.task is not None
    assert decision.task.last_run == replace(retry(), by_claim_task=True, **MINE)
    assert decision.ahead == (PutClaim(task_id=ID, run_id=2, taken_until=UNTIL), put_pending(3, "own", UNTIL))


@pytest.mark.parametrize("taken_until", [NOW, UNTIL + SECOND], ids=["forward", "not back"])
def test_reclaim_moves_claim_and_lease_and_never_back(taken_until: datetime) -> None:
    held = running_run(taken_until=taken_until)
    task = a_task(FIRST, held)
    until = max(taken_until, UNTIL)
    assert claims.reclaim(task, 1, UNTIL, NOW, "spare") == Decision(
        task=replace(task, runs=(FIRST, replace(held, taken_until=until))),
        ahead=(
            MoveClaim(handle=handle("claim"), task_id=ID, run_id=1, taken_until=until),
            hold(2, until),
        ),
    )


def test_hand_back_makes_the_run_pending_again() -> None:
    waits = pending_run()
    task = a_task(FIRST, replace(waits, by_claim_task=True, **MINE))
    handles = replace(task.handles, claim=None)
    expected = Decision(
        task=replace(task, runs=(FIRST, waits), handles=handles),
        after=((show(1), RemoveMessage(handle=handle("claim"))),),
    )
    assert claim_ends.hand_back(task, 1, ME, UNTIL, 0) == expected
    unknown = replace(task, handles=MessageHandles())
    assert claim_ends.hand_back(unknown, 1, ME, UNTIL, 0) == Decision(
        task=replace(unknown, runs=(FIRST, waits)), after=((),)
    )


def test_hand_back_of_a_claim_that_is_not_in_force_changes_nothing() -> None:
    mine = pending_run(**MINE)
    with pytest.raises(NoDecision):  # of another worker
        claim_ends.hand_back(a_task(mine), 0, Worker(worker_group="mine", worker_id="you"), UNTIL, 0)
    with pytest.raises(NoDecision):  # renewed since
        claim_ends.hand_back(a_task(mine), 0, ME, UNTIL - SECOND, 0)
    with pytest.raises(NoDecision):  # not the last run
        claim_ends.hand_back(a_task(mine, pending_run()), 0, ME, UNTIL, 0)


def test_expiry_of_a_claim() -> None:
    task = a_task(FIRST, EXPIRED, retries_left=3)
    runs = (FIRST, ended(EXPIRED, Resolved.CLAIM_EXPIRED), retry())
    after = replace(task, runs=runs, retries_left=2, handles=replace(task.handles, claim=None))
    assert claim_ends.expire(task, 1, NOW - CLAIM_TIMEOUT, NOW, "spare") == Decision(
        task=after,
        ahead=(hold(2, None), AddPendingRow(task_queue_id=POOL, row=pending_row(task, 2, NOW))),
        after=((change(running_row(task, 1, EXPIRED)),),),
        events=(announcements.running(task, 1), announcements.exception(after, 1), announcements.pending(after, 2)),
    )


@pytest.mark.parametrize("claimed", [False, True])
def test_expiry_of_a_claim_that_was_retried_before_repairs_the_rows(claimed: bool) -> None:
    over, waiting = resolved_run(Resolved.CLAIM_EXPIRED), pending_run(reason_created=Created.RETRY)
    last = replace(waiting, **MINE) if claimed else waiting
    task = a_task(FIRST, over, last)
    was = pending_row(task, 2, waiting.scheduled)
    rows = change(running_row(task, 1, over), running_row(task, 2, last) if claimed else was)
    assert claim_ends.expire(task, 1, NOW - CLAIM_TIMEOUT, NOW, "spare") == Decision(
        task=None,
        after=((replace(rows, remove=(*rows.remove, was)) if claimed else rows,),),
        events=(announcements.running(task, 1), announcements.exception(task, 1), announcements.pending(task, 2)),
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
    after = replace(task, priority="high", prioritised=NOW, hint_id="new")
    assert transitions.change_priority(task, "high", NOW, "new") == Decision(
        task=after,
        ahead=(
            replace(put_pending(1, "new"), priority="high"),
            SetRowPriority(task_queue_id=POOL, row=pending_row(task, 1, waits.scheduled), priority="high"),
        ),
        after=((RemoveMessage(handle=handle("pending")), RewriteMember(task_group_id=OTHER, task_id=ID)),),
        events=(announcements.priority_changed(replace(after, hint_id="hint"), "medium"),),
    )
