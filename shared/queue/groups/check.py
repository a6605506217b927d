"""Sees whether a group is resolved, whatever rows dead calls have left in it (design 5)."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.base import bounds, remembered
from shared.base.frozen import dataclass
from shared.base.memo import Memo
from shared.base.protocol import ORPHAN_AFTER, OVERDUE
from shared.queue.events.rules import Exchange
from shared.queue.groups.rows import Active, Due, Group, group_event
from shared.queue.tasks.effects import PutResolved
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.rules import Task
from shared.queue.tasks.transitions import put_deadline


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """What the first active rows of a group show. Concurrent checks share it."""

    due: Due | None = None
    """What is due in the group; None if the check is left to the handler of a task that is not settled yet."""
    group: Group | None = None
    """The group's header, if there is no active row."""
    wait: timedelta | None = None
    """Time until a row is old enough to be removed."""
    has_removed: bool = False
    """Whether there were rows, all of which were removed: others may follow."""


@dataclass(frozen=True, slots=True)
class _Unresolved:
    """An active row, and its task that was unresolved afterwards."""

    row: Active
    deadline: datetime
    at: datetime


class GroupCheck:
    """Announces a group once per time that it resolves."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._looks: Memo[str, _Look] = Memo(remembered.GROUP_LOOKS)
        self._unresolved: Memo[str, _Unresolved] = Memo(remembered.UNRESOLVED)

    async def check(self, task_group_id: str, resolution: str | None = None, seen: str | None = None) -> float | None:
        """Announces the group if a check is due and no active row is left.

        Every settled resolution changes the row of what is due: if that is the same before and after the active rows
        were read, there was a moment without one (design 5). `seen` is its ETag as the caller knows it; without it, or
        if the row has changed, they are read once more.

        Returns the seconds after which to check again: until a row is old enough to be removed as an orphan, or at once
        if there are more orphans than one check removes. Returns None if nothing is left to do, or if another
        `resolution` is due, whose handler will check. Raises StorageUnavailable."""
        for _ in range(bounds.ACTIVE_PAGES):
            look = await self._looks.read_anew(task_group_id, lambda: self._look_at_active(task_group_id))
            if look.has_removed:
                continue
            due = look.due
            if due is None or not due.resolution or (resolution is not None and due.resolution != resolution):
                return None
            if look.wait is not None:
                return None if resolution is None else look.wait.total_seconds() + 1
            if due.etag == seen and look.group is not None:
                await self._stores.announcer.announce_group(
                    group_event(Exchange.TASK_GROUP_RESOLVED, look.group, due.resolution)
                )
                # Unless another resolution has become due since.
                await self._stores.groups.clear_due(task_group_id, due)
                return None
            seen = due.etag
        return 0

    async def _look_at_active(self, task_group_id: str) -> _Look:
        """Reads the first active rows, up to one that ends the check, and removes orphans before it."""
        rows, due, group = await self._stores.groups.active(task_group_id, limit=bounds.ACTIVE_ROWS)
        for row in rows:
            now, seen = self._stores.runtime.now(), self._unresolved.get(task_group_id)
            # An earlier check read this very row, and found the task unresolved afterwards. No resolution has been
            # settled since: that would have deleted the row, and a restored row has another ETag.
            if seen and seen.row == row and now - seen.at < ORPHAN_AFTER and now - seen.deadline <= OVERDUE:
                return _Look()
            looked = now
            task = await self._stores.tasks.status(row.task_id)
            if task is not None and task.task_group_id != task_group_id:
                task = None  # a call that was refused, or died, has named a task of another group
            if task is not None and task.generation == row.generation:
                if not task.is_resolved:
                    now = self._stores.runtime.now()
                    self._unresolved[task_group_id] = _Unresolved(row, task.deadline, now)
                    if now - task.deadline > OVERDUE:  # else it will be resolved at its deadline
                        await self._stores.messages.put_deadline(put_deadline(task))
                    return _Look()
                if not await self._stores.groups.is_settled(task_group_id, row.task_id, row.generation):
                    # Usually its own handler will still run, and check the group. If the resolution is old, its message
                    # is put again.
                    resolved, now = task.last_run.resolved, self._stores.runtime.now()
                    if resolved is not None and now - max(resolved, row.written) > ORPHAN_AFTER:
                        await self._stores.messages.put_resolved(
                            PutResolved(task_id=task.task_id, run_id=task.last_run_id)
                        )
                    return _Look()
                await self._remove_orphan_row(task_group_id, row, task)
                continue
            wait = ORPHAN_AFTER - (looked - row.written)
            if wait > timedelta(0):
                return _Look(due=due or await self._stores.groups.due(task_group_id), wait=wait)
            await self._remove_orphan_row(task_group_id, row, task)
        return _Look(due=due, group=group, has_removed=bool(rows))

    async def _remove_orphan_row(self, task_group_id: str, row: Active, task: Task | None) -> None:
        """Removes an orphan: together with its member row if the group has no such task, else alone."""
        if task is None and row.generation == 0:
            await self._stores.groups.remove_orphan(task_group_id, row)
        else:
            await self._stores.groups.remove_active(task_group_id, row.task_id, row.generation, row.etag)
