"""The Groups table: headers, members, active rows of groups that exist (design 3). membership.py has how tasks join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

from shared.base import remembered
from shared.base.dates import format_date
from shared.base.errors import ServiceError, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.jsontext import write
from shared.base.memo import Memo
from shared.base.retrying import LOST_RACE
from shared.queue.groups import rows as group_rows
from shared.queue.groups.rows import Active, Due, Group, Member
from shared.queue.tasks.rules import Run, Task
from shared.store import keys
from shared.store.interface import Create, Delete, Merge, Operation, Row, Storage, TransactionRefused, Upsert, Value
from shared.store.partitions import PageReader, rows_of, try_transact

_HEAD_ROWS = 1 + 2
"""Number of rows that tell whether a group has one task: the header and two members."""


class GroupChanged(ServiceError):
    """Rows of the group have changed since they were read."""


@dataclass(eq=False)
class NumberPassed(ServiceError):
    """A call on the whole group was made since the number was read; `number` is the present one."""

    number: int


class GroupStore:
    """Reads and changes task groups."""

    def __init__(self, storage: Storage) -> None:
        self._tables = storage.tables
        self._headers: Memo[str, Group] = Memo(remembered.GROUPS)

    async def header(self, task_group_id: str) -> Group | None:
        """Returns the group's header."""
        row = await self._tables.get_row(keys.GROUPS, task_group_id, keys.GROUP)
        if row is None:
            self._headers.pop(task_group_id)
            return None
        return self.keep(group_rows.decode_group(row))

    def known(self, task_group_id: str) -> Group | None:
        """Returns the header as this process has seen it last. It may have been raised, sealed or counted since:
        whoever relies on that is refused by a guard row."""
        return self._headers.get(task_group_id)

    def keep(self, group: Group) -> Group:
        """Remembers a header that was read or written."""
        self._headers[group.task_group_id] = group
        return group

    def forget(self, task_group_id: str) -> None:
        """Drops a header that a guard row has shown to be outdated."""
        self._headers.pop(task_group_id)

    async def header_and_whether_single(self, task_group_id: str) -> tuple[Group | None, bool]:
        """Returns the group's header, and whether it has one member: one request. A dead call may count as another."""
        start, end = keys.GROUP_TO_MEMBERS
        page = await self._tables.query(
            keys.GROUPS, task_group_id, start=start, end=end, limit=_HEAD_ROWS, select=group_rows.HEADER_COLUMNS
        )
        header = next((group_rows.decode_group(row) for row in page.rows if row.key == keys.GROUP), None)
        return header, sum(row.key >= keys.MEMBERS[0] for row in page.rows) == 1

    async def count_call(self, group: Group, kind: str) -> Group:
        """Raises the group's number for a call on all of it. What is opened, or gets its priority, as of this number or
        a later one has come after the call. Raises GroupChanged."""
        number = group.number + 1
        operations: list[Operation] = [
            Merge(keys.GROUP, {"number": number}, group.etag),
            Delete(keys.number(group.number)),
            Create(keys.number(number), {"kind": kind}),
        ]
        if group.sealed is None:
            operations.append(Delete(keys.scheduler(group.scheduler_id, group.number)))
            operations.append(Create(keys.scheduler(group.scheduler_id, number), {}))
        etag = (await self._transact(group.task_group_id, operations))[0]
        return self.keep(replace(group, number=number, etag=etag))

    async def _transact(self, task_group_id: str, operations: Sequence[Operation]) -> list[str]:
        try:
            return await self._tables.transact(keys.GROUPS, task_group_id, operations)
        except TransactionRefused as refused:
            self.forget(task_group_id)
            raise GroupChanged from refused

    async def rewrite_member(self, task_group_id: str, task_id: str, number: int | None = None) -> None:
        """Changes nothing of a member row but its ETag, which vouches for the task's status (design 11). With `number`
        it says as well that this is the group's number still: raises NumberPassed."""
        # Refused if there is no member row: then no listing shows the task.
        member = Merge(keys.member(task_id), {})
        if number is None:
            await try_transact(self._tables, keys.GROUPS, task_group_id, [member])
            return
        guard = Merge(keys.number(number), {})
        for operations in ((guard, member), (guard,)):
            try:
                await self._tables.transact(keys.GROUPS, task_group_id, operations)
                return
            except TransactionRefused as refused:
                if refused.index > 0:
                    continue
                header = await self.header(task_group_id)
                if header is None or header.number == number:  # the guard is gone: no call can be made on the group
                    await try_transact(self._tables, keys.GROUPS, task_group_id, [member])
                    return
                raise NumberPassed(header.number) from refused

    async def add_active(
        self, task_group_id: str, task_id: str, generation: int, number: int = 0
    ) -> tuple[int, str | None]:
        """Counts a task that is being opened again. `number` is the group's as far as it is known. Returns it as it is
        then, and the ETag of the active row if that is new: None if it existed, and was rewritten. The member row is
        marked as well, so that listings and calls with dependents know from it whether its last state is current."""
        key = keys.active(task_id, generation)
        active: Operation = Create(key, {})
        member: Operation = Merge(keys.member(task_id), {group_rows.column(group_rows.OPENED, generation): True})
        guard: tuple[Operation, ...] = (Merge(keys.number(number), {}),)
        while True:
            try:
                etags = await self._tables.transact(keys.GROUPS, task_group_id, [active, member, *guard])
            except TransactionRefused as refused:
                if refused.index == 0:
                    active = Upsert(key, {})
                elif refused.index == 1:  # it turned out to be missing, or to exist
                    assert isinstance(member, Merge | Create), "a member row is merged or made"
                    is_made = isinstance(member, Create)
                    other_way = Merge if is_made else partial(_made_again, generation=generation)
                    member = other_way(member.key, member.values)
                else:
                    header = await self.header(task_group_id)
                    is_missing = header is None or header.number == number  # so no call can be made on the group
                    number = number if header is None else header.number
                    guard = () if is_missing else (Merge(keys.number(number), {}),)
                continue
            return number, etags[0] if isinstance(active, Create) else None

    async def remove_active(self, task_group_id: str, task_id: str, generation: int, etag: str) -> None:
        """Removes an active row if it is still as it was read or written."""
        await try_transact(self._tables, keys.GROUPS, task_group_id, [Delete(keys.active(task_id, generation), etag)])

    async def is_settled(self, task_group_id: str, task_id: str, generation: int) -> bool:
        """Returns whether the resolution of a task in this generation was settled: no active row counts any more."""
        row = await self._tables.get_row(keys.GROUPS, task_group_id, keys.member(task_id))
        return row is not None and group_rows.column(group_rows.STATE, generation) in row.values

    async def remove_orphan(self, task_group_id: str, row: Active) -> None:
        """Removes the rows of a call that died, unless somebody has rewritten them since `row` was read. Both go in one
        transaction: a member row that is left alone would be in the way of that task id."""
        active = Delete(keys.active(row.task_id, row.generation), row.etag)
        try:
            await self._tables.transact(keys.GROUPS, task_group_id, [active, Delete(keys.member(row.task_id))])
        except TransactionRefused as refused:
            if refused.index == 1:
                await self.remove_active(task_group_id, row.task_id, row.generation, row.etag)

    async def settle(self, task: Task, run: Run) -> str | None:
        """Settles a task's resolution by this run: notes state and final status in its member row, makes the group due
        for a check, and deletes the active row of its generation. Edges may be read only afterwards (design 5).

        Only the state in the member row tells whether a generation was settled, since an active row of a later one may
        come back. That of the first is made together with the member row, so it tells as much, and saves the read.

        The task may have been opened again since it was read: then its status is not final. The active row of the first
        generation, on which new edges rely, goes with that of any later one: the first may be settled after this one.

        Returns the ETag of what is due if this has made the group due."""
        generation = run.generation
        values: dict[str, Value] = {group_rows.column(group_rows.STATE, generation): run.state.value}
        if task.is_resolved and task.generation == generation:
            values[group_rows.column(group_rows.FINAL, generation)] = write(task.as_json()).decode()
            if generation > 0:
                values[group_rows.column(group_rows.FINAL, generation - 1)] = ""
        key, due = keys.member(task.task_id), Merge(keys.DUE, {"resolution": due_of(task, generation)})
        if generation == 0:
            operations: list[Operation] = [Delete(keys.active(task.task_id, 0)), Merge(key, values), due]
            with suppress(TransactionRefused):
                return (await self._tables.transact(keys.GROUPS, task.task_group_id, operations))[2]
        for _ in range(LOST_RACE.tries):
            row = await self._tables.get_row(keys.GROUPS, task.task_group_id, key)
            if row is not None and group_rows.column(group_rows.STATE, generation) in row.values:
                return None
            settled = await self._settle_as_read(task, generation, values, row)
            if settled is not None:
                return settled or None
        raise ServiceUnavailable(f"the rows of task {task.task_id} in its group change too often")

    async def _settle_as_read(
        self, task: Task, generation: int, values: dict[str, Value], row: Row | None
    ) -> str | None:
        """Settles a generation whose member row, as read, has no state of it. Returns the ETag of what is due, "" if
        nothing has become due, None if the member row has changed. Nothing becomes due if there is no group, or if a
        later generation was settled before: the group has been due since, and may have been announced. A missing member
        row is created again, as only that leads to the task."""
        key = keys.member(task.task_id)
        member = _made_again(key, values, generation) if row is None else Merge(key, values, row.etag)
        is_latest = row is None or generation > max(group_rows.generations(row, group_rows.STATE), default=-1)
        due: list[Operation] = [Merge(keys.DUE, {"resolution": due_of(task, generation)})] if is_latest else []
        active = (
            [generation]
            if row is not None and group_rows.column(group_rows.STATE, 0) in row.values
            else sorted({0, generation})
        )
        while True:
            deletions = [Delete(keys.active(task.task_id, each)) for each in active]
            try:
                etags = await self._tables.transact(keys.GROUPS, task.task_group_id, [member, *due, *deletions])
            except TransactionRefused as refused:
                if refused.index == 0:
                    return None
                if refused.index > len(due):
                    del active[refused.index - len(due) - 1]
                elif row is None:
                    return ""
                else:
                    due = []
                continue
            return etags[1] if due else ""

    async def active(self, task_group_id: str, *, limit: int) -> tuple[list[Active], Due | None, Group | None]:
        """Returns the first active rows. If there are fewer than `limit`, also what is due and the header, as they are
        after them. They are not of one moment: storage may answer a range in several parts."""
        start, end = keys.ACTIVE_AND_GROUP
        rows: list[Row] = []
        # Not all of the range: storage may end a page after any row.
        async for page in rows_of(self._tables, keys.GROUPS, task_group_id, start=start, end=end, limit=limit + 1):
            rows += page
            if rows and (rows[0].key != keys.DUE or len(rows) > 1):
                break
        others = {row.key: row for row in rows if row.key in (keys.DUE, keys.GROUP)}
        due, group = others.get(keys.DUE), others.get(keys.GROUP)
        return (
            [group_rows.decode_active(row) for row in rows if row.key not in others][:limit],
            None if due is None else group_rows.decode_due(due),
            None if group is None else group_rows.decode_group(group),
        )

    async def due(self, task_group_id: str) -> Due | None:
        """Returns what is due in the group; None if there is no such group."""
        row = await self._tables.get_row(keys.GROUPS, task_group_id, keys.DUE)
        return None if row is None else group_rows.decode_due(row)

    async def clear_due(self, task_group_id: str, due: Due) -> None:
        """Notes that the check that was due is done, unless something has been settled since."""
        await try_transact(self._tables, keys.GROUPS, task_group_id, [Merge(keys.DUE, {"resolution": ""}, due.etag)])

    async def seal(self, group: Group, now: datetime) -> None:
        """Seals the group: its scheduler's guard goes, so that no task can join. Raises GroupChanged."""
        operations: list[Operation] = [
            Merge(keys.GROUP, {"sealed": format_date(now)}, group.etag),
            Delete(keys.scheduler(group.scheduler_id, group.number)),
        ]
        etag = (await self._transact(group.task_group_id, operations))[0]
        self.keep(replace(group, sealed=now, etag=etag))

    async def active_page(self, task_group_id: str, start: str | None) -> tuple[list[Active], str | None]:
        """Returns a page of up to 1000 active rows, and where the next one starts."""
        page = await self._tables.query(keys.GROUPS, task_group_id, start=start or keys.ACTIVE[0], end=keys.ACTIVE[1])
        return [group_rows.decode_active(row) for row in page.rows], page.resume

    async def members(self, task_group_id: str, start: str | None, limit: int) -> tuple[list[Member], str | None]:
        """Returns a page of members in the order of taskId, and where the next one starts."""
        page = await self._tables.query(
            keys.GROUPS, task_group_id, start=start or keys.MEMBERS[0], end=keys.MEMBERS[1], limit=limit
        )
        return [group_rows.decode_member(row) for row in page.rows], page.resume

    async def member_etags(self, task_group_id: str, start: str, limit: int) -> dict[str, str]:
        """Returns the ETags of a page of member rows by taskId."""
        page = await self._tables.query(
            keys.GROUPS, task_group_id, start=start, end=keys.MEMBERS[1], limit=limit, select=()
        )
        return {row.key.partition("~")[2]: row.etag for row in page.rows}

    def all_members(self, task_group_id: str) -> PageReader[Row]:
        """Returns the bare rows of all members."""
        start, end = keys.MEMBERS
        return rows_of(self._tables, keys.GROUPS, task_group_id, start=start, end=end, select=())


def due_of(task: Task, generation: int) -> str:
    """Returns what the row of what is due says until the group was checked after this task's resolution."""
    return f"{task.task_id}~{generation}~{task.life}"


def _made_again(key: str, values: Mapping[str, Value], generation: int) -> Operation:
    """Returns the operation that creates a missing member row. It marks all generations, as the lost one did."""
    return Create(
        key, {**{group_rows.column(group_rows.OPENED, number): True for number in range(generation + 1)}, **values}
    )
