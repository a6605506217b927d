"""Repairs beside live calls: each looks at the status row once more, before it acts and after it has.

A task that has moved on since it was inspected is left alone. One that moves on during the repair gets its handlers to
do their work once more, so that nothing which the repair has added outlives what it was added for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from shared.queue.groups.rows import Group
from shared.queue.tasks.codec import decode_task
from shared.queue.tasks.effects import ChangePoolRows, PutClaim, PutResolved, row_of
from shared.queue.tasks.rules import State, Task
from shared.queue.tasks.transitions import put_deadline
from shared.store import keys
from shared.store.interface import MAX_OPERATIONS, Create, Delete, Merge, Operation, Row, TransactionRefused, Upsert
from tools.admin.account import Records

Repair = Callable[[], Awaitable[bool]]
"""Puts something right. Returns False, and changes nothing, if it has changed since it was inspected."""


class TaskRepairs:
    """What can be put right about a task, as it was when its status row was read."""

    def __init__(self, records: Records, status: Row, task: Task) -> None:
        self._records = records
        self._status = status
        self._task = task

    def handle_again(self) -> Repair:
        """Returns a repair that lets the handler of resolutions do all of its work once more, which may be repeated."""
        return self._unless_changed(lambda: put_resolved(self._records, self._task))

    def put_deadline(self) -> Repair:
        """Returns a repair that puts a new timer for the task's deadline."""
        return self._unless_changed(lambda: self._records.messages.put_deadline(put_deadline(self._task)))

    def put_claim(self) -> Repair:
        """Returns a repair that puts a new timer for the end of the task's claim."""
        task, started, until = self._task, self._task.last_run.started, self._task.last_run.taken_until
        assert started is not None and until is not None, "a running run has the times of its claim"
        claim = PutClaim(task_id=task.task_id, run_id=task.last_run_id, taken_until=until, started=started)
        return self._unless_changed(lambda: self._records.messages.put_claim(claim))

    def schedule_deletion(self, group: Group | None) -> Repair:
        """Returns a repair that schedules the task's deletion: by a sweep of its group if it is a member, or by a row
        of its own."""
        task, expiry = self._task, self._records.expiry
        if group is not None:
            return self._unless_changed(lambda: expiry.group(group.task_group_id, group.expires))
        return self._unless_changed(lambda: expiry.task(task.task_id, task.task_group_id, task.expires))

    def count_as_unresolved(self) -> Repair:
        """Returns a repair that writes the task's active row. If the task was resolved meanwhile, the handler that
        removes such rows is called for again."""

        async def add() -> None:
            task = self._task
            row = Upsert(keys.active(task.task_id, task.generation), {})
            await self._records.storage.tables.transact(keys.GROUPS, task.task_group_id, [row])
            now = await self._changed()
            runs = () if now is None else now.runs
            ours = [run_id for run_id, run in enumerate(runs) if run.generation == self._task.generation]
            if now is not None and ours and now.runs[ours[-1]].state.is_resolved:
                await self._records.messages.put_resolved(PutResolved(task_id=now.task_id, run_id=ours[-1]))

        return self._unless_changed(add)

    def list_in_pool(self) -> Repair:
        """Returns a repair that writes the index row of the task's last run, and removes it again if the run has left
        that state meanwhile."""

        async def add() -> None:
            run_id = self._task.last_run_id
            row = row_of(self._task, run_id)
            await self._records.pools.change_pool_rows([ChangePoolRows(add=(row,))])
            now = await self._changed()
            if now is not None and now.runs[run_id].state is not self._task.last_run.state:
                await self._records.pools.change_pool_rows([ChangePoolRows(remove=(row,))])

        return self._unless_changed(add)

    def wake_from(self, required_id: str) -> Repair:
        """Returns a repair that writes the edge out of a required task. If that task was resolved before the edge
        existed, its resolution is handled again."""

        async def add() -> None:
            required = await self._records.tasks.status(required_id)
            if required is not None and required.task_group_id == self._task.task_group_id:
                await self._records.edges.add(required.task_group_id, self._task.task_id, [required_id])
            else:
                await self._records.tasks.edges.rewrite(required=required_id, dependent=self._task.task_id)
            required = await self._records.tasks.status(required_id)
            if required is not None and required.is_resolved:
                await put_resolved(self._records, required)

        return self._unless_changed(add)

    def set_guards(self, present: Sequence[str]) -> Repair:
        """Returns a repair that sets the guards that follow from the status row, in one transaction with it. `present`
        are those that are there. They can differ only in a copy of the table, or if somebody has written by hand."""

        async def set_right() -> bool:
            wanted = guards(self._task)
            operations: list[Operation] = [Merge(keys.TASK_STATUS, {}, self._status.etag)]
            operations += [Create(key, {}) for key in sorted(wanted.difference(present))]
            operations += [Delete(key) for key in sorted(set(present).difference(wanted))]
            try:
                await self._records.storage.tables.transact(keys.TASKS, self._task.task_id, operations)
            except TransactionRefused:
                return False
            return True

        return set_right

    def _unless_changed(self, act: Callable[[], Awaitable[object]]) -> Repair:
        async def repair() -> bool:
            if await self._changed() is not None:
                return False
            await act()
            return True

        return repair

    async def _changed(self) -> Task | None:
        """Returns the task as it is now, if it has changed since it was inspected; None if it has not, or is gone."""
        row = await self._records.storage.tables.get_row(keys.TASKS, self._task.task_id, keys.TASK_STATUS)
        return None if row is None or row.etag == self._status.etag else decode_task(row)


def guards(task: Task) -> set[str]:
    """Returns the guards that a task in this state has."""
    uploads = {keys.upload(run_id) for run_id, run in enumerate(task.runs) if run.state is State.RUNNING}
    return uploads if task.is_resolved else uploads | {keys.TASK_OPEN}


async def put_resolved(records: Records, task: Task) -> object:
    """Lets the handler of resolutions do all of its work once more."""
    return await records.messages.put_resolved(PutResolved(task_id=task.task_id, run_id=task.last_run_id))


def group_guards(group: Group) -> set[str]:
    """Returns the guard rows that belong to a group's header."""
    scheduler = {keys.scheduler(group.scheduler_id, group.number)} if group.sealed is None else set()
    return {keys.number(group.number)} | scheduler


def set_group_guards(records: Records, group: Group, there: set[str]) -> Repair:
    """Returns a repair that sets the guards of a group as its header wants them, in one transaction with the header.
    They differ in an export that has read the header before a call on the group, and the guards after it."""

    async def set_right() -> bool:
        wanted = group_guards(group)
        operations: list[Operation] = [Merge(keys.GROUP, {}, group.etag)]
        operations += [Create(key, {}) for key in sorted(wanted - there)]
        operations += [Delete(key) for key in sorted(there - wanted)[: MAX_OPERATIONS - len(operations)]]
        try:
            await records.storage.tables.transact(keys.GROUPS, group.task_group_id, operations)
        except TransactionRefused:
            return False
        return True

    return set_right
