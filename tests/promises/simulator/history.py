"""Judges every state that any task was committed in, in the order of the commits (contract 4, design 5). The status
rows alone show where a task has arrived; the history shows that it came there by legal steps: nothing is claimed,
resolved or retried twice, no dependency fires early, and how often a group was resolved."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shared.base.jsontext import read_back
from shared.queue.tasks.codec import complete, decode_definition, decode_task
from shared.queue.tasks.definition import Definition, satisfies
from shared.queue.tasks.effects import row_of
from shared.queue.tasks.rules import RETRY_OF, Created, Resolved, Run, State, Task
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import Row
from tests.parts.twin.gate import Call, Phase

_STEPS = {
    State.PENDING: {State.RUNNING, State.EXCEPTION},
    State.RUNNING: {State.RUNNING, State.PENDING, State.COMPLETED, State.FAILED, State.EXCEPTION},
}
"""Legal changes of a run's state. It goes back from running to pending when no worker has received its claim."""


@dataclass(frozen=True)
class Crossing:
    """A moment at which a group had no unresolved task left, and the number of events published by then."""

    task_group_id: str
    published: int


class History:
    """The first gate of a world: it sees each commit before anything can happen to the answer."""

    def __init__(
        self,
        rows: Callable[[str, str], list[Row]],
        published: Callable[[], int],
    ) -> None:
        """Takes functions: `rows` returns those of a table's partition, `published` the number of events so far."""
        self._rows = rows
        self._published = published
        self.states: dict[str, list[Task]] = defaultdict(list)
        self.versions: dict[str, list[tuple[Task, str]]] = defaultdict(list)
        """The same with the ETag of each."""
        self.definitions: dict[str, Definition] = {}
        self._gone: set[str] = set()
        self.ends: dict[str, list[Task]] = defaultdict(list)
        """The last states of tasks that have expired, and whose id was used again."""
        self.crossings: list[Crossing] = []
        self._before_birth: dict[tuple[str, str], int] = {}
        """By dependent and dependency: states that the dependency had left behind when the dependent was created."""
        self.early: set[str] = set()
        """Tasks that were scheduled before their dependencies were satisfied, as only scheduleTask may do."""
        self.violations: list[str] = []

    def __call__(self, call: Call, phase: Phase) -> None:
        """Notes what a write has changed."""
        if phase is Phase.AFTER and call.kind is Kind.TABLE_WRITE and call.target == keys.TASKS:
            self.note(call.subject)

    def note(self, task_id: str) -> None:
        """Compares a task with its last noted state."""
        rows = {row.key: row for row in self._rows(keys.TASKS, task_id)}
        if keys.TASK_STATUS not in rows:
            self._gone.add(task_id)  # it has expired; its id may be used again
            return
        task = decode_task(rows[keys.TASK_STATUS])
        states = self.states[task_id]
        if states and states[-1] == task:
            return
        is_new = not states or task_id in self._gone
        if is_new:
            if states:
                self.ends[task_id].append(states[-1])
            self._gone.discard(task_id)
            packed = decode_definition(rows[keys.TASK_DEFINITION])
            if packed.whole is not None:
                packed = complete(packed, [row for key, row in rows.items() if key > keys.REST_OF_DEFINITION[0]])
            body = read_back(zlib.decompress(packed.content))
            self.definitions[task_id] = Definition(task_id=task_id, body=body)
        before = None if is_new else states[-1]
        if before is None:
            for required in self.definitions[task_id].dependencies:
                self._before_birth[task_id, required] = max(len(self.states[required]) - 1, 0)
        states.append(task)
        self.versions[task_id].append((task, rows[keys.TASK_STATUS].etag))
        if task.state is State.RUNNING:
            rows_of_pool = {row.key: row.values for row in self._rows(keys.POOLS, keys.pool(task.task_queue_id))}
            found = rows_of_pool.get(keys.claimed(row_of(task, task.last_run_id)))
            if found is None:
                self.violations.append(f"{task_id}, commit {task.sequence}: it runs and has no index row")
            elif found["workerId"] != task.last_run.worker_id:
                self.violations.append(f"{task_id}, commit {task.sequence}: its index row is of {found['workerId']!r}")
        for violation in (*_birth(task), *self._fired(None, task)) if before is None else self._judged(before, task):
            self.violations.append(f"{task_id}, commit {task.sequence}: {violation}")
        self._note_crossing(before, task)

    def resolutions(self, task_group_id: str) -> Counter[tuple[str, int, int]]:
        """Returns how often each task of the group was resolved in each of its generations: by task, generation, and
        how often the id was used before, by a task that has expired."""
        found: Counter[tuple[str, int, int]] = Counter()
        for task_id, states in self.states.items():
            before: Task | None = None
            life = 0
            for task in states:
                if before is not None and task.sequence == 0:
                    before, life = None, life + 1
                if task.task_group_id == task_group_id and task.is_resolved and not (before and before.is_resolved):
                    found[(task_id, task.generation, life)] += 1
                before = task
        return found

    def _judged(self, before: Task, after: Task) -> Iterator[str]:
        if after.sequence != before.sequence + 1:
            yield f"sequence {before.sequence} is followed by {after.sequence}"
        if _fixed(before) != _fixed(after):
            yield "something has changed that never changes"
        if before.satisfied & ~after.satisfied:
            yield "a satisfied dependency is forgotten"
        yield from self._fired(before, after)
        for run_id, (was, run) in enumerate(zip(before.runs, after.runs, strict=False)):
            yield from (f"run {run_id} {violation}" for violation in _step(was, run))
        if len(after.runs) == len(before.runs) + 1:
            yield from _new_run(before, after)
        elif len(after.runs) != len(before.runs):
            yield f"{len(before.runs)} runs become {len(after.runs)}"
        elif before.retries_left != after.retries_left:
            yield "retriesLeft changes without a new run"

    def _fired(self, before: Task | None, after: Task) -> Iterator[str]:
        """Yields dependencies that count as satisfied from now on without having been resolved as the task requires."""
        definition = self.definitions[after.task_id]
        known = 0 if before is None else before.satisfied
        for index, required in enumerate(definition.dependencies):
            if (after.satisfied & ~known) >> index & 1 and not self.was_satisfying(definition, required):
                yield f"fires before {required} is resolved as required"
        started = after.runs and after.runs[0].reason_created is Created.SCHEDULED
        if started and not (before and before.runs) and not after.is_free:
            self.early.add(after.task_id)

    def was_satisfying(self, dependent: Definition, required: str) -> bool:
        """Whether a task was ever resolved as the dependent requires."""
        return any(satisfies(dependent, run.state) for state in self.states.get(required, ()) for run in state.runs)

    def must_have_fired(self, dependent: Definition, required: str) -> bool:
        """Whether a task has been resolved as the dependent requires, at its creation or since.

        One that was opened again before the dependent was created need not count.
        """
        states = self.states.get(required, [])[self._before_birth[dependent.task_id, required] :]
        return any(task.runs and satisfies(dependent, task.last_run.state) for task in states)

    def _note_crossing(self, before: Task | None, after: Task) -> None:
        if not after.is_resolved or (before is not None and before.is_resolved):
            return
        latest = [states[-1] for states in self.states.values() if states]
        members = [task for task in latest if task.task_group_id == after.task_group_id]
        if all(member.is_resolved for member in members):
            self.crossings.append(Crossing(after.task_group_id, self._published()))


def _fixed(task: Task) -> tuple[object, ...]:
    """Returns the properties of a task that never change."""
    place = (task.task_id, task.task_queue_id, task.scheduler_id, task.project_id, task.task_group_id)
    return (*place, task.retries, task.deadline, task.expires, task.dependencies)


def _birth(task: Task) -> Iterator[str]:
    if task.sequence or task.generation or len(task.runs) > 1:
        yield "does not begin at the beginning"
    if task.runs and (task.runs[0].state is not State.PENDING or task.hint_id == ""):
        yield "begins with a run that is not pending, or has no message"


def _step(was: Run, run: Run) -> Iterator[str]:
    """Yields what is illegal in the change of one run."""
    if was == run:
        return
    if run.state not in _STEPS.get(was.state, set()):
        yield f"goes from {was.state} to {run.state}"
    if (was.reason_created, was.scheduled, was.generation) != (run.reason_created, run.scheduled, run.generation):
        yield "has another origin"
    if run.state is State.PENDING and (run.worker_group, run.worker_id, run.taken_until, run.started) != (None,) * 4:
        yield "is pending and held"
    if was.state is State.RUNNING and run.state is not State.PENDING:
        if (was.worker_group, was.worker_id, was.started) != (run.worker_group, run.worker_id, run.started):
            yield "changes hands"
        if was.taken_until and run.taken_until and run.taken_until < was.taken_until:
            yield "is taken for less time than before"
    if run.state.is_resolved and (run.reason_resolved is None or run.reason_resolved.state is not run.state):
        yield f"is {run.state} for the reason {run.reason_resolved}"
    lapsed = run.resolved if run.reason_resolved is Resolved.CLAIM_EXPIRED else None
    if lapsed is not None and was.taken_until is not None and lapsed < was.taken_until:
        yield "expires while it is taken"


def _new_run(before: Task, after: Task) -> Iterator[str]:
    """Yields what is illegal about the run that was added."""
    run = after.last_run
    previous = after.runs[-2] if len(after.runs) > 1 else None
    if run.generation != after.generation:
        yield "the new run is of another generation"
    match run.reason_created:
        case Created.SCHEDULED | Created.EXCEPTION:
            if before.runs:
                yield f"a second first run, {run.reason_created}"
        case Created.RERUN:
            if after.generation != before.generation + before.is_resolved or before.state in _STEPS:
                yield f"a rerun of what is {before.state}"
        case Created.RETRY | Created.TASK_RETRY:
            reason = None if previous is None else previous.reason_resolved
            if before.state is not State.RUNNING or reason is None or RETRY_OF.get(reason) is not run.reason_created:
                yield f"a retry of what is {before.state}, {reason}"
            if after.retries_left != before.retries_left - 1:
                yield "a retry that is not counted"
