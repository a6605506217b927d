"""The demo's task groups: what each task does, and how it has to end. Pure; time and ids are passed in."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

TASK_QUEUE_ID = "demo/local"
SCHEDULER_ID = "demo"
CLAIM_EXPIRED = "claim-expired"

Status = Mapping[str, Any]
"""A task status structure (contract 4.1)."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """One task of the group; `ends` is how its last run resolves."""

    name: str
    script: str
    after: tuple[str, ...] = ()
    state: str = "completed"
    ends: str = "completed"
    deadline: timedelta = timedelta(hours=1)
    priority: str = "low"
    lose_worker: bool = False
    """Whether the task's first worker is killed in the middle of it."""
    rerun: bool = False
    """Whether the task fails the first time, and is then rerun by the client."""
    cancel: bool = False
    """Whether the client cancels the task before it can start."""
    abandoned: bool = False
    """Whether the task is in a second group, which is sealed and cancelled as a whole before any can start."""

    @property
    def shows(self) -> str:
        """Purpose of the task in the demo."""
        if self.lose_worker:
            return "its worker is killed, its claim expires, another worker retries it"
        if self.rerun:
            return "fails, and passes when it is rerun"
        if self.cancel:
            return "is cancelled before it can start"
        if self.abandoned:
            return "is cancelled with its sealed group"
        if self.ends == "deadline-exceeded":
            return "blows its deadline"
        if self.state == "failed":
            return "fails"
        if len(self.after) > 1:
            return "fan-in"
        return "fan-out" if self.after else "a start"


EXAMPLES = (
    Example(
        name="hang",
        script="sleep 600",
        state="exception",
        ends="deadline-exceeded",
        deadline=timedelta(seconds=22),
    ),
    Example(name="fragile", script="sleep 5", priority="high", lose_worker=True),
    Example(name="build", script="echo building; sleep 1; echo built"),
    Example(name="test-unit", script="sleep 1; echo 212 passed", after=("build",)),
    Example(name="test-integration", script="sleep 2; echo 31 passed", after=("build",)),
    Example(name="test-docs", script="echo all links work", after=("build",)),
    Example(name="lint", script="echo 'line too long'; exit 1", state="failed", ends="failed"),
    Example(name="flaky", script='test "$RUN_ID" -gt 0', rerun=True),
    Example(name="obsolete", script="echo never", after=("fragile",), state="exception", ends="canceled", cancel=True),
    Example(name="old-docs", script="echo never", state="exception", ends="canceled", abandoned=True),
    Example(name="old-site", script="echo never", state="exception", ends="canceled", abandoned=True),
    Example(name="publish", script="echo published", after=("test-unit", "test-integration", "test-docs")),
)


def definition(
    example: Example, *, task_ids: Mapping[str, str], task_group_id: str, now: datetime, max_run_time: int = 900
) -> dict[str, Any]:
    """Returns the task definition (contract 3.1) of an example. `now` is when it is created."""
    return {
        "taskQueueId": TASK_QUEUE_ID,
        "schedulerId": SCHEDULER_ID,
        "taskGroupId": task_group_id,
        "dependencies": [task_ids[name] for name in (example.name, *example.after)[not example.abandoned :]],
        "priority": example.priority,
        "created": _text(now),
        "deadline": _text(now + example.deadline),
        "expires": _text(now + timedelta(days=1)),
        "payload": {"command": ["/bin/sh", "-c", example.script], "maxRunTime": max_run_time},
        "metadata": {
            "name": example.name,
            "description": f"Part of the demo: {example.shows}.",
            "owner": "demo@example.com",
            "source": "https://example.com/demo",
        },
    }


def in_order(examples: Sequence[Example]) -> list[Example]:
    """Returns the examples in an order in which each one comes after those that it depends on."""
    ordered: list[Example] = []
    waiting = list(examples)
    while waiting:
        known = {example.name for example in ordered}
        ready = [example for example in waiting if known.issuperset(example.after)]
        if not ready:
            raise ValueError("the examples depend on each other in a circle")
        ordered += ready
        waiting = [example for example in waiting if example not in ready]
    return ordered


def is_resolved(status: Status) -> bool:
    """Returns whether nothing more happens to the task, or to the run."""
    return status["state"] in ("completed", "failed", "exception")


def problem(example: Example, status: Status) -> str | None:
    """Returns what is wrong with how a task ended, or None. Runs whose claim expired may precede the last one. There is
    at least one if the worker was killed, and there may be any number otherwise, since a worker may lose its claim if a
    host is killed. A task that is rerun has a failed run before."""
    *earlier, last = [run.get("reasonResolved", run["state"]) for run in status["runs"]] or ["no run"]
    if status["state"] != example.state or last != example.ends:
        return f"is {status['state']} ({last}) instead of {example.state} ({example.ends})"
    other = [reason for reason in earlier if reason != CLAIM_EXPIRED and not (example.rerun and reason == "failed")]
    if other:
        return f"has an earlier run that ended as {other[0]}"
    if example.lose_worker and not earlier:
        return "was not retried"
    if example.rerun and not earlier:
        return "was not rerun"
    return None


def expected_events(statuses: Sequence[Status]) -> Counter[str]:
    """Returns how many events each exchange must have seen, given how the tasks of both groups ended (contract 10)."""
    events: Counter[str] = Counter()
    for status in statuses:
        events["task-defined"] += 1
        for run in status["runs"]:
            events["task-pending"] += run["reasonCreated"] != "exception"
            events["task-running"] += "started" in run
            if is_resolved(run):
                events[f"task-{run['state']}"] += 1
                # Before the worker reports a run, it links the whole log to the name of the live one.
                events["artifact-created"] += run["state"] != "exception"
    events["task-group-resolved"] += len({status["taskGroupId"] for status in statuses})
    events["task-group-sealed"] += 1
    return +events


def unannounced_claims(statuses: Sequence[Status]) -> Counter[str]:
    """Returns how many events may be missing if a host was killed: those of claims that it had not answered yet. No
    worker received such a claim, so its event is not owed (design 7): the claim expires, and the run is retried."""
    lost = [run for status in statuses for run in status["runs"] if run.get("reasonResolved") == CLAIM_EXPIRED]
    return Counter({"task-running": len(lost)})


def differences(expected: Counter[str], seen: Counter[str], may_miss: Counter[str]) -> list[str]:
    """Returns what is wrong with the events, a sentence each."""
    return [
        f"{exchange}: {seen[exchange]} events instead of {expected[exchange]}"
        for exchange in sorted(expected.keys() | seen.keys())
        if not expected[exchange] - may_miss[exchange] <= seen[exchange] <= expected[exchange]
    ]


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
