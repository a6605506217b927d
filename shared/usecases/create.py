"""createTask and defineTask (design 6, contract 2.4, 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.concurrency import both, in_waves, together
from shared.domain import announcements
from shared.domain.creation import (
    MOST_NAMED,
    check_definition,
    initial_task,
    judge_dependencies,
    refuse_other_definition,
    with_first_run,
)
from shared.domain.definition import Definition
from shared.domain.effects import AddPendingRow, Ahead, ChangePoolRows, row_of
from shared.domain.events import TaskEvent
from shared.domain.task import State, Task
from shared.domain.transitions import put_deadline, put_pending
from shared.errors import ApiError, InputError
from shared.storage.codec import PackedDefinition, pack_definition
from shared.storage.expiry import ExpiryStore
from shared.storage.groups import MemberExists
from shared.storage.tasks import CommitInDoubt, Loaded, TaskExists
from shared.telemetry.transitions import note_transition
from shared.usecases.ahead import WriteAhead
from shared.usecases.executor import Stores
from shared.usecases.membership import Leave, Membership

EDGES_AT_A_TIME = 64
"""How many dependencies are written and read in parallel."""


@dataclass
class _Attempt:
    """One call of createTask: what it makes, and what it has to roll back if it is refused."""

    definition: Definition
    packed: PackedDefinition
    task: Task
    ahead: WriteAhead
    now: datetime
    roll_back: list[Callable[[], Awaitable[None]]]
    leave: Leave | None = None
    group_stays: bool = False
    """Whether the group that the task has founded stays when the task is refused."""
    member_existed: bool = False
    """A call before this one has added the member: its task may exist, or its commit be under way."""
    touched: set[str] = field(default_factory=set)
    """Dependencies whose edges another call had written before: not this call's to remove."""
    expiry_row_existed: bool = False
    """The same for the row of the Expiry table."""

    async def withdraw(self) -> None:
        """Rolls back what this call alone has written ahead: as many edges at a time as were written."""
        undone = list(self.roll_back)
        if (leave := self.leave) is not None:
            undone.append(lambda: leave(self.group_stays))
        await both(self.ahead.withdraw(), in_waves(EDGES_AT_A_TIME, lambda undo: undo(), undone))


class CreateTask:
    """Accepts a new task: everything that it needs is ahead of the one commit that makes it exist."""

    def __init__(self, stores: Stores, membership: Membership, expiry: ExpiryStore, max_deadline: timedelta) -> None:
        self._stores = stores
        self._membership = membership
        self._expiry = expiry
        self._max_deadline = max_deadline

    async def __call__(self, definition: Definition) -> Task:
        """Creates the task, or finds it created with an equal definition; returns its present status.

        Raises InputError, RequestConflict, ServiceUnavailable, StorageUnavailable.
        """
        runtime = self._stores.runtime
        now = runtime.now()
        check_definition(definition, now, self._max_deadline)
        task = initial_task(definition)
        if not definition.dependencies:
            task = with_first_run(task, now, runtime.slugid())
        attempt = _Attempt(
            definition=definition,
            packed=await pack_definition(definition),
            task=task,
            ahead=self._stores.write_ahead(),
            now=now,
            roll_back=[],
        )
        try:
            return await self._create(attempt)
        except CommitInDoubt:
            raise  # the task may exist, and need all that was put
        except ApiError:
            await attempt.withdraw()
            raise

    async def _create(self, attempt: _Attempt) -> Task:
        found = await self._put_ahead(attempt)
        if attempt.member_existed:
            existing = await self._stores.tasks.load(attempt.definition.task_id)
            if existing is not None:
                return await self._found(attempt, existing)
            await self._membership.touch(attempt.definition, attempt.packed, attempt.now)
        if attempt.expiry_row_existed:
            await self._expiry.task(attempt.definition)
        if found:
            try:
                await self._judge(attempt, found)
            except InputError:
                # A task of this id, in another group, is a conflict whatever the new one depends on (contract 2.4).
                existing = await self._stores.tasks.load(attempt.definition.task_id)
                if existing is None:
                    attempt.group_stays = True  # contract 3.6
                    await self._leave_edges_to_expiry(attempt, found)
                    raise
                return await self._found(attempt, existing)
        return await self._commit(attempt)

    async def _put_ahead(self, attempt: _Attempt) -> Mapping[str, Task | None]:
        """Everything that the task needs, in parallel; returns its dependencies as they were read.

        Once so many are missing as a refusal names, the rest are not looked for.
        """
        definition = attempt.definition
        attempt.ahead.begin()
        required = [task_id for task_id in definition.dependencies if task_id != definition.task_id]
        found: dict[str, Task | None] = {}
        missing = 0

        async def link(task_id: str) -> None:
            nonlocal missing
            if missing < MOST_NAMED:
                found[task_id] = await self._link(attempt, task_id)
                missing += found[task_id] is None

        await together(
            attempt.ahead.ensure(self._needs(attempt.task)),
            self._join(attempt),
            self._schedule_expiry(attempt),
            self._spill(attempt),
            in_waves(EDGES_AT_A_TIME, link, required),
        )
        return found

    def _needs(self, task: Task) -> tuple[Ahead, ...]:
        deadline = put_deadline(task)
        if task.state is not State.PENDING:
            return (deadline,)
        row = AddPendingRow(task_queue_id=task.task_queue_id, row=row_of(task, 0))
        return (deadline, put_pending(task, 0), row)

    async def _join(self, attempt: _Attempt) -> None:
        definition = attempt.definition
        try:
            attempt.leave = await self._membership.join(definition, attempt.packed)
        except MemberExists:
            attempt.member_existed = True

    async def _schedule_expiry(self, attempt: _Attempt) -> None:
        """What the expiry job has to know of the task."""
        scheduled = await self._expiry.new_task(attempt.definition)
        if scheduled is None:
            attempt.expiry_row_existed = True
        else:
            attempt.roll_back.append(lambda: self._expiry.roll_back(scheduled))

    async def _spill(self, attempt: _Attempt) -> None:
        """A definition that does not fit into a row. Another call may rely on the same blob, so it stays whatever
        becomes of this one, until it expires."""
        path = attempt.packed.spilled_to
        if path is not None:
            await self._expiry.definition(attempt.definition.task_id, path, attempt.definition.expires)
            await self._stores.tasks.spill(path, attempt.packed.content)

    async def _link(self, attempt: _Attempt, required: str) -> Task | None:
        """The edge first, then the read: what resolves after the read finds the edge (design 5)."""
        dependent = attempt.definition.task_id
        etag = await self._stores.tasks.touch_edge(required, dependent)
        if etag is None:
            attempt.touched.add(required)
        else:
            attempt.roll_back.append(lambda: self._stores.tasks.remove_edge(required, dependent, etag))
        return await self._stores.tasks.status(required)

    async def _leave_edges_to_expiry(self, attempt: _Attempt, found: Mapping[str, Task | None]) -> None:
        """Edges of two refused calls, each of which keeps the other from removing it. An edge out of a task that
        exists goes with that task; one out of a task that does not would stay for ever."""
        missing = [required for required in attempt.touched if found.get(required) is None]
        now = self._stores.runtime.now()
        await together(*(self._expiry.orphans_of(required, now) for required in missing))

    async def _judge(self, attempt: _Attempt, found: Mapping[str, Task | None]) -> None:
        """Dependencies that are satisfied already; a task that waits for nothing gets its first run."""
        attempt.task = judge_dependencies(attempt.definition, attempt.task, found)
        if attempt.task.is_free:
            now = self._stores.runtime.now()
            attempt.task = with_first_run(attempt.task, now, self._stores.runtime.slugid())
            await attempt.ahead.ensure(self._needs(attempt.task))

    async def _commit(self, attempt: _Attempt) -> Task:
        needs = self._needs(attempt.task)
        definition = attempt.definition
        task = attempt.ahead.in_force(attempt.task, needs)
        attempt.ahead.refuse_late_commit()
        try:
            created = await self._stores.tasks.create(
                definition, attempt.packed, task, own_edge=definition.task_id in definition.dependencies
            )
        except TaskExists as exists:
            return await self._found(attempt, exists.existing)
        note_transition(self._stores.runtime.meter, None, task)
        await self._announce(created)
        return created.task

    async def _found(self, attempt: _Attempt, existing: Loaded) -> Task:
        """The task is there already: if it is the same one, announce it again and roll back what this call put."""
        await self._drop_shared_row(attempt, existing.task)
        refuse_other_definition(attempt.definition, existing.definition, existing.task)
        await self._announce(existing)
        await attempt.ahead.withdraw()
        return existing.task

    async def _drop_shared_row(self, attempt: _Attempt, existing: Task) -> None:
        """Two calls of one millisecond share a pending row; the one that finds it touches it, and the one that made it
        cannot roll it back then. If a third one has created the task, at another time, the row is an orphan."""
        for effect in self._needs(attempt.task):
            if isinstance(effect, AddPendingRow) and attempt.ahead.existed_before(effect):
                if existing.runs and existing.runs[0].scheduled == effect.row.scheduled:
                    return
                orphan = ChangePoolRows(task_queue_id=effect.task_queue_id, remove=(effect.row,))
                await self._stores.pools.change([orphan], effect.task_queue_id)

    async def _announce(self, loaded: Loaded) -> None:
        events: list[TaskEvent] = [announcements.defined(loaded.task)]
        if loaded.task.runs:
            events.extend(announcements.pending_again(loaded.task, 0, self._stores.runtime.now()))
        await self._stores.announcer.announce(events, loaded)
