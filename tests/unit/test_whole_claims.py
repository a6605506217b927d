"""Decisions on claims compared as a whole: every field of every effect, not only the kind of it (design 4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from shared.queue.claims import ends as claim_ends
from shared.queue.claims import rules as claims
from shared.queue.events import rules as announcements
from shared.queue.tasks.effects import (
    AddPendingRow,
    ChangePoolRows,
    Decision,
    MoveClaim,
    NoDecision,
    PutClaim,
    PutResolved,
    RemoveMessage,
    ReturnRow,
    TakeLease,
)
from shared.queue.tasks.rules import Created, MessageHandles, Resolved, Worker
from tests.unit.effects import (
    EXPIRED,
    FIRST,
    HAND,
    ME,
    MINE,
    POOL,
    UNTIL,
    change,
    content,
    ended,
    hold,
    pending_row,
    put_pending,
    retry,
    running_row,
    show,
)
from tests.unit.tasks import (
    CLAIM_TIMEOUT,
    ID,
    NOW,
    SECOND,
    a_task,
    hand_back,
    handle,
    pending_run,
    resolved_run,
    running_run,
)


def test_claim_of_a_pending_run() -> None:
    waits = pending_run()
    task = a_task(FIRST, waits)
    claimed = replace(waits, **MINE)
    after = replace(task, runs=(FIRST, claimed))
    assert claims.claim(task, ME, HAND, UNTIL, NOW) == Decision(
        task=after,
        ahead=(
            PutClaim(task_id=ID, run_id=1, taken_until=UNTIL, started=NOW),
            TakeLease(handle=HAND, content=content(2), visible=UNTIL),
        ),
        events=(announcements.running(after, 1),),
    )
    assert claims.rows_ahead(task, after) == change(
        pending_row(task, 1, waits.scheduled), running_row(task, 1, claimed)
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
            PutClaim(task_id=ID, run_id=2, taken_until=UNTIL, started=NOW),
            TakeLease(handle=HAND, content=content(3), visible=UNTIL),
        ),
        after=(
            (change(running_row(task, 1, EXPIRED)),),
            (RemoveMessage(handle=handle("claim")),),
        ),
        events=(
            announcements.running(task, 1),
            announcements.exception(retried, 1),
            announcements.pending(retried, 2),
            announcements.running(after, 2),
        ),
    )
    assert claims.rows_ahead(task, after) == ChangePoolRows(task_queue_id=POOL, add=(running_row(task, 2, claimed),))


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
        ahead=(PutClaim(task_id=ID, run_id=1, taken_until=UNTIL, started=NOW), put_pending(2, "own", UNTIL)),
        events=(announcements.running(after, 1),),
    )
    assert claims.rows_ahead(task, after) == change(
        pending_row(task, 1, waits.scheduled), running_row(task, 1, claimed)
    )


def test_claim_by_task_id_of_the_run_after_an_expired_one_has_one_lease() -> None:
    task = a_task(FIRST, EXPIRED)
    decision = claims.claim_by_task(task, 2, ME, UNTIL, NOW, "own")
    assert decision.task is not None
    assert decision.task.last_run == replace(retry(), by_claim_task=True, **MINE)
    assert decision.ahead == (
        PutClaim(task_id=ID, run_id=2, taken_until=UNTIL, started=NOW),
        put_pending(3, "own", UNTIL),
    )


@pytest.mark.parametrize("taken_until", [NOW, UNTIL + SECOND], ids=["forward", "not back"])
def test_reclaim_moves_claim_and_lease_and_never_back(taken_until: datetime) -> None:
    held = running_run(taken_until=taken_until)
    task = a_task(FIRST, held)
    until = max(taken_until, UNTIL)
    assert claims.reclaim(task, 1, UNTIL, NOW, "spare") == Decision(
        task=replace(task, runs=(FIRST, replace(held, taken_until=until))),
        ahead=(
            MoveClaim(handle=handle("claim"), task_id=ID, run_id=1, taken_until=until, started=held.started),
            hold(2, until),
        ),
    )


def test_hand_back_makes_the_run_pending_again() -> None:
    waits = pending_run()
    task = a_task(FIRST, replace(waits, by_claim_task=True, **MINE))
    handles = replace(task.handles, claim=None)
    rows = ReturnRow(
        task_queue_id=POOL, claimed=running_row(task, 1, task.runs[1]), pending=pending_row(task, 1, waits.scheduled)
    )
    expected = Decision(
        task=replace(task, runs=(FIRST, waits), handles=handles),
        after=((rows, show(1)), (RemoveMessage(handle=handle("claim")),)),
    )
    assert hand_back(task, 1, ME, UNTIL, 0) == expected
    unknown = replace(task, handles=MessageHandles())
    assert hand_back(unknown, 1, ME, UNTIL, 0) == Decision(
        task=replace(unknown, runs=(FIRST, waits)), after=((rows,), ())
    )


def test_hand_back_of_a_claim_that_is_not_in_force_changes_nothing() -> None:
    mine = pending_run(**MINE)
    with pytest.raises(NoDecision):  # of another worker
        hand_back(a_task(mine), 0, Worker(worker_group="mine", worker_id="you"), UNTIL, 0)
    with pytest.raises(NoDecision):  # renewed since
        hand_back(a_task(mine), 0, ME, UNTIL - SECOND, 0)
    with pytest.raises(NoDecision):  # not the last run
        hand_back(a_task(mine, pending_run()), 0, ME, UNTIL, 0)


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
    rows = change(running_row(task, 1, over), *(() if claimed else (pending_row(task, 2, waiting.scheduled),)))
    assert claim_ends.expire(task, 1, NOW - CLAIM_TIMEOUT, NOW, "spare") == Decision(
        task=None,
        after=((rows,),),
        events=(announcements.running(task, 1), announcements.exception(task, 1), announcements.pending(task, 2)),
    )
