"""The expiry job for groups: their expired tasks, then the group itself (design 3). A task's rows are deleted before
its member row, which leads to them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from shared.base import bounds
from shared.base.concurrency import in_waves
from shared.base.dates import parse_date
from shared.base.protocol import LATE_TIMERS
from shared.queue.expiry.job import UnsentEvents, note_failure
from shared.queue.expiry.tasks import TaskExpiry
from shared.queue.groups.check import GroupCheck
from shared.queue.groups.recent import RecentGroups
from shared.queue.groups.rows import FINAL_COLUMNS, final_status
from shared.queue.tasks.executor import Stores
from shared.store import keys
from shared.store.expiring import Expiring, ExpiryStore, is_over, is_settled
from shared.store.interface import MAX_OPERATIONS, Row, Storage
from shared.store.partitions import OutOfTime, delete_together, delete_unchanged, rows_of, sweep

DEATHS = 2
"""After this many deaths of a process that was deleting a group, the group's tasks are deleted one by one. At the last
of these deaths the process was deleting nothing else."""


@dataclass
class _Sweep:
    """One sweep of a group."""

    task_group_id: str
    until: datetime
    is_apart: bool
    later: list[datetime] = field(default_factory=list)
    """The times at which to look again at each of the tasks that stay although they are due."""
    failures: list[Exception] = field(default_factory=list)
    """Failures to delete tasks that may not have expired; the member rows of these tasks stay."""


@dataclass(eq=False, repr=False)
class GroupExpiry:
    """Deletes tasks, then their rows in the group, and last the group. Each step may be repeated. A task that cannot be
    deleted or takes too long gets its own row in the Expiry table before it leaves its group. It holds up no other."""

    _storage: Storage
    _stores: Stores
    _tasks: TaskExpiry
    _expiry: ExpiryStore
    _check: GroupCheck
    _recent: RecentGroups
    _unsent_events: UnsentEvents

    def __post_init__(self) -> None:
        self._tables = self._storage.tables
        self._now = self._stores.runtime.now
        self._turns = asyncio.Semaphore(bounds.BACKGROUND)

    async def task(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Handles a task with a row of its own in the Expiry table. Returns when it is due again. Raises OutOfTime."""
        task_id, task_group_id = expiring.words[0], str(expiring.values["taskGroupId"])
        looked = self._now()
        later = await self._tasks.erase(task_id, task_group_id, until, is_final=False)
        if later is not None:
            return later
        member = await self._tables.get_row(keys.GROUPS, task_group_id, keys.member(task_id))
        await self._delete_edges(task_group_id, [task_id], looked, until)
        return await self._leave(task_group_id, task_id, member, looked)

    async def sweep(self, task_group_id: str, start: str | None, until: datetime, *, is_apart: bool) -> datetime | None:
        """Deletes the tasks of a group that have expired, page by page, from a member row on. With `is_apart` each task
        gets a row of its own instead: deleting one of them has killed the process, and trying each alone shows which.
        Returns when to look again at those that stay although they are due, None if there are none. Raises OutOfTime
        with the member row to go on from; the first failure when many tasks in a row cannot be deleted."""
        first, end = keys.MEMBERS
        pages = rows_of(self._tables, keys.GROUPS, task_group_id, start=start or first, end=end, select=FINAL_COLUMNS)
        sweep = _Sweep(task_group_id, until, is_apart)
        async for page in pages:
            due = []
            for row in page:
                final = final_status(row)
                expires = None if final is None else parse_date(final["expires"])
                if expires is not None and not is_over(expires, self._now()):
                    continue
                if expires is not None and (held_until := self._unsent_events.held_until(expires)):
                    sweep.later.append(held_until)
                else:
                    due.append(row)
            for begin in range(0, len(due), MAX_OPERATIONS):
                await self._delete_expired_tasks(sweep, due[begin : begin + MAX_OPERATIONS])
            if pages.resume is not None and self._now() >= until:
                raise OutOfTime(pages.resume)
        if sweep.failures:
            raise sweep.failures[0]
        return min(sweep.later, default=None)

    async def _delete_expired_tasks(self, sweep: _Sweep, members: Sequence[Row]) -> None:
        """Deletes those of up to a hundred tasks that have expired, then their rows in the group. Like `sweep`."""
        looked = self._now()  # what was written since may belong to a new task of the same id
        failed: dict[str, Exception] = {}
        stay, apart, unbegun = set[str](), set[str](), set[str]()

        async def delete_rows(member: Row) -> None:
            async with self._turns:
                if self._now() >= sweep.until:
                    unbegun.add(member.key)
                    return
                try:
                    if sweep.is_apart and await self._is_over(member):
                        apart.add(member.key)
                    elif later := await self._delete_task(sweep, member):
                        stay.add(member.key)
                        sweep.later.append(later)
                except OutOfTime:
                    apart.add(member.key)
                except Exception as error:
                    failed[member.key] = error

        await in_waves(bounds.BACKGROUND, delete_rows, members)
        if len(failed) >= bounds.BACKGROUND and len(failed) + len(unbegun) == len(members):
            raise next(iter(failed.values()))  # so many failures are unlikely to be the fault of single tasks
        stay |= await self._leave_to_own_rows(sweep, [each for each in members if each.key in failed], failed, apart)
        stay |= unbegun
        await self._leave_together(sweep, [member for member in members if member.key not in stay], looked)
        if unbegun:
            raise OutOfTime(min(unbegun))

    async def _delete_task(self, sweep: _Sweep, member: Row) -> datetime | None:
        is_final = final_status(member) is not None
        return await self._tasks.erase(keys.task_of(member.key), sweep.task_group_id, sweep.until, is_final=is_final)

    async def _leave_to_own_rows(
        self, sweep: _Sweep, members: Sequence[Row], failed: Mapping[str, Exception], apart: Collection[str]
    ) -> set[str]:
        """Gives each task that is left over a row of its own: those that have `failed` after a back-off, others that
        are to go `apart` at once. Returns failed ones that are not known to have expired, which stay in their group."""
        expired, stay, group = [], set(), sweep.task_group_id
        for member in members:
            task_id, error = keys.task_of(member.key), failed[member.key]
            with suppress(Exception):
                if await self._is_over(member):
                    expired.append(task_id)
                    note_failure(self._stores.runtime.meter, "task", keys.expiring("task", task_id, group), 1, error)
                    continue
            stay.add(member.key)
            sweep.failures.append(error)
        await self._expiry.tasks(group, expired, [keys.task_of(key) for key in sorted(apart)])
        return stay

    async def _is_over(self, member: Row) -> bool:
        """Returns whether a member has expired, and nothing waits for its resolution any more."""
        now = self._now()
        if (final := final_status(member)) is not None:
            return is_over(parse_date(final["expires"]), now)
        task = await self._stores.tasks.status(keys.task_of(member.key))
        return task is not None and is_over(task.expires, now if task.is_resolved else now - LATE_TIMERS)

    async def _leave_together(self, sweep: _Sweep, members: Sequence[Row], looked: datetime) -> None:
        """Deletes the rows that tasks which are gone have in their group, unless a call has written them in the last
        minutes. It takes three requests for all tasks that were resolved. Raises OutOfTime."""
        group = sweep.task_group_id
        settled = [member for member in members if is_settled(member, looked)]
        if len(settled) < len(members):
            sweep.later.append(self._now())
        if not settled:
            return
        await self._delete_edges(group, [keys.task_of(member.key) for member in settled], looked, sweep.until)
        await delete_unchanged(self._tables, keys.GROUPS, [member for member in settled if final_status(member)])

        async def leave(member: Row) -> None:
            later = await self._leave(group, keys.task_of(member.key), member, looked)
            if later is not None:
                sweep.later.append(later)

        await in_waves(bounds.BACKGROUND, leave, [member for member in settled if not final_status(member)])

    async def _leave(self, task_group_id: str, task_id: str, member: Row | None, looked: datetime) -> datetime | None:
        """Deletes the rows of a task in its group. Member and active rows go together, since neither is of use alone.
        If the member row shows a resolution, there is no active row any more. Rows that a call has written or rewritten
        in the minutes before the task was `looked` for, or since, stay: it may be creating a new task of this id.
        Returns when to look again, None if never."""
        rows = [] if member is None else [member]
        if member is None or not final_status(member):
            start, end = keys.actives(task_id)
            actives = await self._tables.query(
                keys.GROUPS, task_group_id, start=start, end=end, limit=MAX_OPERATIONS - 1, select=()
            )
            if actives.resume is not None:
                await delete_unchanged(
                    self._tables, keys.GROUPS, [row for row in actives.rows if is_settled(row, looked)]
                )
                return self._now()
            rows = [*actives.rows, *rows]
        if not rows:
            return None
        if not all(is_settled(row, looked) for row in rows):
            return self._now()
        return None if await delete_together(self._tables, keys.GROUPS, rows) else self._now()

    async def _delete_edges(self, task_group_id: str, task_ids: list[str], looked: datetime, until: datetime) -> None:
        """Deletes the edges out of tasks that are being deleted. These can be listed as long as the tasks exist. An
        edge that a refused call is writing at this moment is deleted with the group. Raises OutOfTime."""
        going = set(task_ids)
        await sweep(
            self._tables,
            keys.GROUPS,
            self._stores.edges.out_of(task_group_id, task_ids),
            is_over=lambda edge: keys.required_of(edge.key) in going and is_settled(edge, looked),
            has_time=lambda: self._now() < until,
        )

    async def group(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Sweeps a group: deletes its tasks that have expired, and the group once it has expired and has no member any
        more. Returns when to look again: at the group's expiration at the latest, None if it is gone.

        Header and guards go in one transaction that holds only if no call has raised, sealed or joined the group since
        they were read. A later task creates it again, with new rows, which stay. All others go page by page. Raises
        OutOfTime."""
        (task_group_id,) = expiring.words
        start = expiring.resume if (expiring.resume or "").startswith(keys.MEMBERS[0]) else None
        later = await self.sweep(task_group_id, start, until, is_apart=expiring.deaths >= DEATHS)
        if start is not None:
            later = self._now()  # members of earlier pages may have stayed: count them anew
        first, end = keys.GROUP_AND_MEMBERS
        looked = self._now()
        rows: list[Row] = []
        select = ("expires", "resolution")
        pages = rows_of(
            self._tables, keys.GROUPS, task_group_id, start=first, end=end, limit=MAX_OPERATIONS, select=select
        )
        async for page in pages:
            rows += page
            if has_members := any(_is_member(row) for row in page):
                break
        header = next((row for row in rows if row.key == keys.GROUP), None)
        is_due = any(row.values.get("resolution") for row in rows)
        expires = self._now() if header is None else parse_date(str(header.values["expires"]))
        if header is not None and not is_over(expires, self._now()):
            return min(later, expires) if later and has_members else expires
        if has_members:
            return later or self._now()
        if header is not None:
            if held_until := self._unsent_events.held_until(expires):
                return held_until
            if is_due and not is_over(expires, looked - LATE_TIMERS):
                await self._check.check(task_group_id)  # a handler that is late has yet to announce the group
                return self._now()
            if not await delete_together(self._tables, keys.GROUPS, rows):
                return self._now()
        some_stay = await sweep(
            self._tables,
            keys.GROUPS,
            rows_of(self._tables, keys.GROUPS, task_group_id, select=()),
            is_over=lambda row: is_settled(row, looked) and not _is_member(row),
            has_time=lambda: self._now() < until,
        )
        return self._now() if some_stay else None

    async def expire_listed_group(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes a row of the list of groups if its group is gone, or if the group does not name it: then a call that
        died has left it. Returns when it is due again while the group exists."""
        task_group_id, *key = expiring.words
        listed = "~".join(key)
        header = await self._stores.groups.header(task_group_id)
        if header is not None and header.listed == listed:
            return max(header.expires, self._now())
        await self._recent.remove_group(listed)
        return None


def _is_member(row: Row) -> bool:
    return row.key.startswith(keys.MEMBERS[0])
