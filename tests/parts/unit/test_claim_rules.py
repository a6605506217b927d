"""Claims as pure decisions: the table of design 4, claiming, reclaiming, expiring."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from shared.base.protocol import LATEST_COMMIT, ORPHAN_AFTER, REPEATS_RECOGNISED
from shared.queue.claims import ends as claim_ends
from shared.queue.claims import rules as claims
from shared.queue.claims.ends import NotExpired
from shared.queue.claims.rules import NotClaimed, Verdict
from shared.queue.tasks import effects
from shared.queue.tasks.effects import Decision, NoDecision, row_of
from shared.queue.tasks.rules import Created, Resolved, Run, State, Task, UndeliveredClaim, Worker
from tests.parts.unit.tasks import (
    CLAIM_TIMEOUT,
    GROUP,
    NOW,
    SECOND,
    WORKER,
    a_task,
    hand_back,
    handle,
    pending_run,
    resolved_run,
    running_run,
)

ME = Worker(worker_group="mine", worker_id="me")
HAND = handle("in-hand")
UNTIL = NOW + CLAIM_TIMEOUT
YOUNG, OLD = 299.0, 300.0
EXPIRED = running_run(taken_until=NOW)
HELD = running_run(taken_until=NOW + SECOND)
RETRY = pending_run(reason_created=Created.RETRY)


def announced(decision: Decision) -> list[tuple[str, int | None]]:
    return [(event.exchange.value, event.run_id) for event in decision.events]


def after(decision: Decision) -> Task:
    assert decision.task is not None
    return decision.task


# The table


@pytest.mark.parametrize(
    ("task", "hint_id", "age", "verdict"),
    [
        (a_task(resolved_run()), "hint", 0.0, Verdict.REMOVE),
        (a_task(resolved_run()), "other", 0.0, Verdict.LATER),  # it is being rerun, perhaps
        (a_task(resolved_run()), "other", 400.0, Verdict.REMOVE),
        (a_task(pending_run(), deadline=NOW), "hint", 0.0, Verdict.REMOVE),
        (a_task(EXPIRED, deadline=NOW), "hint", 0.0, Verdict.REMOVE),
        (a_task(deadline=NOW), "hint", 0.0, Verdict.REMOVE),
        (a_task(pending_run()), "hint", 0.0, Verdict.CLAIM),
        (a_task(pending_run()), "hint", OLD, Verdict.CLAIM),
        (a_task(resolved_run(Resolved.WORKER_SHUTDOWN), RETRY), "hint", 0.0, Verdict.CLAIM),
        (a_task(HELD), "hint", 0.0, Verdict.HIDE),
        (a_task(HELD), "hint", OLD, Verdict.HIDE),
        (a_task(EXPIRED), "hint", 0.0, Verdict.CLAIM_NEXT),
        (a_task(EXPIRED, retries_left=1), "hint", 0.0, Verdict.CLAIM_NEXT),
        (a_task(EXPIRED, retries_left=0), "hint", 0.0, Verdict.EXHAUST),
        (a_task(pending_run()), "other", YOUNG, Verdict.LATER),
        (a_task(pending_run()), "other", OLD, Verdict.REMOVE),
        (a_task(HELD), "other", YOUNG, Verdict.LATER),
        (a_task(EXPIRED), "other", OLD, Verdict.REMOVE),
        (a_task(), "hint", YOUNG, Verdict.LATER),
        (a_task(), "hint", OLD, Verdict.REMOVE),
        (None, "hint", YOUNG, Verdict.LATER),
        (None, "hint", OLD, Verdict.REMOVE),
    ],
)
def test_what_a_poller_does_with_a_message(task: Task | None, hint_id: str, age: float, verdict: Verdict) -> None:
    assert claims.judge_message(task, hint_id, age, NOW) is verdict


@pytest.mark.parametrize("task", [a_task(resolved_run()), a_task(HELD), a_task()])
def test_a_message_that_leads_to_no_claim(task: Task) -> None:
    with pytest.raises(NotClaimed) as refused:
        claims.decide(task, "hint", 0, ME, HAND, UNTIL, NOW)
    assert refused.value.task is task
    assert refused.value.verdict is claims.judge_message(task, "hint", 0, NOW)


# Claiming


def test_a_claim_starts_the_pending_run_and_takes_the_lease_of_the_next() -> None:
    task = a_task(resolved_run(Resolved.WORKER_SHUTDOWN), RETRY)
    decision = claims.decide(task, "hint", 0, ME, HAND, UNTIL, NOW)
    claimed = after(decision)
    assert claimed.runs[0] == task.runs[0]
    assert claimed.last_run == replace(
        RETRY, state=State.RUNNING, worker_group="mine", worker_id="me", taken_until=UNTIL, started=NOW
    )
    assert (claimed.hint_id, claimed.retries_left) == ("hint", 5)
    put, lease = decision.ahead
    assert put == effects.PutClaim(task_id=task.task_id, run_id=1, taken_until=UNTIL, started=NOW)
    assert isinstance(lease, effects.TakeLease)
    assert (lease.handle, lease.content.run_id, lease.visible, lease.content.hint_id) == (HAND, 2, UNTIL, "hint")
    assert announced(decision) == [("task-running", 1)]


def test_the_next_run_is_claimed_in_the_commit_that_expires_the_last() -> None:
    task = a_task(EXPIRED, retries_left=1)
    decision = claims.decide(task, "hint", 0, ME, HAND, UNTIL, NOW)
    claimed = after(decision)
    assert claimed.runs[0] == replace(
        EXPIRED, state=State.EXCEPTION, reason_resolved=Resolved.CLAIM_EXPIRED, resolved=NOW
    )
    assert (claimed.last_run.state, claimed.last_run.reason_created) == (State.RUNNING, Created.RETRY)
    assert claimed.last_run.scheduled == claimed.last_run.started == NOW
    assert claimed.retries_left == 0
    assert announced(decision) == [("task-running", 0), ("task-exception", 0), ("task-pending", 1), ("task-running", 1)]
    assert effects.RemoveMessage(handle=handle("claim")) in decision.after[-1]


def test_without_retries_the_task_is_resolved_before_the_message_goes() -> None:
    decision = claims.decide(a_task(EXPIRED, retries_left=0), "hint", 0, ME, HAND, UNTIL, NOW)
    assert after(decision).last_run.reason_resolved is Resolved.CLAIM_EXPIRED
    assert [type(effect).__name__ for effect in decision.ahead] == ["PutResolved"]
    assert effects.RemoveMessage(handle=HAND) in decision.after[-1]


# claimTask


def claim_by_task(task: Task, run_id: int, worker: Worker = ME) -> Decision:
    return claims.claim_by_task(task, run_id, worker, UNTIL, NOW, "own")


def test_claim_task_has_a_lease_of_its_own() -> None:
    decision = claim_by_task(a_task(pending_run()), 0)
    claimed = after(decision)
    assert (claimed.state, claimed.hint_id, claimed.last_run.by_claim_task) == (State.RUNNING, "own", True)
    (lease,) = (effect for effect in decision.ahead if isinstance(effect, effects.PutPending))
    assert (lease.content.run_id, lease.content.hint_id, lease.visible) == (1, "own", UNTIL)
    assert not [effect for effect in decision.ahead if isinstance(effect, effects.TakeLease)]
    repeat = claims.claim_by_task(claimed, 0, ME, UNTIL + SECOND, NOW + SECOND, "newer")
    assert (repeat.task, repeat.ahead, announced(repeat)) == (claimed, (), [("task-running", 0)])


# reclaimTask


def reclaim(task: Task, run_id: int = 0, until: timedelta = CLAIM_TIMEOUT) -> Decision:
    return claims.reclaim(task, run_id, NOW + until, NOW, "spare")


@pytest.mark.parametrize("run", [HELD, EXPIRED, running_run(taken_until=NOW - 60 * SECOND)])
def test_a_reclaim_moves_both_messages_first(run: Run) -> None:
    task = a_task(run)
    decision = reclaim(task)
    assert run.started is not None
    assert after(decision) == replace(task, runs=(replace(task.last_run, taken_until=UNTIL),))
    move, hold = decision.ahead
    assert move == effects.PutClaim(
        handle=handle("claim"), task_id=task.task_id, run_id=0, taken_until=UNTIL, started=run.started
    )
    assert isinstance(hold, effects.HoldPending)
    held = (hold.handle, hold.content.run_id, hold.visible, hold.spare_hint_id)
    assert held == (handle("pending"), 1, UNTIL, "spare")
    assert (decision.after, decision.events) == ((), ())


def test_a_reclaim_moves_nothing_back() -> None:
    later = UNTIL + SECOND
    decision = reclaim(a_task(running_run(taken_until=later)))
    move, hold = decision.ahead
    assert isinstance(move, effects.PutClaim)
    assert isinstance(hold, effects.HoldPending)
    assert [after(decision).last_run.taken_until, move.taken_until, hold.visible] == [later] * 3


# Expiring


LATER = NOW + timedelta(minutes=20)


def expire(task: Task, run_id: int = 0, put: timedelta = CLAIM_TIMEOUT) -> Decision:
    started = task.runs[run_id].started if run_id <= task.last_run_id else None
    return claim_ends.expire(task, run_id, NOW - put, NOW, "spare", started or NOW - put)


def test_an_expired_claim_is_retried() -> None:
    decision = expire(a_task(EXPIRED))
    expired, retry = after(decision).runs
    assert expired.reason_resolved is Resolved.CLAIM_EXPIRED
    assert (retry.state, retry.reason_created, retry.scheduled) == (State.PENDING, Created.RETRY, NOW)
    assert after(decision).retries_left == 4
    assert announced(decision) == [("task-running", 0), ("task-exception", 0), ("task-pending", 1)]
    assert [type(effect).__name__ for effect in decision.ahead] == ["HoldPending", "AddPendingRow"]


def test_an_expired_claim_without_retries_resolves_the_task() -> None:
    decision = expire(a_task(EXPIRED, retries_left=0))
    assert (after(decision).state, len(after(decision).runs)) == (State.EXCEPTION, 1)
    assert announced(decision) == [("task-running", 0), ("task-exception", 0)]


@pytest.mark.parametrize(
    ("task", "run_id", "put", "again"),
    [
        (a_task(HELD), 0, CLAIM_TIMEOUT, NOW + SECOND),
        (a_task(EXPIRED, deadline=NOW), 0, CLAIM_TIMEOUT, None),
        (a_task(pending_run()), 0, LATEST_COMMIT - SECOND, NOW + 2 * SECOND),
        (a_task(pending_run()), 0, LATEST_COMMIT, NOW - LATEST_COMMIT + ORPHAN_AFTER),
        (a_task(EXPIRED), 1, SECOND, NOW + 2 * SECOND),
        (a_task(resolved_run(), pending_run(reason_created=Created.RERUN)), 0, SECOND, None),
    ],
)
def test_claim_messages_that_find_nothing_to_expire(task: Task, run_id: int, put: timedelta, again: object) -> None:
    with pytest.raises(NotExpired) as refused:
        expire(task, run_id, put)
    assert refused.value.again == again


@pytest.mark.parametrize("deadline", [NOW, NOW + timedelta(hours=1)], ids=["after the deadline", "before it"])
def test_a_second_claim_message_repairs_and_announces_again(deadline: datetime) -> None:
    retried = a_task(resolved_run(Resolved.CLAIM_EXPIRED), RETRY, deadline=deadline)
    decision = expire(retried)
    assert decision.task is None
    assert announced(decision) == [("task-running", 0), ("task-exception", 0), ("task-pending", 1)]
    assert decision.after
    exhausted = expire(a_task(resolved_run(Resolved.CLAIM_EXPIRED)))
    assert (exhausted.task, announced(exhausted)) == (None, [("task-running", 0), ("task-exception", 0)])
    assert [type(effect).__name__ for effect in exhausted.ahead] == ["PutResolved"]


def test_who_holds_a_run() -> None:
    assert running_run().is_held_by(GROUP, WORKER)
    assert not running_run().is_held_by(GROUP, "other")
    assert not resolved_run().is_held_by(GROUP, WORKER)


@pytest.mark.parametrize(
    ("age", "events"), [(REPEATS_RECOGNISED - SECOND, [("task-running", 0)]), (REPEATS_RECOGNISED, [])]
)
def test_a_claim_is_announced_again_for_as_long_as_its_repeat_is_recognised(
    age: timedelta, events: list[tuple[str, int]]
) -> None:
    decision = expire(a_task(replace(EXPIRED, started=NOW - age)))
    assert [event for event in announced(decision) if event[0] == "task-running"] == events


def test_a_claim_that_no_worker_received_is_undone() -> None:
    task = a_task(replace(EXPIRED, taken_until=LATER))
    worker = Worker(worker_group=EXPIRED.worker_group or "", worker_id=EXPIRED.worker_id or "")
    decision = hand_back(task, 0, worker, LATER, 0)
    assert decision.task is not None
    run = decision.task.runs[0]
    assert (run.state, run.worker_group, run.worker_id, run.taken_until, run.started) == (State.PENDING, *[None] * 4)
    assert (decision.task.retries_left, decision.events) == (task.retries_left, ())


def test_a_claim_that_claim_task_may_have_repeated_is_not_undone() -> None:
    run = replace(EXPIRED, taken_until=LATER)
    worker = Worker(worker_group=EXPIRED.worker_group or "", worker_id=EXPIRED.worker_id or "")
    polled = replace(a_task(run), sequence=2)
    by_task = replace(a_task(replace(run, by_claim_task=True)), sequence=2)
    for task, sequence in ((polled, 1), (by_task, 2)):
        assert hand_back(task, 0, worker, LATER, sequence).task is not None
    with pytest.raises(NoDecision):
        hand_back(by_task, 0, worker, LATER, 1)


@pytest.mark.parametrize("run", [pending_run(), HELD, resolved_run(Resolved.CANCELED)], ids=lambda run: run.state.value)
def test_the_row_of_a_claim_that_came_to_nothing_is_given_back(run: Run) -> None:
    """The index row of a claim that came to nothing is given back by its claim message, which names the row. By then no
    request of the claim can take effect any more."""
    task = a_task(run)
    started = NOW - ORPHAN_AFTER
    decision = claim_ends.expire(task, 0, started, NOW, "spare", started)
    ((row,),) = decision.after
    assert isinstance(row, effects.ReturnRow)
    assert (decision.task, row.claimed.started) == (None, started)
    assert row.pending == (row_of(task, 0) if run.state is State.PENDING else None)
    for age, again in ((119 * SECOND, NOW + 2 * SECOND), (121 * SECOND, NOW - 121 * SECOND + ORPHAN_AFTER)):
        with pytest.raises(NotExpired) as young:
            claim_ends.expire(task, 0, NOW - age, NOW, "spare", NOW - age)
        assert young.value.again == again


def test_a_claim_that_may_still_be_committed_loses_its_race() -> None:
    """A claim that may still be committed loses its race, because the task is committed unchanged."""
    task = a_task(pending_run())
    claim = UndeliveredClaim(
        task_id=task.task_id,
        run_id=0,
        worker=Worker(worker_group=GROUP, worker_id=WORKER),
        taken_until=LATER,
        sequence=task.sequence + 1,
        started=NOW,
    )
    decision = claim_ends.take_back(task, claim)
    assert decision.task is task
    ((row,),) = decision.after
    assert isinstance(row, effects.ReturnRow)
    assert (row.claimed.started, row.pending) == (NOW, row_of(task, 0))
    later = claim_ends.take_back(replace(task, sequence=claim.sequence), claim)
    assert (later.task, later.after) == (None, decision.after)
