"""Events as values: what happened, small enough for a pointer in the `events` queue (design 2.5, contract 10).

Which event announces a transition (contract 10). Each happens once a run, so that its repeat is recognised.

Custom routes as application properties that a Service Bus filter can match exactly (contract 10, CC keys).

A message has any number of routes up to 64, and a SQL filter knows only LIKE, whose `%` crosses dots and the border to
the next route. So routes are written twice:

* `routes` has all of them: `|.index.project.latest.|.notify.by-email.|`. A run of whole words is found in it exactly.
* `cc0`, `cc1`, … have one route each, its words numbered in base 36: `00|index.01|project.02|latest.03`. A `%`
  between two numbers cannot leave its word, which makes patterns with `*` exact.

In both, `|` in a route is written `~1` and `~` is written `~0`, so that `|` and `.` are ours alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from shared.base.frozen import dataclass, replace
from shared.base.priority import Priority
from shared.base.protocol import REPEATS_RECOGNISED
from shared.queue.artifacts.rules import Artifact
from shared.queue.tasks.rules import MAX_RUNS, RETRY_OF, Created, PriorityChange, Resolved, State, Task


class Exchange(StrEnum):
    """The exchanges by their short names, which are the topics' names."""

    TASK_DEFINED = "task-defined"
    TASK_PENDING = "task-pending"
    TASK_RUNNING = "task-running"
    ARTIFACT_CREATED = "artifact-created"
    TASK_COMPLETED = "task-completed"
    TASK_FAILED = "task-failed"
    TASK_EXCEPTION = "task-exception"
    TASK_GROUP_RESOLVED = "task-group-resolved"
    TASK_GROUP_SEALED = "task-group-sealed"
    TASK_PRIORITY_CHANGED = "task-priority-changed"
    TASK_GROUP_PRIORITY_CHANGED = "task-group-priority-changed"


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactEvent:
    """An artifact as its artifact-created message has it, and its version, which the message does not show."""

    storage_type: str
    name: str
    expires: datetime
    content_type: str
    version: str = ""
    """Version of the artifact. It changes with the content, and is not shown in the message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What the status row of a task forgets: enough to restore the status of an earlier time from a later one. It says
    nothing of earlier runs than the last one, which are resolved and never change. Nor do a run's dates and worker."""

    priority: Priority
    runs: int
    """How many runs there were."""
    state: State
    """The state of the last run, `unscheduled` without runs."""
    taken_until: datetime | None = None
    """takenUntil of the last run, if that was running. A reclaim replaces it in the status row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskEvent:
    """Something that happened to a task. With its definition and status row it renders the message."""

    exchange: Exchange
    task_id: str
    run_id: int | None = None
    retries_left: int
    """The task's retries that were left right after the transition."""
    has_worker: bool = True
    """Whether the message names the run's worker. That of task-exception does not if the deadline did it."""
    artifact: ArtifactEvent | None = None
    old_priority: Priority | None = None
    new_priority: Priority | None = None
    sequence: int | None = None
    """The status row's sequence number, for task-priority-changed, which may happen more than once a run."""
    snapshot: Snapshot | None = None
    """The task right after the transition; None until the event is rendered for the first time, which takes it."""
    life: str = ""
    """Tells apart tasks that had the same id (`Task.life`). Empty until the event is first rendered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupEvent:
    """Something that happened to a task group."""

    exchange: Exchange
    task_group_id: str
    scheduler_id: str
    occasion: str
    """Distinguishes occasions of the same kind: what the group's `due` said, or when it was asked for."""
    expires: datetime | None = None
    sealed: datetime | None = None
    new_priority: Priority | None = None
    tasks_affected: int | None = None


Event = TaskEvent | GroupEvent


def _event(exchange: Exchange, task: Task, run_id: int | None = None) -> TaskEvent:
    left = task.retries_left if run_id is None else _retries_left(task, run_id)
    return TaskEvent(exchange=exchange, task_id=task.task_id, run_id=run_id, retries_left=left)


def _retries_left(task: Task, run_id: int) -> int:
    """Returns the retries that were left when the run became pending, since an event may be announced once more after
    later runs: each retry uses one, and a rerun restores as many as there may be runs."""
    left = task.retries
    for number, run in enumerate(task.runs[: run_id + 1]):
        if run.reason_created is Created.RERUN:
            left = min(task.retries, MAX_RUNS - (number + 1))
        elif run.reason_created in RETRY_OF.values():
            left -= 1
    return left


def defined(task: Task) -> TaskEvent:
    """Returns the taskDefined event: it shows the task as it was first, unscheduled."""
    return replace(_event(Exchange.TASK_DEFINED, task), retries_left=task.retries)


def pending(task: Task, run_id: int) -> TaskEvent:
    """Returns the taskPending event of a run."""
    return _event(Exchange.TASK_PENDING, task, run_id)


def pending_again(task: Task, run_id: int, now: datetime) -> tuple[TaskEvent, ...]:
    """Returns the taskPending event of a run for the repeat of a call that made the run pending: the first call may
    have died before it announced that. Also if a worker has claimed the run meanwhile, but only for as long as Service
    Bus recognises a repeat of the event."""
    run = task.runs[run_id]
    is_pending = run_id == task.last_run_id and run.state is State.PENDING
    if run.reason_created is Created.EXCEPTION or not (is_pending or now - run.scheduled < REPEATS_RECOGNISED):
        return ()
    return (pending(task, run_id),)


def resolved_again(task: Task, run_id: int, now: datetime) -> tuple[TaskEvent, ...]:
    """Returns the event of a run's resolution for the handler of that resolution: the call that made it may have died
    before it announced it, and its client may be gone. Returns none once a repeat would not be recognised."""
    resolved_at = task.runs[run_id].resolved
    if resolved_at is None or now - resolved_at >= REPEATS_RECOGNISED:
        return ()
    return (resolved(task, run_id),)


def running(task: Task, run_id: int) -> TaskEvent:
    """Returns the taskRunning event of a run that was claimed."""
    return _event(Exchange.TASK_RUNNING, task, run_id)


def is_undone(event: TaskEvent, task: Task) -> bool:
    """Returns whether the event announces a claim that was given back, as its event may not have been sent."""
    if event.exchange is not Exchange.TASK_RUNNING or event.run_id is None or event.run_id > task.last_run_id:
        return False
    return task.runs[event.run_id].state is State.PENDING


def resolved(task: Task, run_id: int) -> TaskEvent:
    """Returns the taskCompleted, taskFailed or taskException event of a run, by its state."""
    state = task.runs[run_id].state
    if state is State.EXCEPTION:
        return exception(task, run_id)
    return _event(Exchange.TASK_COMPLETED if state is State.COMPLETED else Exchange.TASK_FAILED, task, run_id)


def exception(task: Task, run_id: int) -> TaskEvent:
    """Returns the taskException event of a run. If the run is retried, the event counts that retry; if the deadline has
    ended it, the event names no worker (contract 10)."""
    has_worker = task.runs[run_id].reason_resolved is not Resolved.DEADLINE_EXCEEDED
    was_retried = run_id < task.last_run_id and task.runs[run_id + 1].reason_created in RETRY_OF.values()
    left = _retries_left(task, run_id + was_retried)
    return replace(_event(Exchange.TASK_EXCEPTION, task, run_id), has_worker=has_worker, retries_left=left)


def priority_changed(task: Task, change: PriorityChange) -> TaskEvent:
    """Returns the taskPriorityChanged event. The sequence number distinguishes occasions in a run."""
    event = _event(Exchange.TASK_PRIORITY_CHANGED, task)
    return replace(event, old_priority=change.old, new_priority=task.priority, sequence=change.sequence)


def priority_changed_again(task: Task, now: datetime) -> tuple[TaskEvent, ...]:
    """Returns the event of the latest change of the priority, for calls that meet the task afterwards: the call that
    made it may have died before it announced it. Returns none once a repeat of the event is not recognised."""
    change = task.priority_change
    return () if change is None or now - change.at >= REPEATS_RECOGNISED else (priority_changed(task, change),)


def artifact_created(task: Task, run_id: int, artifact: Artifact) -> TaskEvent:
    """Returns the artifactCreated event. Name, version and expiration tell apart what is created in a run, or again."""
    said = ArtifactEvent(
        storage_type=artifact.storage_type.value,
        name=artifact.name,
        expires=artifact.expires,
        content_type=artifact.content_type,
        version=artifact.version,
    )
    return replace(_event(Exchange.ARTIFACT_CREATED, task, run_id), artifact=said)


MAX_ROUTES = 64
"""The most routes that a task can have (contract 3.1)."""
MAX_ROUTES_BYTES = 32_000
"""The most UTF-8 bytes of the `routes` property: Service Bus takes 32 KB a property."""
MAX_PROPERTIES_BYTES = 62_000
"""The most UTF-8 bytes of all properties that routes become: Service Bus takes 64 KB, with the primary key's words."""
ROUTES = "routes"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def slot(index: int) -> str:
    """Returns the name of the property that holds one route."""
    return f"cc{index}"


def escape(word: str) -> str:
    """Returns a word without the signs that the encodings use."""
    return word.replace("~", "~0").replace("|", "~1")


def number(position: int) -> str:
    """Returns a word's position in a route: two digits in base 36."""
    return _DIGITS[position // 36] + _DIGITS[position % 36]


def check_routes(routes: Sequence[str]) -> None:
    """Raises ValueError if messages could not carry these routes; to be asked before a task is created. Everything that
    contract 3.1 allows in ASCII passes, unless nearly every character is a dot or one that is escaped."""
    route_properties(routes)


def route_properties(routes: Sequence[str]) -> dict[str, str]:
    """Returns the application properties of the routes; none without routes. Raises ValueError as `check_routes`."""
    if not routes:
        return {}
    if len(routes) > MAX_ROUTES:
        raise ValueError(f"a task can have {MAX_ROUTES} routes, not {len(routes)}")
    properties = {ROUTES: "|" + "".join(f".{escape(route)}.|" for route in routes)}
    for index, route in enumerate(routes):
        words = route.split(".")
        numbered = "".join(f"{number(position)}|{escape(word)}." for position, word in enumerate(words))
        properties[slot(index)] = numbered + number(len(words))
    try:
        sizes = [len(name) + len(value.encode()) for name, value in properties.items()]
    except UnicodeEncodeError as error:
        raise ValueError("a route has characters that are not valid Unicode") from error
    if sizes[0] > MAX_ROUTES_BYTES or sum(sizes) > MAX_PROPERTIES_BYTES:
        raise ValueError("the routes are too long altogether to be announced: shorten them")
    return properties
