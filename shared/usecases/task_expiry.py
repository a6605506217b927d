"""The expiry job's part for tasks: their partition, their place in their group, and what a call that died has left."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from shared.domain.dates import parse_date
from shared.domain.effects import ChangePoolRows, row_of
from shared.domain.protocol import LATE_TIMERS, ROWS_COMPLETE_AFTER, TRIES
from shared.domain.task import State
from shared.storage import keys
from shared.storage.definitions import DefinitionCache
from shared.storage.expiry import Expiring, is_over
from shared.storage.interface import MAX_OPERATIONS, Row, Storage
from shared.storage.partitions import OutOfTime, delete_together, delete_unchanged, rows_of, sweep
from shared.usecases.artifact_expiry import PROPERTIES, ArtifactExpiry
from shared.usecases.executor import Stores
from shared.usecases.unsent_events import UnsentEvents

log = logging.getLogger("taskcluster.expiration")


_PROPERTIES = ("state", "expires", "taskGroupId", "generation", *PROPERTIES)
_LOOK_AGAIN = timedelta(hours=1)
_MEMBERS = 300
"""Member rows read at once, to find those of tasks that expire together; a group may have others between them."""


@dataclass(kw_only=True, slots=True)
class Emptied:
    """A task whose content is deleted, as read: all of its rows fit into one transaction."""

    task_id: str
    task_group_id: str
    generation: int
    rows: Sequence[Row]
    has_left: bool = False
    """Whether its rows in its group are deleted."""


class TaskExpiry:
    """Handles the rows of the Expiry table that are about tasks. Every step may be repeated."""

    def __init__(
        self,
        storage: Storage,
        stores: Stores,
        artifacts: ArtifactExpiry,
        cache: DefinitionCache,
        unsent_events: UnsentEvents,
    ) -> None:
        self._tables = storage.tables
        self._blobs = storage.blobs
        self._stores = stores
        self._artifacts = artifacts
        self._cache = cache
        self._unsent_events = unsent_events
        self._now = stores.runtime.now

    async def empty(self, expiring: Expiring, until: datetime) -> Emptied | datetime | None:
        """Begins to delete a task: the content of its artifacts goes, and all rows beyond what a transaction holds.

        If the task is not there, or is of another group, a call that died has left the row of the Expiry table.
        Returns the task, for `leave_groups` and `delete`; else when to look again, None if never. Raises OutOfTime.
        """
        task_id, task_group_id = expiring.words[0], str(expiring.values["taskGroupId"])
        for _ in range(TRIES):
            pages = rows_of(self._tables, keys.TASKS, task_id, select=_PROPERTIES)
            rows = await anext(pages)
            status = next((row for row in rows if row.key == keys.TASK_STATUS), None)
            if status is None and pages.resume is not None:
                status = await self._tables.get(keys.TASKS, task_id, keys.TASK_STATUS)
            if status is None:
                return _earlier(
                    await self._delete_leftovers(task_id, rows, until),
                    await self._leave_group(task_group_id, task_id, None, until),
                )
            if str(status.values["taskGroupId"]) != task_group_id:
                return await self._leave_group(task_group_id, task_id, None, until)
            expires = parse_date(str(status.values["expires"]))
            if not is_over(expires, self._now()):
                return None  # the id was used again, for a task that has a row of its own
            if not State(str(status.values["state"])).is_resolved and not await self._give_up(task_id):
                return self._now()
            if not self._is_settled(status):
                return self._now()  # its resolution, a late one, has yet to be handled
            if held_until := self._unsent_events.held_until(expires):
                return held_until
            await self._artifacts.expect_late_blobs(task_id, expires, rows, status.timestamp)
            if pages.resume is not None or len(rows) > MAX_OPERATIONS:
                await self._delete_pages(task_id, until, is_over=_is_other)
                continue
            await self._delete_contents(task_id, rows)
            generation = cast("int", status.values["generation"])
            return Emptied(task_id=task_id, task_group_id=task_group_id, generation=generation, rows=rows)
        return self._now()

    async def leave_groups(self, emptied: Sequence[Emptied], until: datetime) -> None:
        """Deletes the edges and member rows of tasks that expire together in one group: three requests for all of them,
        and more for many edges.

        What does not go here `delete` handles, one by one, and failures too.
        """
        by_group: dict[str, list[Emptied]] = {}
        for task in emptied:
            by_group.setdefault(task.task_group_id, []).append(task)
        for task_group_id, tasks in by_group.items():
            if len(tasks) > 1:
                try:
                    by_key = {keys.member(task.task_id): task for task in tasks}
                    await self._leave_together(task_group_id, by_key, until)
                except Exception as error:
                    log.warning("cannot delete members of %s together: %s", task_group_id, error)

    async def delete(self, emptied: Emptied, until: datetime) -> datetime | None:
        """Deletes the rest of a task: its place in its group, then its partition.

        The rows that make it a task go last, in one transaction that holds only if nothing has changed since they
        were read. So an id that is used again, even while this runs, keeps everything of its new task.
        Returns when to look again, None if never. Raises OutOfTime.
        """
        task_id = emptied.task_id
        if not emptied.has_left:
            later = await self._leave_group(emptied.task_group_id, task_id, emptied.generation, until)
            if later is not None:
                return later
        if not await delete_together(self._tables, keys.TASKS, emptied.rows):
            return self._now()
        self._cache.forget(task_id)
        self._unsent_events.note_deleted(task_id)
        return None

    async def definition(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes the content of a large definition, also of one that was refused; not while its task is there, which
        could not be read without it."""
        path = str(expiring.values["path"])
        row = await self._tables.get(keys.TASKS, expiring.words[0], keys.TASK_DEFINITION)
        if row is not None and row.values.get("blob") == path:
            return self._now() + _LOOK_AGAIN
        await self._blobs.delete(keys.DEFINITIONS, path)
        return None

    async def _give_up(self, task_id: str) -> bool:
        """Whether a task that is not resolved goes all the same, without an event or its dependents being resolved.

        Its deadline message should have been handled long ago. While handlers may only be late, it is put again and
        the task stays; later the task's index row, which a handler would have removed, goes first.
        """
        task = await self._stores.tasks.status(task_id)
        if task is None or task.is_resolved:
            return False  # just now
        if not is_over(task.expires, self._now() - LATE_TIMERS):
            await self._stores.messages.put_deadline(task.task_id, task.task_group_id, task.scheduler_id, task.deadline)
            return False
        log.error("task %s has expired unresolved", task.task_id, extra={"action": "expired_unresolved"})
        if task.runs:
            gone = ChangePoolRows(task_queue_id=task.task_queue_id, remove=(row_of(task, task.last_run_id),))
            await self._stores.pools.change([gone], task.task_queue_id)
        return True

    async def _delete_pages(self, task_id: str, until: datetime, *, is_over: Callable[[Row], bool]) -> bool:
        """Deletes rows of a task's partition, with their blobs, page by page, and a hundred at a time: what is deleted
        stays deleted, however the run ends. Returns whether any stay. Raises OutOfTime.

        An artifact that cannot be deleted holds up nothing but its task: its failure is raised at the end.
        """
        failures: list[Exception] = []
        some_stay = False
        async for page in rows_of(self._tables, keys.TASKS, task_id, select=_PROPERTIES):
            over = [row for row in page if is_over(row)]
            some_stay = some_stay or len(over) < len(page)
            for start in range(0, len(over), MAX_OPERATIONS):
                if self._now() >= until:
                    raise failures[0] if failures else OutOfTime
                failures += await self._delete_others(task_id, over[start : start + MAX_OPERATIONS])
        if failures:
            raise failures[0]
        return some_stay

    async def _delete_contents(self, task_id: str, rows: Sequence[Row]) -> None:
        """Deletes the blobs of a task's artifacts. If one cannot be deleted, the rows of the others go, and its
        failure is raised."""
        failed = await self._artifacts.delete_blobs(task_id, rows)
        if failed:
            first, end = keys.ARTIFACTS
            deleted = [row for row in rows if first <= row.key < end and row.key not in failed]
            await delete_unchanged(self._tables, keys.TASKS, deleted)
            raise next(iter(failed.values()))

    async def _delete_others(self, task_id: str, rows: Sequence[Row]) -> list[Exception]:
        """Deletes rows that can go before their task, with their blobs; returns what could not be deleted, and why."""
        failed = await self._artifacts.delete_blobs(task_id, rows)
        deletable = [row for row in rows if row.key not in failed]
        await delete_unchanged(self._tables, keys.TASKS, deletable)
        return list(failed.values())

    async def _delete_leftovers(self, task_id: str, first: Sequence[Row], until: datetime) -> datetime | None:
        """Deletes rows in the partition of a task that is not there: edges of calls that were refused, or died.

        A young row may be of a call that creates the task, or a dependent of it, just now. Returns when to look again.
        `first` is the first page of them. Raises OutOfTime.
        """
        if first and await self._delete_pages(task_id, until, is_over=self._is_settled):
            return self._now()
        return None

    async def _leave_group(
        self, task_group_id: str, task_id: str, generation: int | None, until: datetime
    ) -> datetime | None:
        """Deletes the rows of a task in a group: its edges, then member and active rows together, since neither is of
        use without the other.

        A task that was resolved in its last `generation`, as its member row says, has no active row any more. Rows
        that a call has written or rewritten in the last minutes stay: it may be creating a new task of this id.
        Returns when to look again, None if never. Raises OutOfTime.
        """
        member = await self._tables.get(keys.GROUPS, task_group_id, keys.member(task_id))
        rows = [] if member is None else [member]
        if member is None or generation is None or not member.values.get(_final(generation)):
            start, end = keys.actives(task_id)
            actives = await self._tables.query(
                keys.GROUPS, task_group_id, start=start, end=end, limit=MAX_OPERATIONS - 1, select=()
            )
            if actives.resume is not None:
                await delete_unchanged(
                    self._tables, keys.GROUPS, [row for row in actives.rows if self._is_settled(row)]
                )
                return self._now()
            rows = [*actives.rows, *rows]
        if not rows:
            return None
        if not all(self._is_settled(row) for row in rows):
            return self._now()
        await self._delete_edges(task_group_id, [task_id], until)
        return None if await delete_together(self._tables, keys.GROUPS, rows) else self._now()

    async def _leave_together(self, task_group_id: str, tasks: Mapping[str, Emptied], until: datetime) -> None:
        """`tasks` by the keys of their member rows, at most as many as a transaction holds. Raises OutOfTime."""
        finals = {_final(task.generation) for task in tasks.values()}
        page = await self._tables.query(
            keys.GROUPS, task_group_id, start=min(tasks), end=f"{max(tasks)} ", limit=_MEMBERS, select=sorted(finals)
        )
        rows = [row for row in page.rows if row.key in tasks and self._is_settled(row)]
        rows = [row for row in rows if row.values.get(_final(tasks[row.key].generation))]
        if not rows:
            return
        await self._delete_edges(task_group_id, [tasks[row.key].task_id for row in rows], until)
        if await delete_together(self._tables, keys.GROUPS, rows):
            for row in rows:
                tasks[row.key].has_left = True

    async def _delete_edges(self, task_group_id: str, task_ids: Sequence[str], until: datetime) -> None:
        """Deletes the edges out of tasks that go, which are listed as long as these are there. An edge of a call that
        is refused just now goes with the group. Raises OutOfTime."""
        going = set(task_ids)
        await sweep(
            self._tables,
            keys.GROUPS,
            self._stores.edges.out_of(task_group_id, task_ids),
            is_over=lambda edge: keys.required_of(edge.key) in going and self._is_settled(edge),
            has_time=lambda: self._now() < until,
        )

    def _is_settled(self, row: Row) -> bool:
        """Whether no call that is under way can rely on the row any more: it would have rewritten it."""
        return row.timestamp + ROWS_COMPLETE_AFTER <= self._now()


def _final(generation: int) -> str:
    """The property of a member row that holds the status in which that generation of its task was resolved."""
    return f"final{generation:04d}"


def _is_other(row: Row) -> bool:
    """Whether a row of a task can go before the rows that make it a task, which go with the last of it."""
    first, end = keys.TASK_ROWS
    return not first <= row.key < end


def _earlier(first: datetime | None, second: datetime | None) -> datetime | None:
    moments = [moment for moment in (first, second) if moment is not None]
    return min(moments, default=None)
