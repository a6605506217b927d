"""Events rendered as the messages of contract 10, with routing keys, as of when they happened (design 2.5). Pure. An
event that is rendered for the first time, right after its transition, takes a snapshot of what the status row forgets.
A pointer keeps the snapshot, so that the event looks the same when it is rendered again, however late."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.base.dates import format_date
from shared.base.frozen import dataclass, replace
from shared.base.jsontext import write
from shared.queue.events.exchanges import NO_WORD, PRIMARY
from shared.queue.events.rules import Event, Exchange, GroupEvent, Snapshot, TaskEvent, route_properties
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.rules import Created, Run, State, Task

SIZE_LIMIT = 256_000
"""Bytes of a message in the Standard tier (256 KB), less what the protocol adds."""
_OVERHEAD = 1_000
"""Generous size of a message's header: message id, subject, content type, types and lengths."""
_MAX_OCCASION = 64
_WITH_TAGS = frozenset(Exchange) - {Exchange.ARTIFACT_CREATED, Exchange.TASK_PRIORITY_CHANGED}
_STATES = {
    Exchange.TASK_PENDING: State.PENDING,
    Exchange.TASK_RUNNING: State.RUNNING,
    Exchange.TASK_COMPLETED: State.COMPLETED,
    Exchange.TASK_FAILED: State.FAILED,
    Exchange.TASK_EXCEPTION: State.EXCEPTION,
}
_RETRIES = frozenset({Created.RETRY, Created.TASK_RETRY})


@dataclass(frozen=True, kw_only=True, slots=True)
class EventMessage:
    """A message ready to be sent. `topic` is the exchange's short name, without the deployment's prefix."""

    event: Event
    """The event with its snapshot, as a pointer keeps it."""
    topic: str
    message_id: str
    """The MessageId, the same for each repeat of the event, by which topics drop repeats; at most 128 characters."""
    subject: str
    body: bytes
    properties: Mapping[str, str]

    @property
    def size(self) -> int:
        """About how many bytes it has on the wire, rounded up."""
        properties = "".join((*self.properties, *self.properties.values())).encode()
        return len(self.body) + len(properties) + 10 * len(self.properties) + _OVERHEAD


def render(event: TaskEvent, definition: Definition, task: Task, size_limit: int = SIZE_LIMIT) -> EventMessage:
    """Returns the message of something that happened to a task, as of then: later runs and changes are left out. `task`
    with the tags is left out beyond `size_limit` bytes. Raises ValueError if the event cannot have happened to it."""
    then = _as_of(event, definition, task)
    taken_until = then.last_run.taken_until if then.state is State.RUNNING else None
    snapshot = Snapshot(priority=then.priority, runs=len(then.runs), state=then.state, taken_until=taken_until)
    event = replace(event, snapshot=snapshot, life=task.life)
    run = None if event.run_id is None else then.runs[event.run_id]
    words = _task_words(event, then, run)
    body: dict[str, Any] = {"version": 1, "status": then.as_json(), **_particulars(event, words, run)}
    properties = {**_key(words), **route_properties(definition.routes)}
    life = task.life  # tells apart tasks that had the same id
    if event.exchange is Exchange.TASK_RUNNING and run is not None and run.started is not None:
        # A claim that may not have been announced is given back, and the run claimed again.
        life = f"{life}{round(run.started.timestamp() * 1000):x}"
    if event.exchange in _WITH_TAGS:
        message = _message(event, {**body, "task": {"tags": dict(definition.tags)}}, properties, life)
        if message.size <= size_limit:
            return message
    return _message(event, body, properties, life)


def render_group(event: GroupEvent) -> EventMessage:
    """Returns the message of something that happened to a task group."""
    words = {
        "routingKeyKind": PRIMARY,
        "taskGroupId": event.task_group_id,
        "schedulerId": event.scheduler_id,
        "reserved": NO_WORD,
    }
    body: dict[str, Any] = {"version": 1, "taskGroupId": event.task_group_id, "schedulerId": event.scheduler_id}
    if event.exchange is Exchange.TASK_GROUP_PRIORITY_CHANGED:
        body |= {"newPriority": event.new_priority, "tasksAffected": event.tasks_affected}
    else:
        body |= _dates(expires=event.expires, sealed=event.sealed)
    return _message(event, body, _key(words))


def _as_of(event: TaskEvent, definition: Definition, task: Task) -> Task:
    """Returns the task right after the transition that the event announces."""
    left = event.retries_left
    if (snapshot := event.snapshot) is not None:
        if len(task.runs) < max(snapshot.runs, 0 if event.run_id is None else event.run_id + 1):
            raise ValueError(f"task {task.task_id} has no run {snapshot.runs - 1} for {event.exchange.value}")
        runs = task.runs[: snapshot.runs]
        if runs:
            last = _run_in(snapshot.state, event, snapshot.runs - 1, runs[-1], snapshot.taken_until)
            runs = (*runs[:-1], last)
        return replace(task, retries_left=left, priority=snapshot.priority, runs=runs)
    if event.exchange is Exchange.TASK_DEFINED:
        return replace(task, retries_left=left, runs=(), priority=definition.priority)
    if event.exchange is Exchange.TASK_PRIORITY_CHANGED:
        return replace(task, retries_left=left, priority=event.new_priority or task.priority)
    if event.run_id is None or event.run_id >= len(task.runs):
        raise ValueError(f"task {task.task_id} has no run {event.run_id} for {event.exchange.value}")
    run = task.runs[event.run_id]
    then = _run_in(_STATES.get(event.exchange, run.state), event, event.run_id, run, run.taken_until)
    runs = (*task.runs[: event.run_id], then)
    if event.exchange is Exchange.TASK_EXCEPTION:
        # The retry run is created in the same commit. Consumers see by it that the task is not resolved (trap 16).
        runs += tuple(_pending(run) for run in task.runs[len(runs) :][:1] if run.reason_created in _RETRIES)
    return replace(task, retries_left=left, runs=runs)


def _pending(run: Run) -> Run:
    """Returns the run as it was before anybody claimed it."""
    return Run(
        state=State.PENDING, reason_created=run.reason_created, scheduled=run.scheduled, generation=run.generation
    )


def _run_in(state: State, event: TaskEvent, run_id: int, run: Run, taken_until: datetime | None) -> Run:
    """Returns the run as it was in that state; while it was running, `taken_until` was the end of its claim. Raises
    ValueError if it was resolved otherwise."""
    if state is State.PENDING:
        return _pending(run)
    if state is State.RUNNING:
        return replace(run, state=state, taken_until=taken_until, reason_resolved=None, resolved=None)
    if run.state is not state:
        raise ValueError(f"run {run_id} of task {event.task_id} is {run.state.value}, not {state.value}")
    return run


def _task_words(event: TaskEvent, then: Task, run: Run | None) -> dict[str, str]:
    """Returns the words of the primary routing key by their names, in order."""
    provisioner_id, worker_type = then.task_queue_id.split("/", 1)
    held = run if event.has_worker else None
    return {
        "routingKeyKind": PRIMARY,
        "taskId": then.task_id,
        "runId": NO_WORD if event.run_id is None else str(event.run_id),
        "workerGroup": (held and held.worker_group) or NO_WORD,
        "workerId": (held and held.worker_id) or NO_WORD,
        "provisionerId": provisioner_id,
        "workerType": worker_type,
        "schedulerId": then.scheduler_id,
        "taskGroupId": then.task_group_id,
        "reserved": NO_WORD,
    }


def _particulars(event: TaskEvent, words: Mapping[str, str], run: Run | None) -> dict[str, Any]:
    """Returns what the message says besides the status."""
    if event.exchange is Exchange.TASK_PRIORITY_CHANGED:
        return {"oldPriority": event.old_priority, "newPriority": event.new_priority}
    if run is None:
        return {}
    said: dict[str, Any] = {"runId": event.run_id}
    said |= {name: words[name] for name in ("workerGroup", "workerId") if words[name] != NO_WORD}
    if event.exchange is Exchange.TASK_RUNNING:
        said |= _dates(takenUntil=run.taken_until)
    if event.artifact is not None:
        artifact = event.artifact
        said["artifact"] = {
            "storageType": artifact.storage_type,
            "name": artifact.name,
            "expires": format_date(artifact.expires),
            "contentType": artifact.content_type,
        }
    return said


def _dates(**dates: datetime | None) -> dict[str, str]:
    return {name: format_date(date) for name, date in dates.items() if date is not None}


def _key(words: Mapping[str, str]) -> dict[str, str]:
    """Returns the routing key as properties: the whole key, and each word under its own name."""
    return {"routingKey": ".".join(words.values()), **words}


def _message(event: Event, body: Mapping[str, Any], properties: Mapping[str, str], life: str = "") -> EventMessage:
    return EventMessage(
        event=event,
        topic=event.exchange.value,
        message_id=_message_id(event, life),
        subject=event.exchange.value,
        body=write(body),
        properties=properties,
    )


def _message_id(event: Event, life: str) -> str:
    """Returns the MessageId, of task or group, run, kind, `life`, and what tells apart events of one kind in a run."""
    kind = event.exchange.value
    if isinstance(event, GroupEvent):
        occasion = event.occasion if len(event.occasion) <= _MAX_OCCASION else _digest(event.occasion)
        return f"{event.task_group_id}/{kind}/{occasion}"
    words = [event.task_id, NO_WORD if event.run_id is None else str(event.run_id), kind]
    if life:
        words.append(life)
    if event.artifact is not None:
        words.append(
            _digest("\n".join((event.artifact.name, event.artifact.version, format_date(event.artifact.expires))))
        )
    elif event.exchange is Exchange.TASK_PRIORITY_CHANGED:
        words.append(str(event.sequence))
    return "/".join(words)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
