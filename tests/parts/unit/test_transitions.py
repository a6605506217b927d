"""The state machine by example: what each command makes of each state, and what it asks for (contract 4, design 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.base.errors import RequestConflict
from shared.queue.events.rules import Exchange
from shared.queue.tasks import effects, transitions
from shared.queue.tasks.effects import Decision, NoDecision
from shared.queue.tasks.rules import Created, MessageHandles, Resolved, Run, State, Task
from tests.parts.unit.decisions import PENDING, RESOLVED, RETRIED, RUNNING, UNSCHEDULED, after, announced, kinds, steps
from tests.parts.unit.tasks import NOW, SECOND, handle


def schedule(task: Task) -> Decision:
    return transitions.schedule(task, NOW, "new")


def cancel(task: Task) -> Decision:
    return transitions.cancel(task, NOW)


def rerun(task: Task) -> Decision:
    return transitions.rerun(task, NOW, "new")


def change_priority(task: Task) -> Decision:
    return transitions.change_priority(task, "high", NOW, "new", 3)


Command = Callable[[Task], Decision]


# Schedule, rerun


@pytest.mark.parametrize(("command", "reason"), [(schedule, Created.SCHEDULED), (rerun, Created.RERUN)])
def test_an_unscheduled_task_becomes_pending(command: Command, reason: Created) -> None:
    decision = command(UNSCHEDULED)
    task = after(decision)
    assert task.runs == (Run(state=State.PENDING, reason_created=reason, scheduled=NOW, generation=0),)
    assert (task.hint_id, task.retries_left, task.generation) == ("new", 5, 0)
    assert kinds(decision.ahead) == ["AddPendingRow", "PutPending"]
    assert announced(decision) == [("task-pending", 0)]


@pytest.mark.parametrize("task", [RUNNING, RETRIED, *RESOLVED])
def test_schedule_leaves_a_task_with_runs_and_announces_its_first_one_while_a_repeat_is_recognised(task: Task) -> None:
    """Scheduling a task that has runs changes nothing, and announces its first run for as long as a repeat is
    recognised: the call that scheduled it may have died before it announced it, and a worker was faster than the
    repeat."""
    decision = schedule(task)
    assert (decision.task, decision.ahead, decision.after) == (None, (), ())
    assert announced(decision) == [("task-pending", 0)]
    assert decision.events[0].retries_left == task.retries
    hour = timedelta(hours=1)
    first = replace(task.runs[0], scheduled=NOW - hour + SECOND)
    assert announced(schedule(task.with_run(0, first))) == [("task-pending", 0)]
    assert schedule(task.with_run(0, replace(first, scheduled=NOW - hour))) == Decision(task=None)


def test_a_run_that_is_pending_is_announced_again_however_long_it_waits() -> None:
    waiting = PENDING.with_run(0, replace(PENDING.runs[0], scheduled=NOW - timedelta(days=1)))
    for command in (schedule, rerun):
        assert announced(command(waiting)) == [("task-pending", 0)]


def test_a_run_that_never_was_pending_is_not_announced_as_such() -> None:
    assert schedule(after(transitions.end(UNSCHEDULED, Resolved.CANCELED, NOW))) == Decision(task=None)


@pytest.mark.parametrize("task", RESOLVED)
def test_a_rerun_opens_the_next_generation(task: Task) -> None:
    decision = rerun(replace(task, retries_left=0))
    reopened = after(decision)
    assert reopened.runs[:1] == task.runs
    assert reopened.runs[1] == Run(state=State.PENDING, reason_created=Created.RERUN, scheduled=NOW, generation=1)
    assert (reopened.generation, reopened.retries_left, reopened.hint_id) == (1, 5, "new")
    assert kinds(decision.ahead) == ["AddActive", "AddPendingRow", "PutDeadline", "PutPending"]
    assert effects.AddActive(task_group_id=task.task_group_id, task_id=task.task_id, generation=1) in decision.ahead
    assert announced(decision) == [("task-pending", 1)]


# Cancel, deadline


@pytest.mark.parametrize("reason", [Resolved.CANCELED, Resolved.DEADLINE_EXCEEDED])
def test_an_unscheduled_task_ends_with_a_run_of_its_own(reason: Resolved) -> None:
    decision = transitions.end(UNSCHEDULED, reason, NOW)
    (run,) = after(decision).runs
    assert (run.state, run.reason_created, run.reason_resolved) == (State.EXCEPTION, Created.EXCEPTION, reason)
    assert run.scheduled == run.resolved == NOW
    assert run.started is None
    assert decision.ahead == (effects.PutResolved(task_id=UNSCHEDULED.task_id, run_id=0),)
    assert steps(decision) == [["RewriteMember"]]


@pytest.mark.parametrize("task", [PENDING, RUNNING, RETRIED])
def test_end_of_a_task_with_dependencies_touches_its_member_row(task: Task) -> None:
    """Ending a task with dependencies rewrites its member row, which a listing may have seen last."""
    waited = cancel(replace(task, dependencies=1))
    assert sorted(kinds(waited.after[0])) == sorted([*kinds(cancel(task).after[0]), "RewriteMember"])


@pytest.mark.parametrize("task", [PENDING, RUNNING, RETRIED])
def test_a_run_that_is_not_resolved_is_canceled(task: Task) -> None:
    decision = cancel(task)
    ended = after(decision)
    assert ended.runs[:-1] == task.runs[:-1]
    assert ended.last_run == replace(
        task.last_run, state=State.EXCEPTION, reason_resolved=Resolved.CANCELED, resolved=NOW
    )
    assert ended.retries_left == task.retries_left
    assert ended.handles == MessageHandles(deadline=task.handles.deadline)
    removed = {effect.handle for effect in decision.after[0] if isinstance(effect, effects.RemoveMessage)}
    assert removed == {each for each in (task.handles.claim, task.handles.pending) if each}
    assert [effect for effect in decision.after[0] if isinstance(effect, effects.ChangePoolRows)]
    assert announced(decision) == [("task-exception", task.last_run_id)]


def test_cancel_leaves_what_is_resolved() -> None:
    for task in RESOLVED:
        decision = cancel(task)
        assert decision.task is None
        again = task.last_run.reason_resolved is Resolved.CANCELED
        assert announced(decision) == ([("task-exception", 0)] if again else [])
        assert kinds(decision.ahead) == (["PutResolved"] if again else [])


def test_a_deadline_names_no_worker() -> None:
    (event,) = transitions.end(RUNNING, Resolved.DEADLINE_EXCEEDED, NOW).events
    assert (event.exchange, event.has_worker) == (Exchange.TASK_EXCEPTION, False)
    (event,) = transitions.end(RUNNING, Resolved.CANCELED, NOW).events
    assert event.has_worker


# Priority


def test_the_priority_of_a_pending_run() -> None:
    decision = change_priority(PENDING)
    task = after(decision)
    assert (task.priority, task.hint_id, task.runs) == ("high", "new", PENDING.runs)
    assert kinds(decision.ahead) == ["PutPending", "SetRowPriority"]
    (put,) = (effect for effect in decision.ahead if isinstance(effect, effects.PutPending))
    (row,) = (effect for effect in decision.ahead if isinstance(effect, effects.SetRowPriority))
    assert (put.priority, put.content.run_id, put.visible) == ("high", 0, None)
    assert (row.row.priority, row.priority) == ("medium", "high")
    assert steps(decision) == [["RemoveMessage", "RewriteMember"]]
    assert effects.RemoveMessage(handle=handle("pending")) in decision.after[0]
    (event,) = decision.events
    assert (event.old_priority, event.new_priority) == ("medium", "high")


@pytest.mark.parametrize("task", [UNSCHEDULED, PENDING, RUNNING])
def test_the_call_on_the_group_with_the_highest_number_counts(task: Task) -> None:
    changed = after(transitions.set_priority(task, "high", NOW, "new", 3))
    assert (changed.priority, changed.prioritised_as_of) == ("high", 3)
    for number in (1, 3):
        assert transitions.set_priority(changed, "low", NOW, "newer", number).task is None
    noted = transitions.set_priority(changed, "high", NOW, "newer", 4)
    assert noted.task == replace(changed, prioritised_as_of=4)
    assert transitions.set_priority(after(noted), "low", NOW, "newest", 5).after == (
        () if task is RUNNING else transitions.set_priority(task, "high", NOW, "new", 3).after
    )


@pytest.mark.parametrize("task", [UNSCHEDULED, PENDING, RUNNING])
def test_a_cancellation_of_the_group_is_about_tasks_that_were_opened_before(task: Task) -> None:
    with pytest.raises(NoDecision):
        transitions.cancel_by_group(replace(task, opened_as_of=3), NOW, 3)
    canceled = after(transitions.cancel_by_group(replace(task, opened_as_of=2), NOW, 3))
    assert (canceled.state, canceled.opened_as_of) == (State.EXCEPTION, 3)
    assert transitions.cancel_by_group(canceled, NOW, 3) == transitions.cancel(canceled, NOW)


@pytest.mark.parametrize("task", [*RESOLVED, replace(PENDING, generation=1)], ids=lambda task: task.state)
def test_priorities_that_do_not_change(task: Task) -> None:
    with pytest.raises(RequestConflict):
        change_priority(task)


# Dependencies, repair


def test_the_last_dependency_schedules() -> None:
    waiting = replace(UNSCHEDULED, dependencies=3, satisfied=0b100)
    first = transitions.satisfy(waiting, NOW, "new", 0b001, NOW)
    assert (after(first).satisfied, after(first).state, first.events) == (0b101, State.UNSCHEDULED, ())
    assert transitions.satisfy(after(first), NOW, "new", 0b001, NOW) == Decision(task=None)
    last = transitions.satisfy(after(first), NOW, "new", 0b010, NOW)
    assert (after(last).satisfied, after(last).state) == (0b111, State.PENDING)
    assert kinds(last.ahead) == ["AddPendingRow", "PutPending"]
    repeat = transitions.satisfy(after(last), NOW, "newer", 0b010, NOW)
    assert (repeat.task, announced(repeat)) == (None, [("task-pending", 0)])
    at_once = transitions.satisfy(waiting, NOW, "new", 0b011, NOW)
    assert (after(at_once).satisfied, after(at_once).state) == (0b111, State.PENDING)


def test_a_dependency_after_the_deadline_or_after_a_run_changes_nothing() -> None:
    waiting = replace(UNSCHEDULED, dependencies=1)
    assert transitions.satisfy(replace(waiting, deadline=NOW), NOW, "new", 0b1, NOW) == Decision(task=None)
    for task in (RUNNING, RETRIED, *RESOLVED):
        repeat = transitions.satisfy(replace(task, dependencies=1), NOW, "new", 0b1, NOW)
        assert (repeat.task, announced(repeat)) == (None, [("task-pending", 0)])
        hours_later = transitions.satisfy(task, NOW, "new", 0b1, NOW + timedelta(hours=3))
        assert hours_later == Decision(task=None), "another resolution has made it pending"


def test_a_dependent_that_has_waited_for_hours_is_announced_by_its_own_message_alone() -> None:
    waiting, later = replace(UNSCHEDULED, dependencies=1), NOW + timedelta(hours=1)
    pending = after(transitions.satisfy(waiting, NOW, "new", 0b1, NOW))
    for now, at_deadline, wanted in (
        (later, False, [("task-pending", 0)]),
        (later, True, []),
        (later - timedelta(seconds=1), True, [("task-pending", 0)]),
    ):
        again = transitions.satisfy(pending, now, "newer", 0b1, NOW, at_deadline=at_deadline)
        assert (again.task, announced(again)) == (None, wanted)


def test_a_lost_message_is_replaced_while_the_run_is_pending() -> None:
    decision = transitions.renew_message(RETRIED, 1, "new")
    assert after(decision) == replace(RETRIED, hint_id="new")
    assert kinds(decision.ahead) == ["PutPending"]
    assert steps(decision) == [["RemoveMessage"]]
    for task, run_id in ((RETRIED, 0), (RUNNING, 0), (RESOLVED[0], 0)):
        with pytest.raises(NoDecision):
            transitions.renew_message(task, run_id, "new")


def test_the_deadline_message_of_a_rerun_is_that_of_the_task() -> None:
    (put,) = (effect for effect in rerun(RESOLVED[0]).ahead if isinstance(effect, effects.PutDeadline))
    assert (put.deadline, put.task_id) == (RESOLVED[0].deadline, RESOLVED[0].task_id)
