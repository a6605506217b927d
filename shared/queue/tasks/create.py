"""createTask and defineTask (design 5, 6, contract 2.4, 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from shared.base import bounds
from shared.base.concurrency import both, in_waves, together
from shared.base.errors import ApiError, InputError
from shared.base.frozen import replace
from shared.queue.groups.membership import NO_EDGES, MemberExists, Membership
from shared.queue.groups.rows import Edges
from shared.queue.tasks import definition as creation
from shared.queue.tasks import transitions
from shared.queue.tasks.ahead import WriteAhead
from shared.queue.tasks.codec import PackedDefinition, pack_definition
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.effects import AddPendingRow, ChangePoolRows
from shared.queue.tasks.executor import Executor, Stores
from shared.queue.tasks.rows import CommitInDoubt, CommitLost, Loaded
from shared.queue.tasks.rules import State, Task


@dataclass
class _Attempt:
    """One call of createTask: what it makes, and what it has to roll back if it is refused."""

    definition: Definition
    packed: PackedDefinition
    task: Task
    ahead: WriteAhead
    now: datetime
    groups: dict[str, str] = field(default_factory=dict)
    """The groups of the dependencies that exist."""
    found: dict[str, Task | None] = field(default_factory=dict)
    """Dependencies whose status rows were read, as they were then."""
    states: dict[str, State] = field(default_factory=dict)
    """The states of dependencies, each as it was at some moment of the call."""
    roll_back: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    number: int = 0
    """The number of the group as of which the task's rows in it were written."""
    is_guarded: bool = False
    """Whether no dependency in the group was settled when the edges out of all of them were written."""
    member_existed: bool = False
    """Whether an earlier call has added the member row. The task may then exist, or its commit may be under way."""

    def note_dependency(self, task_id: str, task: Task | None) -> None:
        """Notes a dependency that was read. One that was satisfied once during the call counts as that for good."""
        self.found[task_id] = task
        if task is not None:
            self.groups[task_id] = task.task_group_id
            if not self.is_satisfied(task_id):
                self.states[task_id] = task.state

    def is_satisfied(self, task_id: str) -> bool:
        """Returns whether a dependency is satisfied already."""
        state = self.states.get(task_id)
        return state is not None and bool(creation.satisfied_by(self.definition, {task_id: state}))

    @property
    def edges(self) -> Edges:
        """The edges to dependencies of the task's own group, including the edge of a task that waits for itself."""
        own, group = self.definition.task_id, self.definition.task_group_id
        required = [each for each in self.definition.dependencies if each == own or self.groups[each] == group]
        return Edges.of(own, required, [each for each in required if self.is_satisfied(each)])

    async def withdraw(self) -> None:
        """Rolls back what this call alone has written ahead: as many edges at a time as were written."""
        await both(self.ahead.withdraw(), in_waves(bounds.ROWS_AT_A_TIME, lambda undo: undo(), self.roll_back))


@dataclass(eq=False, repr=False)
class CreateTask:
    """Creates a task. Everything that the task needs is written ahead of the one commit that makes it exist."""

    _stores: Stores
    _executor: Executor
    _membership: Membership
    _max_deadline: timedelta

    async def __call__(self, definition: Definition) -> Task:
        """Creates the task, or finds it created with an equal definition; returns its present status. Raises
        InputError, RequestConflict, ServiceUnavailable, StorageUnavailable."""
        runtime = self._stores.runtime
        now = runtime.now()
        creation.check_definition(definition, now, self._max_deadline)
        task = creation.initial_task(definition)
        if not definition.dependencies:
            task = transitions.with_first_run(task, now, runtime.slugid())
        packed = await pack_definition(definition)
        attempt = _Attempt(definition, packed, task, self._stores.write_ahead(), now)
        try:
            return await self._create_from(attempt)
        except CommitInDoubt:
            raise  # the task may exist, and need all that was put
        except ApiError:
            await attempt.withdraw()
            raise

    async def _create_from(self, attempt: _Attempt) -> Task:
        """Creates the task. If this process does not know a dependency, it is read before any edge is written; if all
        are known, nothing is read ahead of the commit."""
        definition = attempt.definition
        attempt.ahead.start_limit()
        unknown = self._recall(attempt)
        beside: list[Awaitable[Any]] = [attempt.ahead.ensure(creation.decide_new_task(attempt.task, attempt.now).ahead)]
        if unknown:
            await together(*beside, self._look_up(attempt, unknown))
            beside = []
            try:
                creation.refuse_dependencies(definition, attempt.found)
            except InputError as refusal:
                await self._join(attempt, NO_EDGES)
                return await self._refused(attempt, refusal)
        if elsewhere := [each for each, group in attempt.groups.items() if group != definition.task_group_id]:
            link = partial(self._link, attempt)
            beside.append(in_waves(bounds.ROWS_AT_A_TIME, link, elsewhere))
        await together(self._join(attempt, attempt.edges), *beside)
        if attempt.member_existed:
            existing = await self._stores.tasks.load(definition.task_id)
            if existing is not None:
                return await self._found(attempt, existing)
            attempt.number = await self._membership.rewrite(
                definition, attempt.packed, partial(self._stores.tasks.status, definition.task_id), attempt.edges
            )
        if not attempt.is_guarded:
            await self._look_at_group(attempt)
        try:
            creation.refuse_dependencies(definition, attempt.found)
        except InputError as refusal:
            return await self._refused(attempt, refusal)
        return await self._commit(attempt)

    def _recall(self, attempt: _Attempt) -> list[str]:
        """Notes the groups of the dependencies that this process knows; returns the others."""
        unknown = []
        for task_id in attempt.definition.dependencies:
            group = self._stores.known.group_of(task_id, attempt.now, attempt.definition.deadline)
            if group is not None:
                attempt.groups[task_id] = group
            elif task_id != attempt.definition.task_id:
                unknown.append(task_id)
        attempt.groups.pop(attempt.definition.task_id, None)
        return unknown

    async def _look_up(self, attempt: _Attempt, task_ids: Iterable[str]) -> None:
        """Reads dependencies. It stops when as many are missing as one refusal names."""
        missing = 0

        async def look(task_id: str) -> None:
            nonlocal missing
            if missing < creation.MOST_NAMED:
                await self._read_dependency(attempt, task_id)
                missing += attempt.found[task_id] is None

        await in_waves(bounds.ROWS_AT_A_TIME, look, task_ids)

    async def _read_dependency(self, attempt: _Attempt, task_id: str) -> None:
        task = await self._stores.tasks.status(task_id)
        attempt.note_dependency(task_id, task)
        if task is not None:
            self._stores.known.note_task(task)

    async def _refused(self, attempt: _Attempt, refusal: InputError) -> Task:
        """Refuses the call for its dependencies, unless the task exists already: then that decides (contract 2.4)."""
        existing = await self._stores.tasks.load(attempt.definition.task_id)
        if existing is not None:
            return await self._found(attempt, existing)
        raise refusal

    async def _join(self, attempt: _Attempt, edges: Edges) -> None:
        attempt.ahead.refuse_late()
        try:
            place = await self._membership.join(attempt.definition, attempt.packed, edges)
        except MemberExists:
            attempt.member_existed = True
        else:
            attempt.roll_back.append(place.leave)
            attempt.number, attempt.is_guarded = place.number, place.is_guarded

    async def _link(self, attempt: _Attempt, required: str) -> None:
        """Writes the edge out of a task of another group, then reads it: what resolves later finds the edge."""
        dependent = attempt.definition.task_id
        attempt.ahead.refuse_late()
        etag = await self._stores.tasks.edges.rewrite(required, dependent)
        if etag is not None:
            attempt.roll_back.append(lambda: self._stores.tasks.edges.remove_task_edge(required, dependent, etag))
        if not attempt.is_satisfied(required):
            await self._read_dependency(attempt, required)

    async def _look_at_group(self, attempt: _Attempt) -> None:
        """Writes the remaining edges, and then reads the states of the dependencies from the group's member rows. One
        that is not settled there counts as open: who settles it will read the edges afterwards (design 5)."""
        definition, edges = attempt.definition, attempt.edges
        attempt.ahead.refuse_late()
        await self._stores.edges.add(definition.task_group_id, definition.task_id, edges.rest)
        waiting = [each for each in edges.required if each != definition.task_id and not attempt.is_satisfied(each)]
        resolved, unknown = await self._stores.edges.member_states(definition.task_group_id, waiting)
        attempt.states |= resolved
        await in_waves(bounds.ROWS_AT_A_TIME, lambda task_id: self._read_dependency(attempt, task_id), unknown)

    async def _commit(self, attempt: _Attempt) -> Task:
        """Commits the task. Dependencies that are satisfied by now count; with all of them, it gets its first run."""
        definition, runtime = attempt.definition, self._stores.runtime
        task = replace(
            attempt.task,
            satisfied=creation.satisfied_by(definition, attempt.states),
            opened_as_of=attempt.number,
            prioritised_as_of=attempt.number,
        )
        if definition.dependencies and task.is_free:
            task = transitions.with_first_run(task, runtime.now(), runtime.slugid())
        attempt.task = task
        decision = creation.decide_new_task(task, runtime.now())
        try:
            created = await self._executor.carry_out_creation(decision, definition, attempt.packed, attempt.ahead)
        except CommitLost as lost:
            return await self._found(attempt, lost.latest)
        self._stores.known.note_task(created.task)
        return created.task

    async def _found(self, attempt: _Attempt, existing: Loaded) -> Task:
        """Answers for a task that exists already. If its definition is equal, announces it again and rolls back what
        this call has put. Raises RequestConflict for another definition."""
        self._stores.known.note_task(existing.task)
        await self._drop_shared_row(attempt, existing.task)
        creation.refuse_other_definition(attempt.definition, existing.definition, existing.task)
        now = self._stores.runtime.now()
        await self._executor.follow_up(existing, creation.create_again(existing.task, now))
        await attempt.ahead.withdraw()
        return existing.task

    async def _drop_shared_row(self, attempt: _Attempt, existing: Task) -> None:
        """Deletes the pending row if nobody owns it: the task was finally created by a call at another time. Calls in
        the same millisecond use the same row key."""
        for effect in creation.decide_new_task(attempt.task, attempt.now).ahead:
            if isinstance(effect, AddPendingRow) and attempt.ahead.existed_before(effect):
                if existing.runs and existing.runs[0].scheduled == effect.row.scheduled:
                    return
                orphan = ChangePoolRows(remove=(effect.row,))
                await self._stores.pools.change_pool_rows([orphan])
