"""The demo's judgement: which ends it accepts, and how many events belong to them."""

import io
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from shared.queue.events.exchanges import TOPICS
from tools.local import demo_tasks
from tools.local.demo_tasks import (
    EXAMPLES,
    Example,
    definition,
    differences,
    expected_events,
    in_order,
    problem,
    unannounced_claims,
)
from tools.local.demo_view import describe_runs, final_report, tasks_table

NOW = datetime(2026, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)


def _run(number: int, reason: str | None, *, worker: str | None = "w", created: str = "scheduled") -> dict[str, Any]:
    state = {"completed": "completed", "failed": "failed", None: "running"}.get(reason, "exception")
    run: dict[str, Any] = {"runId": number, "state": state, "reasonCreated": created}
    if worker:
        run |= {"workerId": worker, "started": "2026-03-01T12:00:01.000Z"}
    return run | ({"reasonResolved": reason} if reason else {})


def _status(*runs: dict[str, Any]) -> dict[str, Any]:
    return {"taskGroupId": "g", "state": runs[-1]["state"] if runs else "unscheduled", "runs": list(runs)}


PLAIN = Example(name="plain", script="true")
FRAGILE = Example(name="fragile", script="true", lose_worker=True)
FLAKY = Example(name="flaky", script="false", rerun=True)
LATE = Example(name="late", script="true", state="exception", ends="deadline-exceeded")


@pytest.mark.parametrize(
    ("example", "status", "wrong"),
    [
        (PLAIN, _status(_run(0, "completed")), None),
        (PLAIN, _status(_run(0, "claim-expired"), _run(1, "completed")), None),
        (PLAIN, _status(_run(0, "failed")), "is failed (failed) instead of completed (completed)"),
        (PLAIN, _status(_run(0, None)), "is running (running) instead of completed (completed)"),
        (PLAIN, _status(), "is unscheduled (no run) instead of completed (completed)"),
        (PLAIN, _status(_run(0, "worker-shutdown"), _run(1, "completed")), "has an earlier run that ended as"),
        (FRAGILE, _status(_run(0, "claim-expired"), _run(1, "completed")), None),
        (FRAGILE, _status(_run(0, "completed")), "was not retried"),
        (FLAKY, _status(_run(0, "failed"), _run(1, "completed", created="rerun")), None),
        (FLAKY, _status(_run(0, "completed")), "was not rerun"),
        (PLAIN, _status(_run(0, "failed"), _run(1, "completed")), "has an earlier run that ended as failed"),
        (LATE, _status(_run(0, "deadline-exceeded")), None),
        (LATE, _status(_run(0, "canceled")), "is exception (canceled) instead of exception (deadline-exceeded)"),
    ],
)
def test_which_ends_are_accepted(example: Example, status: dict[str, Any], wrong: str | None) -> None:
    found = problem(example, status)
    assert (found is None) if wrong is None else (found is not None and found.startswith(wrong))


def test_the_events_that_belong_to_a_group() -> None:
    statuses = [
        _status(_run(0, "claim-expired"), _run(1, "completed", created="retry")),
        _status(_run(0, "failed")),
        _status(_run(0, "deadline-exceeded", worker=None, created="exception")),
    ]
    expected = {
        "task-defined": 3,
        "task-pending": 3,
        "task-running": 3,
        "artifact-created": 2,
        "task-completed": 1,
        "task-failed": 1,
        "task-exception": 2,
        "task-group-resolved": 1,
        "task-group-sealed": 1,
    }
    assert expected_events(statuses) == Counter(expected)
    elsewhere = {**_status(_run(0, "completed")), "taskGroupId": "another"}
    assert expected_events([*statuses, elsewhere])["task-group-resolved"] == 2
    assert expected_events([_status(_run(0, None))])["task-running"] == 1
    assert differences(Counter(a=1, b=2), Counter(a=1, c=1), Counter()) == [
        "b: 0 events instead of 2",
        "c: 1 events instead of 0",
    ]


def test_only_claims_that_expired_may_be_unannounced() -> None:
    """… and that only where a host was killed; nothing may come twice."""
    statuses = [_status(_run(0, "claim-expired"), _run(1, "completed", created="retry"))]
    may_miss = unannounced_claims(statuses)
    expected = expected_events(statuses)
    for seen, wrong in ((0, True), (1, False), (2, False), (3, True)):
        found = differences(expected, Counter({**expected, "task-running": seen}), may_miss)
        assert bool(found) == wrong, seen
    assert differences(expected, Counter({**expected, "task-running": 1}), Counter())
    assert differences(expected, Counter({**expected, "task-completed": 0}), may_miss)


def test_the_group_shows_all_that_it_promises() -> None:
    shows = [example.shows for example in EXAMPLES]
    assert len(EXAMPLES) >= 6
    for promise in ("fan-out", "fan-in", "fails", "blows its deadline"):
        assert promise in shows
    for once in ("lose_worker", "rerun", "cancel"):
        assert sum(getattr(example, once) for example in EXAMPLES) == 1
    assert sum(example.abandoned for example in EXAMPLES) > 1


def test_definitions_name_their_dependencies_and_last_as_long_as_they_must() -> None:
    ids = {example.name: f"id-of-{example.name}" for example in EXAMPLES}
    for example in EXAMPLES:
        task = definition(example, task_ids=ids, task_group_id="group", now=NOW)
        own = [f"id-of-{example.name}"] if example.abandoned else []
        assert task["dependencies"] == own + [f"id-of-{name}" for name in example.after]
        assert task["created"] == "2026-03-01T12:00:00.123Z"
        assert task["deadline"] == (NOW + example.deadline).strftime("%Y-%m-%dT%H:%M:%S.123Z")
        assert task["expires"] > task["deadline"]
        assert example.deadline < timedelta(days=5)


def test_tasks_are_created_after_those_that_they_need() -> None:
    a, b = Example(name="a", script="true", after=("b",)), Example(name="b", script="true")
    assert in_order([a, b]) == [b, a]
    created: set[str] = set()
    for example in in_order(EXAMPLES):
        assert created.issuperset(example.after)
        created.add(example.name)
    with pytest.raises(ValueError, match="circle"):
        in_order([a, Example(name="b", script="true", after=("a",))])


def test_the_report_shows_tasks_runs_and_events() -> None:
    status = _status(_run(0, "claim-expired", worker="w1"), _run(1, "completed", worker="w2"))
    assert describe_runs(status) == "0 claim-expired (w1), 1 completed (w2)"
    text = io.StringIO()
    Console(width=160, file=text).print(final_report([FRAGILE], {"fragile": status}, Counter(x=1), Counter(x=2), 160))
    assert "claim-expired (w1)" in text.getvalue()
    assert "x 1 of 2" in text.getvalue()
    assert demo_tasks.EXAMPLES[1].shows in text.getvalue()


def test_everything_fits_a_terminal_of_80_columns_and_24_lines() -> None:
    runs = [_run(0, "claim-expired", worker="worker-1"), _run(1, "completed", worker="worker-3")]
    statuses = {example.name: _status(*runs) for example in EXAMPLES}
    counts = Counter(dict.fromkeys(TOPICS, 12))
    expected = Counter(dict.fromkeys(TOPICS, 13))
    for shown in (
        tasks_table(EXAMPLES, statuses, "After 100 s", 80),
        final_report(EXAMPLES, statuses, counts, expected, 80),
    ):
        text = io.StringIO()
        Console(width=80, file=text).print(shown)
        lines = text.getvalue().splitlines()
        assert len(lines) <= 22, "the last line and the prompt want room as well"
        assert max(map(len, lines)) <= 80
        assert sum("1 completed (worker-3)" in line for line in lines) == len(EXAMPLES), "nothing is cut off"
