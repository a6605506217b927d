"""The state machine by example: what reports of workers make of each state (contract 4.3, 4.4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.base.errors import RequestConflict, ResourceNotFound
from shared.queue.tasks import transitions
from shared.queue.tasks.effects import Decision, HoldPending, PutResolved, ShowPending
from shared.queue.tasks.rules import Created, Resolved, Run, State, Task
from tests.parts.unit.decisions import PENDING, RESOLVED, RETRIED, RUNNING, UNSCHEDULED, after, announced, kinds, steps
from tests.parts.unit.tasks import NOW, a_task, handle, pending_run, resolved_run, running_run

LATE = RUNNING.deadline


@pytest.mark.parametrize("resolution", [Resolved.COMPLETED, Resolved.FAILED])
def test_a_report_resolves_the_run_and_its_repeat_changes_nothing(resolution: Resolved) -> None:
    decision = transitions.report(RUNNING, 0, resolution, LATE)
    (run,) = after(decision).runs
    assert (run.state, run.reason_resolved, run.resolved) == (resolution.state, resolution, LATE)
    assert run.taken_until == RUNNING.last_run.taken_until
    assert decision.ahead == (PutResolved(task_id=RUNNING.task_id, run_id=0),)
    assert steps(decision) == [["RemoveMessage", "RemoveMessage"]]
    again = transitions.report(after(decision), 0, resolution, LATE)
    assert (again.task, again.ahead, again.events) == (None, decision.ahead, decision.events)


@pytest.mark.parametrize("task", [UNSCHEDULED, PENDING, RUNNING, *RESOLVED])
def test_reports_of_runs_that_there_are_not(task: Task) -> None:
    with pytest.raises(ResourceNotFound):
        transitions.report(task, len(task.runs), Resolved.COMPLETED, NOW)
    with pytest.raises(ResourceNotFound):
        transitions.report_exception(task, len(task.runs), Resolved.INTERNAL_ERROR, NOW, "spare")


@pytest.mark.parametrize("reported", [Resolved.COMPLETED, Resolved.FAILED])
@pytest.mark.parametrize("task", [PENDING, RETRIED, *RESOLVED], ids=lambda task: task.state)
def test_reports_that_contradict(task: Task, reported: Resolved) -> None:
    if task.runs[0].reason_resolved is reported:
        assert transitions.report(task, 0, reported, NOW).task is None
    else:
        with pytest.raises(RequestConflict):
            transitions.report(task, 0, reported, NOW)


def test_unfinished_uploads_keep_a_run_from_being_completed() -> None:
    task = a_task(running_run(unfinished=("digest",)))
    with pytest.raises(RequestConflict):
        transitions.report(task, 0, Resolved.COMPLETED, NOW)
    assert after(transitions.report(task, 0, Resolved.FAILED, NOW)).state is State.FAILED


RETRYING = {Resolved.WORKER_SHUTDOWN: Created.RETRY, Resolved.INTERMITTENT_TASK: Created.TASK_RETRY}
FINAL = [Resolved.MALFORMED_PAYLOAD, Resolved.RESOURCE_UNAVAILABLE, Resolved.INTERNAL_ERROR]


def report_exception(task: Task, run_id: int, reason: Resolved) -> Decision:
    return transitions.report_exception(task, run_id, reason, NOW, "spare")


@pytest.mark.parametrize("reason", RETRYING)
def test_an_exception_that_is_retried(reason: Resolved) -> None:
    decision = report_exception(RUNNING, 0, reason)
    task = after(decision)
    assert task.runs == (
        replace(RUNNING.last_run, state=State.EXCEPTION, reason_resolved=reason, resolved=NOW),
        Run(state=State.PENDING, reason_created=RETRYING[reason], scheduled=NOW, generation=0),
    )
    assert (task.retries_left, task.hint_id) == (4, "hint")
    assert decision.ahead == ()
    assert steps(decision) == [["ChangePoolRows"], ["RemoveMessage", "ShowPending"]]
    assert announced(decision) == [("task-exception", 0), ("task-pending", 1)]
    (shown,) = (effect for step in decision.after for effect in step if isinstance(effect, ShowPending))
    assert (shown.handle, shown.content.run_id, shown.content.hint_id) == (handle("pending"), 1, "hint")


def test_a_retry_is_of_the_generation_of_its_task() -> None:
    """A retry has the generation of its task, so that what waits for a rerun task hears of its retry's end."""
    ended = replace(RUNNING.last_run, state=State.FAILED, reason_resolved=Resolved.FAILED, resolved=NOW)
    again = replace(RUNNING.last_run, reason_created=Created.RERUN, generation=1)
    reopened = replace(RUNNING, runs=(ended, again), generation=1)
    assert after(report_exception(reopened, 1, Resolved.WORKER_SHUTDOWN)).last_run.generation == 1


def test_a_retry_without_a_known_message_gets_a_new_one() -> None:
    lost = replace(RUNNING, handles=replace(RUNNING.handles, pending=None))
    decision = report_exception(lost, 0, Resolved.WORKER_SHUTDOWN)
    (hold,) = decision.ahead
    assert isinstance(hold, HoldPending)
    assert (hold.handle, hold.content.run_id, hold.spare_hint_id, hold.visible) == (None, 1, "spare", None)


@pytest.mark.parametrize("reason", [*FINAL, *RETRYING])
def test_an_exception_that_is_final(reason: Resolved) -> None:
    decision = report_exception(replace(RUNNING, retries_left=0), 0, reason)
    assert after(decision).state is State.EXCEPTION
    assert after(decision).retries_left == 0
    assert kinds(decision.ahead) == ["PutResolved"]
    assert announced(decision) == [("task-exception", 0)]
    if reason in FINAL:
        assert after(report_exception(RUNNING, 0, reason)).retries_left == 5


def test_repeats_of_an_exception_that_was_retried() -> None:
    """A repeated report of a retried exception announces it again, and queues no resolution (trap 46)."""
    for retry in (pending_run(reason_created=Created.RETRY), running_run(reason_created=Created.RETRY)):
        task = a_task(resolved_run(Resolved.WORKER_SHUTDOWN), retry)
        decision = report_exception(task, 0, Resolved.WORKER_SHUTDOWN)
        assert (decision.task, decision.ahead, decision.after) == (None, (), ())
        assert announced(decision) == [("task-exception", 0), ("task-pending", 1)]
        with pytest.raises(RequestConflict):
            report_exception(task, 0, Resolved.INTERMITTENT_TASK)
    twice = a_task(resolved_run(Resolved.WORKER_SHUTDOWN), resolved_run(Resolved.WORKER_SHUTDOWN), pending_run())
    with pytest.raises(RequestConflict):
        report_exception(twice, 0, Resolved.WORKER_SHUTDOWN)
    report_exception(twice, 1, Resolved.WORKER_SHUTDOWN)


@pytest.mark.parametrize("reason", Resolved)
def test_a_run_forgets_its_unfinished_uploads_when_it_ends(reason: Resolved) -> None:
    """A run forgets its unfinished uploads when it ends: those of many runs would not fit into a property."""
    task = a_task(running_run(unfinished=("digest",) * 100))
    for decision in (
        transitions.resolve(task, 0, reason, NOW),
        transitions.interrupt(task, 0, reason, NOW, "spare"),
        transitions.end(task, reason, NOW),
    ):
        assert decision.task is not None
        assert decision.task.runs[0].unfinished == ()
