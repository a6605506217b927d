"""A worker that is gone, as a pure decision (contract 4.2)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.queue.claims.rules import worker_removed
from shared.queue.events.rules import Exchange
from shared.queue.tasks.effects import Decision, NoDecision
from shared.queue.tasks.rules import Created, Resolved, Run, State, Task, Worker

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GONE = Worker(worker_group="group", worker_id="gone")

RUN = Run(
    state=State.RUNNING,
    reason_created=Created.SCHEDULED,
    scheduled=NOW - timedelta(minutes=2),
    started=NOW - timedelta(minutes=1),
    taken_until=NOW + timedelta(minutes=19),
    generation=0,
    worker_group=GONE.worker_group,
    worker_id=GONE.worker_id,
)
TASK = Task(
    task_id="AAAAAAAAQACAAAAAAAAAAA",
    task_queue_id="provisioner/pool",
    scheduler_id="-",
    project_id="none",
    task_group_id="AAAAAAAAQACAAAAAAAAAAA",
    priority="lowest",
    retries=5,
    retries_left=5,
    deadline=NOW + timedelta(hours=1),
    expires=NOW + timedelta(days=1),
    dependencies=0,
    runs=(RUN,),
)
ENDED = replace(RUN, state=State.EXCEPTION, reason_resolved=Resolved.WORKER_SHUTDOWN, resolved=NOW)
RETRY = Run(state=State.PENDING, reason_created=Created.RETRY, scheduled=NOW, generation=0)


def test_a_running_run_is_retried() -> None:
    task = worker_removed(TASK, 0, GONE, NOW, "spare").task
    assert task is not None
    assert task.runs[0] == ENDED
    assert task.runs[1] == RETRY
    assert task.retries_left == 4


def test_a_running_run_without_retries_resolves_its_task() -> None:
    task = worker_removed(replace(TASK, retries_left=0), 0, GONE, NOW, "spare").task
    assert task is not None
    assert task.runs == (ENDED,)


@pytest.mark.parametrize("runs", [(ENDED,), (ENDED, RETRY)], ids=["resolved", "retried"])
def test_a_run_that_was_ended_so_is_announced_again(runs: tuple[Run, ...]) -> None:
    decision = worker_removed(replace(TASK, runs=runs), 0, GONE, NOW, "spare")
    assert decision.task is None
    kinds = [event.exchange for event in decision.events]
    assert kinds[:2] == [Exchange.TASK_RUNNING, Exchange.TASK_EXCEPTION], "its claim may not have been announced"
    assert len(decision.events) == 1 + len(runs)


@pytest.mark.parametrize(
    ("task", "run_id"), [(replace(TASK, runs=(RETRY,)), 0), (TASK, 1)], ids=["pending", "after an expired one"]
)
def test_a_claim_under_way_is_kept_from_its_commit(task: Task, run_id: int) -> None:
    assert worker_removed(task, run_id, GONE, NOW, "spare") == Decision(task=task)


@pytest.mark.parametrize(
    ("task", "run_id"),
    [
        (replace(TASK, runs=(replace(RUN, worker_id="another"),)), 0),
        (replace(TASK, runs=(replace(RUN, worker_group="another"),)), 0),
        (TASK, 2),
        (replace(TASK, runs=(ENDED,)), 1),
        (replace(TASK, runs=(replace(ENDED, state=State.COMPLETED, reason_resolved=Resolved.COMPLETED),)), 0),
        (replace(TASK, runs=(replace(ENDED, reason_resolved=Resolved.CLAIM_EXPIRED), RETRY)), 0),
        (replace(TASK, runs=(ENDED, replace(RUN, worker_id="another"), RETRY)), 0),
        (replace(TASK, deadline=NOW), 0),
    ],
    ids=["another's", "another group's", "no such run", "resolved", "completed", "expired", "long ago", "deadline"],
)
def test_any_other_run_is_left_alone(task: Task, run_id: int) -> None:
    with pytest.raises(NoDecision):
        worker_removed(task, run_id, GONE, NOW, "spare")
