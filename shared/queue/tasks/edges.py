"""Edges from a required task to its dependents, in its partition or, within one group, in the group's (design 3, 5).
The rows of uploads that wait for their commit lie behind a task's edges and are read with them. Also reads what member
rows say of the tasks that a new one waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from shared.base import bounds
from shared.base.concurrency import in_waves
from shared.base.errors import ServiceUnavailable
from shared.base.frozen import dataclass
from shared.queue.groups.rows import STATE_COLUMNS, Unsettled, settled_state
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.columns import Columns
from shared.store.interface import MAX_OPERATIONS, Create, Delete, Merge, Row, Storage, TransactionRefused, Upsert
from shared.store.partitions import PageReader, rows_of, try_transact


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge out of a task, as read."""

    dependent: str
    etag: str
    written: datetime

    @classmethod
    def of(cls, row: Row) -> Edge:
        """Reads an edge of either kind from its row."""
        return cls(keys.dependent_of(row.key), row.etag, row.timestamp)


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """An upload whose block waits, or may wait, for its commit."""

    task_id: str
    run_id: int
    name: str
    content_type: str
    version: str
    """Version of the artifact; "" if its content is now uploaded in another way, so that nothing is left to commit."""
    until: datetime
    """When the URL for the upload expires."""
    key: str
    etag: str

    @property
    def container(self) -> str:
        """The container of its blob."""
        return keys.container(self.name)

    @property
    def path(self) -> str:
        """The path of its blob."""
        return keys.path(self.task_id, self.run_id, self.name, self.version)


WAITING_COLUMNS = Columns(Waiting, without={"task_id", "run_id", "key", "etag"})
"""The columns of the row of an upload."""


def decode_waiting(row: Row) -> Waiting:
    """Reads an upload from its row."""
    run_id = int(row.key.split("~")[1])
    return WAITING_COLUMNS.decode(row.values, task_id=row.partition, run_id=run_id, key=row.key, etag=row.etag)


class TaskEdges:
    """Reads and writes edges of the Tasks table; `GroupEdges` does so for those between tasks of one group."""

    def __init__(self, storage: Storage) -> None:
        self._tables = storage.tables

    async def rewrite(self, required: str, dependent: str) -> str | None:
        """Writes the edge "required unblocks dependent", or rewrites it. Returns its ETag if it is new, else None."""
        key = keys.dependent(dependent)
        try:
            return (await self._tables.transact(keys.TASKS, required, [Create(key, {})]))[0]
        except TransactionRefused:
            await self._tables.transact(keys.TASKS, required, [Upsert(key, {})])
            return None

    async def remove_task_edge(self, required: str, dependent: str, etag: str) -> None:
        """Removes an edge if it is still as it was written or read."""
        await try_transact(self._tables, keys.TASKS, required, [Delete(keys.dependent(dependent), etag)])

    async def task_edge_page(
        self, required: str, *, start: str | None = None, end: str | None = None, limit: int
    ) -> tuple[list[Edge], list[Waiting], str | None]:
        """Returns a page of edges out of a task in the order of taskId, then of the uploads that wait for their commit,
        and where the next page starts. `end` is not part of it."""
        first, last = keys.EDGES_AND_UPLOADS
        page = await self._tables.query(keys.TASKS, required, start=start or first, end=end or last, limit=limit)
        return *edges_and_uploads(page.rows), page.resume


def edges_and_uploads(rows: Iterable[Row]) -> tuple[list[Edge], list[Waiting]]:
    """Reads edges and uploads from rows of a task's partition."""
    edges, uploads = [], []
    for row in rows:
        if row.key.startswith(keys.IS_UPLOAD):
            uploads.append(decode_waiting(row))
        else:
            edges.append(Edge.of(row))
    return edges, uploads


_WORTHWHILE = 16
"""A page of a range must bring at least this many wanted rows to be cheaper than single reads."""


class GroupEdges:
    """Reads and writes edges in the partition of their group."""

    def __init__(self, storage: Storage) -> None:
        self._tables = storage.tables

    async def add(self, task_group_id: str, dependent: str, required: Sequence[str]) -> None:
        """Writes edges that did not fit into the transaction of the member row, which has come before. They are written
        only while the member row is there: what leads to it leads to them. Raises ServiceUnavailable."""

        async def write_edges(some: Sequence[str]) -> None:
            edges = [Upsert(keys.unblocks(task_id, dependent), {}) for task_id in some]
            if await try_transact(self._tables, keys.GROUPS, task_group_id, [member, *edges]) is None:
                raise ServiceUnavailable("the call took too long; send it again")

        member, room = Merge(keys.member(dependent), {}), MAX_OPERATIONS - 1
        starts = range(0, len(required), room)
        await in_waves(bounds.TRANSACTIONS_AT_A_TIME, write_edges, [required[start : start + room] for start in starts])

    async def group_edge_page(
        self, task_group_id: str, required: str, *, start: str | None = None, end: str | None = None, limit: int
    ) -> tuple[list[Edge], str | None]:
        """Returns a page of a task's edges in the order of taskId, up to `end`, and where the next one starts."""
        first, last = keys.unblocked(required)
        page = await self._tables.query(
            keys.GROUPS, task_group_id, start=start or first, end=end or last, limit=limit, select=()
        )
        return [Edge.of(row) for row in page.rows], page.resume

    def out_of(self, task_group_id: str, task_ids: Sequence[str]) -> PageReader[Row]:
        """Returns a reader of the edges out of these tasks, and of the edges of other tasks that lie between them."""
        ranges = [keys.unblocked(task_id) for task_id in sorted(task_ids)]

        async def read_edges(start: str | None) -> tuple[Sequence[Row], str | None]:
            page = await self._tables.query(
                keys.GROUPS, task_group_id, start=start or ranges[0][0], end=ranges[-1][1], select=()
            )
            if page.resume is None:
                return page.rows, None
            following = next(first for first, end in ranges if end > page.resume)
            return page.rows, max(page.resume, following)

        return PageReader(read_edges)

    async def remove_group_edge(self, task_group_id: str, required: str, edge: Edge) -> None:
        """Removes an edge if it is still as it was read."""
        deletion = Delete(keys.unblocks(required, edge.dependent), edge.etag)
        await try_transact(self._tables, keys.GROUPS, task_group_id, [deletion])

    async def member_states(self, task_group_id: str, task_ids: Sequence[str]) -> tuple[dict[str, State], list[str]]:
        """Returns the states of those of these tasks that are resolved by their member rows, and the tasks whose state
        must be read from their status rows. A caller that relies on an edge to be found must have written it before."""
        remaining = sorted(task_ids)
        rows: dict[str, Row | None] = {}
        if len(remaining) > bounds.ROWS_AT_A_TIME:
            start, end = keys.member(remaining[0]), f"{keys.member(remaining[-1])} "
            pages = rows_of(self._tables, keys.GROUPS, task_group_id, start=start, end=end, select=STATE_COLUMNS)
            async for page in pages:
                members = {row.key: row for row in page}
                passed = [each for each in remaining if pages.resume is None or keys.member(each) < pages.resume]
                rows |= {each: members.get(keys.member(each)) for each in passed}
                remaining = remaining[len(passed) :]
                if len(passed) < _WORTHWHILE or len(remaining) <= bounds.ROWS_AT_A_TIME:
                    break
                pages.skip_to(keys.member(remaining[0]))

        async def read_member(task_id: str) -> None:
            rows[task_id] = await self._tables.get_row(keys.GROUPS, task_group_id, keys.member(task_id))

        await in_waves(bounds.ROWS_AT_A_TIME, read_member, remaining)
        states = {task_id: settled_state(row) for task_id, row in rows.items()}
        resolved = {task_id: state for task_id, state in states.items() if isinstance(state, State)}
        return resolved, [task_id for task_id, state in states.items() if state is Unsettled.UNKNOWN]
