"""The Tasks table: definitions, status rows and their guards (design 3). Definitions never change, so a process may
keep them for as long as their task can exist (design 2.8). A status that is kept serves only to commit the next one on
condition that the row is still the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from shared.base.errors import ResourceNotFound, ServiceError, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.queue.tasks import codec
from shared.queue.tasks.codec import PackedDefinition
from shared.queue.tasks.definition import Definition, Json
from shared.queue.tasks.definitions import Definitions, MemoryShare
from shared.queue.tasks.edges import WAITING_COLUMNS, Edge, TaskEdges, Waiting, edges_and_uploads
from shared.queue.tasks.known import KnownStatuses, Moment
from shared.queue.tasks.rules import State, Task
from shared.store import interface as tables
from shared.store import keys
from shared.store.interface import Row, Storage, StorageUnavailable, TransactionRefused
from shared.store.partitions import rows_of, try_transact

_ROWS_OF_A_TASK = 3
"""Number of rows that make a task: definition, guard and status."""
_SURROUNDINGS = (*codec.TASK_COLUMNS, *WAITING_COLUMNS.names)
"""Properties of a task and the rows around it, without the content of the definition."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """A task as read: what the next commit is conditional on, and what never changes about it."""

    task: Task
    etag: str
    definition: Definition
    read: datetime | None = None
    """When the read began that has shown this; None for a task as this process has committed it last."""

    @property
    def body(self) -> Json:
        """The definition as the `task` endpoint returns it, with the task's present priority."""
        return self.definition.at_priority(self.task.priority)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A task as read, whose definition is not unpacked yet unless it was kept."""

    task: Task
    etag: str
    read: datetime | None
    definition: Definition | PackedDefinition
    memory: int
    """About how many bytes the definition takes in memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """A task with its edges and uploads, all as of one moment."""

    loaded: Loaded
    edges: Sequence[Edge]
    uploads: Sequence[Waiting]


@dataclass(eq=False)
class CommitLost(ServiceError):
    """Another call has committed since the task was read, or has created it, and the row proves that this commit did
    not happen. Decide again, on `latest` or on what is read later."""

    latest: Loaded


class CommitInDoubt(ServiceUnavailable):
    """The answer to a commit was lost, and the row does not show any more whether it happened. What was written ahead
    of the commit must stay. If the commit did not happen, readers recognise it as orphans."""


class TaskStore:
    """Reads and commits tasks. One commit is one entity-group transaction: the status row with its guards. Every commit
    leaves an id in the row. A refused commit may have happened all the same: its first try was applied, the answer was
    lost, and the second try was refused. Others may have followed. The ids tell what has happened."""

    def __init__(
        self, storage: Storage, definitions: Definitions, new_id: Callable[[], str], known: KnownStatuses
    ) -> None:
        """Makes the store. `new_id` makes ids that no other commit has; `known` learns statuses read or committed."""
        self._tables = storage.tables
        self.definitions = definitions
        self.edges = TaskEdges(storage)
        self._new_id = new_id
        self._known = known

    async def load(self, task_id: str, share: MemoryShare | None = None) -> Loaded | None:
        """Returns the task with its definition: one request (one more for a definition of several rows that is not
        cached). `share` is the memory that a call takes which has several definitions at a time. Raises NoRoom."""
        found = await self.find(task_id)
        return None if found is None else await self.unpacked(found, share)

    async def load_again(self, loaded: Loaded) -> Loaded:
        """Reads a task again that may have changed, but not its definition. Raises ResourceNotFound."""
        task_id = loaded.task.task_id
        since = self._known.new_moment()
        read = await self._status(task_id, since)
        if read is None:
            raise ResourceNotFound(f"task {task_id} does not exist")
        task, etag = read
        if task.fingerprint != loaded.task.fingerprint:
            return await self.existing(task_id)
        return Loaded(task=task, etag=etag, definition=loaded.definition, read=since.at)

    def last_committed(self, task_id: str, share: MemoryShare | None = None) -> Loaded | None:
        """Returns an unresolved task as this process has committed it last, if it is kept, without a request. Other
        commits may have followed. So it may only be used for a commit, which is conditional on its ETag. Its definition
        counts as part of `share`. Raises NoRoom."""
        committed, cached = self._known.committed(task_id), self.definitions.kept_definition(task_id)
        if committed is None or cached is None:
            return None
        task, etag = committed
        if cached.fingerprint != task.fingerprint:
            return None
        if share is not None:
            share.count(cached.memory)
        return Loaded(task=task, etag=etag, definition=cached.definition)

    async def find(self, task_id: str) -> Found | None:
        """Returns the task with its definition as it is stored or kept: one request. Raises StorageUnavailable, also if
        the task was deleted and its id used again between two pages of rows."""
        cached, since = self.definitions.kept_definition(task_id), self._known.new_moment()
        if cached is not None:
            read = await self._status(task_id, since)
            if read is not None and (found := self._found(read[0], None, read[1], since.at)) is not None:
                return found
            self.definitions.forget(task_id)
            if read is None:
                return None
            since = self._known.new_moment()
        start, end = keys.TASK_ROWS
        rows: dict[str, Row] = {}
        async for page in rows_of(self._tables, keys.TASKS, task_id, start=start, end=end):
            rows |= {row.key: row for row in page}
        status, definition = rows.get(keys.TASK_STATUS), rows.get(keys.TASK_DEFINITION)
        if status is None or definition is None:
            self._known.forget(task_id)
            return None
        task = codec.decode_task(status)
        found = self._found(task, codec.decode_definition(definition), status.etag, since.at)
        if found is None:
            raise StorageUnavailable(f"task {task_id} has changed while its rows were read")
        self._known.saw(task, since)
        return found

    def as_known(self, task: Task, packed: PackedDefinition | None) -> Found | None:
        """Returns a task whose status is known, if its definition is in memory, or in `packed` from another row."""
        return self._found(task, packed, "", None)

    def _found(self, task: Task, packed: PackedDefinition | None, etag: str, read: datetime | None) -> Found | None:
        """Returns the task with its definition, which is kept or in `packed`; None if that is another one."""
        cached = self.definitions.kept_definition(task.task_id)
        if cached is not None and cached.fingerprint == task.fingerprint:
            return Found(task=task, etag=etag, read=read, definition=cached.definition, memory=cached.memory)
        if packed is not None and packed.fingerprint == task.fingerprint:
            return Found(task=task, etag=etag, read=read, definition=packed, memory=packed.memory)
        return None

    async def unpacked(self, found: Found, share: MemoryShare | None = None) -> Loaded:
        """Unpacks the definition of the task: one request if it has several rows. Raises NoRoom, StorageUnavailable."""
        if isinstance(found.definition, Definition):
            definition = found.definition
            if share is not None:
                share.count(found.memory)
        else:
            definition = await self.definitions.unpack(found.task.task_id, found.definition, share)
        return Loaded(task=found.task, etag=found.etag, definition=definition, read=found.read)

    async def existing(self, task_id: str) -> Loaded:
        """Returns what `load` returns. Raises ResourceNotFound."""
        loaded = await self.load(task_id)
        if loaded is None:
            raise ResourceNotFound(f"task {task_id} does not exist")
        return loaded

    async def status(self, task_id: str) -> Task | None:
        """Returns the status of a task: one point read."""
        read = await self._status(task_id, self._known.new_moment())
        return None if read is None else read[0]

    async def existing_status(self, task_id: str) -> Task:
        """Returns what `status` returns. Raises ResourceNotFound."""
        task = await self.status(task_id)
        if task is None:
            raise ResourceNotFound(f"task {task_id} does not exist")
        return task

    async def _status(self, task_id: str, since: Moment) -> tuple[Task, str] | None:
        """Reads the status row and returns it with its ETag; the read has begun at the moment `since`."""
        row = await self._tables.get_row(keys.TASKS, task_id, keys.TASK_STATUS)
        if row is None:
            self._known.forget(task_id)
            return None
        task = codec.decode_task(row)
        self._known.saw(task, since)
        return task, row.etag

    async def definition(self, task_id: str) -> Definition | None:
        """Returns the definition, without a request if it is cached."""
        cached = self.definitions.kept_definition(task_id)
        if cached is not None:
            return cached.definition
        row = await self._tables.get_row(keys.TASKS, task_id, keys.TASK_DEFINITION)
        return None if row is None else await self.definitions.unpack(task_id, codec.decode_definition(row))

    async def commit_new(self, definition: Definition, packed: PackedDefinition, task: Task) -> Loaded:
        """Commits a new task.

        Returns the task as this commit has left it; `etag` is empty if others have followed already.

        Raises CommitLost when another call has created it, CommitInDoubt, StorageUnavailable (in doubt as well)."""
        task = replace(task.after_commit(None, self._new_id()), fingerprint=packed.fingerprint)
        operations: list[tables.Operation] = [
            tables.Create(keys.TASK_STATUS, codec.encode_task(task)),
            *(tables.Create(key, values) for key, values in codec.split_definition(packed).items()),
        ]
        if not task.is_resolved:
            operations.append(tables.Create(keys.TASK_OPEN, {}))
        since = self._known.new_moment()
        try:
            etags = await self._tables.transact(keys.TASKS, task.task_id, operations)
        except TransactionRefused as refused:
            if refused.refusal is not tables.Refusal.EXISTS:
                raise
            etags = [await self._etag_of(task)]
        self._known.made(task, etags[0], since)
        self.definitions.keep(definition, packed)
        return Loaded(task=task, etag=etags[0], definition=definition)

    async def undo(self, created: Loaded, packed: PackedDefinition) -> None:
        """Removes a task that was just created, unless another call has changed it since."""
        task_id = created.task.task_id
        self._known.forget(task_id)
        self.definitions.forget(task_id)
        rows = [tables.Delete(keys.TASK_STATUS, created.etag), *map(tables.Delete, codec.split_definition(packed))]
        if not created.task.is_resolved:
            rows.append(tables.Delete(keys.TASK_OPEN))
        if created.etag:
            await try_transact(self._tables, keys.TASKS, task_id, rows)

    async def commit(self, loaded: Loaded, task: Task, beside: Sequence[tables.Operation] = ()) -> Loaded:
        """Commits the next state of a task that was read, and with it `beside`, on other rows. Returns the task as this
        commit has left it, even if others have followed: `etag` is then a stale one. Raises CommitLost, CommitInDoubt,
        StorageUnavailable (in doubt as well)."""
        before = loaded.task
        committed = task.after_commit(before, self._new_id())
        operations: list[tables.Operation] = [
            tables.Replace(keys.TASK_STATUS, codec.encode_task(committed), loaded.etag)
        ]
        guards = _guards(before, committed)
        operations += [*guards, *beside]
        since = self._known.new_moment()
        self._known.forget(task.task_id)
        try:
            etags = await self._tables.transact(keys.TASKS, task.task_id, operations)
        except TransactionRefused as refused:
            if 0 < refused.index <= len(guards):
                raise
            etags = [await self._etag_of(committed)]
        self._known.made(committed, etags[0], since)
        return Loaded(task=committed, etag=etags[0] or loaded.etag, definition=loaded.definition)

    async def _etag_of(self, attempt: Task) -> str:
        """Returns the ETag of a commit that was refused, but has happened all the same: "" if others have followed.
        Raises CommitLost; CommitInDoubt when the row does not tell whether it happened."""
        latest = await self.load(attempt.task_id)
        happened = None if latest is None else latest.task.includes(attempt)
        if latest is None or happened is None:
            raise CommitInDoubt(f"task {attempt.task_id} has changed too often meanwhile; send the call again")
        if not happened:
            raise CommitLost(latest)
        return latest.etag if latest.task.sequence == attempt.sequence else ""

    async def surroundings(self, task_id: str, limit: int) -> Surroundings | None:
        """Returns the task with up to `limit` edges and uploads, all of one moment, by one request. Returns None if
        there are more of them, or no such task, or if they do not fit into one answer: a page that ends before the
        status row, or was read in two parts, proves nothing."""
        start, end = keys.EDGES_TO_STATUS
        cached = self.definitions.kept_definition(task_id)
        select = None if cached is None else _SURROUNDINGS
        since = self._known.new_moment()
        page = await self._tables.query(
            keys.TASKS, task_id, start=start, end=end, limit=limit + _ROWS_OF_A_TASK, select=select
        )
        rows = {row.key: row for row in page.rows}
        status, definition = rows.get(keys.TASK_STATUS), rows.get(keys.TASK_DEFINITION)
        others = [row for key, row in rows.items() if not key.startswith(keys.TASK_ROWS[0])]
        if status is None or definition is None or len(others) > limit or not page.is_of_one_moment:
            return None
        task = codec.decode_task(status)
        self._known.saw(task, since)
        found = self._found(
            task, codec.decode_definition(definition) if cached is None else None, status.etag, since.at
        )
        if found is None:
            self.definitions.forget(task_id)
            return None
        loaded = await self.unpacked(found)
        edges, uploads = edges_and_uploads(others)
        return Surroundings(loaded=loaded, edges=edges, uploads=uploads)


def _guards(before: Task, after: Task) -> list[tables.Operation]:
    """Returns the guard rows that follow from the change of state (design 3)."""
    operations: list[tables.Operation] = []
    if after.is_resolved and not before.is_resolved:
        operations.append(tables.Delete(keys.TASK_OPEN))
    if before.is_resolved and not after.is_resolved:
        operations.append(tables.Create(keys.TASK_OPEN, {}))
    for run_id, run in enumerate(after.runs):
        was_running = run_id < len(before.runs) and before.runs[run_id].state is State.RUNNING
        is_running = run.state is State.RUNNING
        if was_running and not is_running:
            operations.append(tables.Delete(keys.upload(run_id)))
        if is_running and not was_running:
            operations.append(tables.Create(keys.upload(run_id), {}))
    return operations
