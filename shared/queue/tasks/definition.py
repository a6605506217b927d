"""A task's definition, which never changes, and the rules for a new task's dates and dependencies (contract 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, TypeVar

from shared.base.dates import format_date, parse_date
from shared.base.errors import InputError, RequestConflict
from shared.base.frozen import dataclass, replace
from shared.base.priority import Priority
from shared.base.protocol import CLIENT_CLOCK_SKEW
from shared.queue.events import rules as announcements
from shared.queue.events.rules import check_routes
from shared.queue.tasks.effects import Decision
from shared.queue.tasks.rules import State, Task
from shared.queue.tasks.transitions import put_deadline, put_pending_run

Json = Mapping[str, Any]
"""A JSON object as parsed."""


class Requires(StrEnum):
    """Which ends of its dependencies satisfy a task."""

    ALL_COMPLETED = "all-completed"
    ALL_RESOLVED = "all-resolved"


T = TypeVar("T")
_texts: Callable[[Any], tuple[str, ...]] = tuple
_priority: Callable[[Any], Priority] = str  # type: ignore[assignment]  # the schema allows no others
_json: Callable[[Any], Json] = dict


class _Read(Generic[T]):
    """Descriptor for a property of a definition's body, which is read once. `cached_property` takes a lock."""

    def __init__(self, name: str, kind: Callable[[Any], T]) -> None:
        self._name, self._kind = name, kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    def __get__(self, definition: Definition, owner: type) -> T:
        value = definition.__dict__[self._attribute] = self._kind(definition.body[self._name])
        return value


@dataclass(frozen=True)
class Definition:
    """What createTask was given, with every default filled in and every date normalised (contract 3.1). `body` is the
    object that the `task` endpoint returns, except that its priority is the one at creation."""

    task_id: str
    body: Json

    task_queue_id = _Read("taskQueueId", str)
    scheduler_id = _Read("schedulerId", str)
    project_id = _Read("projectId", str)
    task_group_id = _Read("taskGroupId", str)
    dependencies = _Read("dependencies", _texts)
    routes = _Read("routes", _texts)
    priority = _Read("priority", _priority)
    retries = _Read("retries", int)
    scopes = _Read("scopes", _texts)
    tags = _Read("tags", _json)
    created = _Read("created", parse_date)
    deadline = _Read("deadline", parse_date)
    expires = _Read("expires", parse_date)

    @cached_property
    def dependency_index(self) -> Mapping[str, int]:
        """Position of each dependency: the bit that stands for it in the satisfied set."""
        return {task_id: index for index, task_id in enumerate(self.dependencies)}

    def at_priority(self, priority: Priority) -> Json:
        """Returns the definition as it reads after priority changes."""
        return self.body if priority == self.priority else {**self.body, "priority": priority}


def same_json(left: Any, right: Any) -> bool:
    """Returns whether JSON is deeply equal (contract 3.5): numbers as JavaScript's, none equals a boolean (trap 24)."""
    if isinstance(left, dict):
        if not isinstance(right, dict) or left.keys() != right.keys():
            return False
        return all(same_json(value, right[name]) for name, value in left.items())
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


LATEST_EXPIRES = datetime(9999, 12, 1, tzinfo=UTC)
"""The latest expiration of a task: what outlasts the task (its group, its deletion) must still have a date."""
MAX_DEPENDENCIES = 10_000
MOST_NAMED = 100
"""The most dependencies that one refusal names."""


def check_definition(definition: Definition, now: datetime, max_deadline: timedelta) -> None:
    """Checks the rules for a definition's meaning that need no storage. Raises InputError."""
    if not now - CLIENT_CLOCK_SKEW <= definition.created <= now + CLIENT_CLOCK_SKEW:
        raise InputError(f"`created` must be within 15 minutes of the present time, {format_date(now)}")
    if definition.created > definition.deadline:
        raise InputError("`deadline` must not be before `created`")
    if definition.deadline < now:
        raise InputError("`deadline` must be in the future")
    if definition.deadline > now + max_deadline + CLIENT_CLOCK_SKEW:
        raise InputError(f"`deadline` must be at most {max_deadline.days} days in the future")
    if definition.expires > LATEST_EXPIRES:
        raise InputError(f"`expires` must not be after {format_date(LATEST_EXPIRES)}")
    if definition.expires < definition.deadline:
        raise InputError("`expires` must not be before `deadline`")
    if len(definition.dependencies) > MAX_DEPENDENCIES:
        raise InputError(
            f"`dependencies` names {len(definition.dependencies)} tasks; at most {MAX_DEPENDENCIES} are allowed"
        )
    for scope in definition.scopes:
        if scope.endswith("**"):
            raise InputError(f"scope {scope!r} must not end with two stars")
    try:
        check_routes(definition.routes)
    except ValueError as error:
        raise InputError(str(error)) from error


def initial_task(definition: Definition) -> Task:
    """Returns the task before its first run."""
    return Task(
        task_id=definition.task_id,
        task_queue_id=definition.task_queue_id,
        scheduler_id=definition.scheduler_id,
        project_id=definition.project_id,
        task_group_id=definition.task_group_id,
        priority=definition.priority,
        retries=definition.retries,
        retries_left=definition.retries,
        deadline=definition.deadline,
        expires=definition.expires,
        dependencies=len(definition.dependencies),
    )


def refuse_dependencies(definition: Definition, found: Mapping[str, Task | None]) -> None:
    """Raises InputError for dependencies that are missing, and for those that expire before this task's deadline.
    `found` has the dependencies that were read, or as many missing ones as a refusal names."""
    missing = [task_id for task_id, required in found.items() if required is None]
    if missing:
        raise InputError(f"`dependencies` names tasks that do not exist: {', '.join(missing[:MOST_NAMED])}")
    early = [
        task_id
        for task_id, required in found.items()
        if required is not None and required.expires < definition.deadline
    ]
    if early:
        raise InputError(f"`dependencies` names tasks that expire before the deadline: {', '.join(early[:MOST_NAMED])}")


def satisfied_by(definition: Definition, states: Mapping[str, State]) -> int:
    """Returns the dependencies, as a bitmap, that are satisfied by tasks in these states (contract 6)."""
    satisfied = 0
    for task_id, state in states.items():
        index = definition.dependency_index.get(task_id)
        if index is not None and satisfies(definition, state):
            satisfied |= 1 << index
    return satisfied


def decide_new_task(task: Task, now: datetime) -> Decision:
    """Decides createTask: returns the decision for a new task, with the writes ahead of its commit and its events."""
    ahead = (put_deadline(task), *(put_pending_run(task, 0) if task.runs else ()))
    return replace(create_again(task, now), task=task, ahead=ahead)


def create_again(task: Task, now: datetime) -> Decision:
    """Decides createTask for a task that exists: it is announced once more."""
    pending = announcements.pending_again(task, 0, now) if task.runs else ()
    return Decision(task=None, events=(announcements.defined(task), *pending))


def satisfies(dependent: Definition, state: State) -> bool:
    """Returns whether a required task in that state unblocks the dependent (contract 6)."""
    return state is State.COMPLETED or (state.is_resolved and dependent.body["requires"] == Requires.ALL_RESOLVED)


def refuse_other_definition(wanted: Definition, existing: Definition, task: Task) -> None:
    """Raises RequestConflict if createTask is repeated with another definition (contract 3.5). A task whose priority
    was changed has another definition."""
    stored = existing.at_priority(task.priority)
    if not same_json(wanted.body, stored):
        names = sorted(name for name in wanted.body if not same_json(wanted.body[name], stored.get(name)))
        raise RequestConflict(f"task {wanted.task_id} exists with another definition; these differ: {', '.join(names)}")
