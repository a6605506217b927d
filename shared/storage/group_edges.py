"""Edges between tasks of one group, and what its member rows say of the tasks that a new one waits for (design 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.concurrency import in_waves
from shared.domain.task import State
from shared.storage import keys
from shared.storage.group_rows import STATE_COLUMNS, Unsettled, settled_state
from shared.storage.interface import MAX_OPERATIONS, Delete, Row, Storage, TransactionRefused, Upsert

_TRANSACTIONS = 8
"""Transactions of edges sent side by side: all of them go to one partition."""
_READS = 64
"""Member rows read by themselves, side by side; more are read by range."""
_WORTHWHILE = 16
"""Rows that a page of a range must bring to be better than so many reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberStates:
    """What the member rows of a group say of some of its tasks."""

    resolved: Mapping[str, State]
    unknown: Sequence[str]
    """Of these the status row decides."""


class GroupEdges:
    """Reads and writes edges in the partition of their group."""

    def __init__(self, storage: Storage) -> None:
        self._tables = storage.tables

    async def add(self, task_group_id: str, dependent: str, required: Sequence[str]) -> None:
        """Writes edges that did not fit into the transaction of the member row, which has come before."""

        async def write(some: Sequence[str]) -> None:
            edges = [Upsert(keys.unblocks(task_id, dependent), {}) for task_id in some]
            await self._tables.transact(keys.GROUPS, task_group_id, edges)

        starts = range(0, len(required), MAX_OPERATIONS)
        await in_waves(_TRANSACTIONS, write, [required[start : start + MAX_OPERATIONS] for start in starts])

    async def page(
        self, task_group_id: str, required: str, *, start: str | None = None, end: str | None = None, limit: int
    ) -> tuple[list[Row], str | None]:
        """A page of the edges out of a task in the order of taskId, and where the next one starts. `end` is not part
        of it."""
        first, last = keys.unblocked(required)
        page = await self._tables.query(
            keys.GROUPS, task_group_id, start=start or first, end=end or last, limit=limit, select=()
        )
        return list(page.rows), page.resume

    async def remove(self, task_group_id: str, edge: str, etag: str) -> None:
        """Removes an edge if it is still as it was read."""
        try:
            await self._tables.transact(keys.GROUPS, task_group_id, [Delete(edge, etag)])
        except TransactionRefused:
            return

    async def member_states(self, task_group_id: str, task_ids: Sequence[str]) -> MemberStates:
        """What the member rows of these tasks say. An edge that counts on it must have been written before."""
        remaining = sorted(task_ids)
        rows: dict[str, Row | None] = {}
        while len(remaining) > _READS:
            page = await self._tables.query(
                keys.GROUPS,
                task_group_id,
                start=keys.member(remaining[0]),
                end=f"{keys.member(remaining[-1])} ",
                select=STATE_COLUMNS,
            )
            members = {row.key: row for row in page.rows}
            passed = [each for each in remaining if page.resume is None or keys.member(each) < page.resume]
            rows |= {each: members.get(keys.member(each)) for each in passed}
            remaining = remaining[len(passed) :]
            if len(passed) < _WORTHWHILE:
                break

        async def read(task_id: str) -> None:
            rows[task_id] = await self._tables.get(keys.GROUPS, task_group_id, keys.member(task_id))

        await in_waves(_READS, read, remaining)
        states = {task_id: settled_state(row) for task_id, row in rows.items()}
        return MemberStates(
            resolved={task_id: state for task_id, state in states.items() if isinstance(state, State)},
            unknown=[task_id for task_id, state in states.items() if state is Unsettled.UNKNOWN],
        )
