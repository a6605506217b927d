"""The expiry job for tasks: their blobs, their partition, and what a dead call has left there (design 3). For artifacts
it also commits uploads that no other code would commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import cast

from shared.base import bounds
from shared.base.concurrency import in_waves
from shared.base.dates import parse_date
from shared.base.frozen import dataclass
from shared.base.protocol import LATE_TIMERS
from shared.base.retrying import LOST_RACE
from shared.queue.artifacts.creating import without_unfinished
from shared.queue.artifacts.rows import ArtifactStore, Stored, deletion
from shared.queue.artifacts.rules import LONGEST_UPLOAD, UNDER_WAY, StorageType, Upload
from shared.queue.artifacts.uploads import Uploads
from shared.queue.expiry.job import UnsentEvents
from shared.queue.tasks.effects import ChangePoolRows, row_of
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.rows import CommitLost
from shared.queue.tasks.rules import State
from shared.queue.tasks.transitions import put_deadline
from shared.store import keys
from shared.store.expiring import Expiring, ExpiryStore, is_over, is_settled
from shared.store.interface import MAX_OPERATIONS, Row, Storage
from shared.store.partitions import OutOfTime, delete_together, delete_unchanged, rows_of

log = logging.getLogger("taskcluster.expiration")
_PROPERTIES = ("state", "expires", "taskGroupId", "generation", "name", "upload", "version")
"""Properties of a task's rows that its deletion needs."""


@dataclass(eq=False, repr=False)
class TaskExpiry:
    """Deletes tasks and artifacts. Every step may be repeated."""

    _storage: Storage
    _stores: Stores
    _artifacts: ArtifactStore
    _uploads: Uploads
    _expiry: ExpiryStore
    _unsent_events: UnsentEvents

    def __post_init__(self) -> None:
        self._tables = self._storage.tables
        self._now = self._stores.runtime.now

    async def erase(self, task_id: str, task_group_id: str, until: datetime, *, is_final: bool) -> datetime | None:
        """Deletes a task that has expired: the content of its artifacts, then the rows that do not fit into one
        transaction, and last the rows that make it a task. That last transaction fails if any of these has changed
        since it was read. So an id that is used again, even while this runs, keeps everything of its new task.

        A task whose resolution has yet to be handled stays for some hours. `is_final`: the member row shows that the
        resolution was handled. Returns None if there is no task of this id in the group any more, else when to look
        again: at its expiration, if that is ahead. Raises OutOfTime."""
        first, end = keys.WHOLE_TASK  # the rows that make it a task are deleted last
        for _ in range(LOST_RACE.tries):
            looked = self._now()
            pages = rows_of(self._tables, keys.TASKS, task_id, select=_PROPERTIES)
            rows = await anext(pages)
            status = next((row for row in rows if row.key == keys.TASK_STATUS), None)
            if status is None and pages.resume is not None:
                status = await self._tables.get_row(keys.TASKS, task_id, keys.TASK_STATUS)
            if status is None:
                # Edges of calls that were refused, or died. A young row stays: its call may be about to create the
                # task, or a dependent of it.
                is_old = partial(is_settled, looked=looked)
                return self._now() if rows and await self._delete_pages(task_id, until, is_over=is_old) else None
            if str(status.values["taskGroupId"]) != task_group_id:
                return None
            expires = parse_date(str(status.values["expires"]))
            if not is_over(expires, self._now()):
                return expires
            if not is_final and await self._is_awaited(task_group_id, status) and not await self._give_up(task_id):
                return self._now()
            if not is_settled(status, looked):
                return self._now()  # the task was resolved late: its resolved message has yet to be handled
            if held_until := self._unsent_events.held_until(expires):
                return held_until
            await self._expect_late_blobs(task_id, expires, rows, status.timestamp)
            if pages.resume is not None or len(rows) > MAX_OPERATIONS:
                await self._delete_pages(task_id, until, is_over=lambda row: not first <= row.key < end)
                continue
            await self._delete_contents(task_id, rows)
            if await delete_together(self._tables, keys.TASKS, rows):
                self._stores.tasks.definitions.forget(task_id)
                self._unsent_events.note_deleted(task_id)
                return None
        return self._now()

    async def _is_awaited(self, task_group_id: str, status: Row) -> bool:
        """Returns whether the task is not resolved, or its group still counts it as unresolved."""
        if not State(str(status.values["state"])).is_resolved:
            return True
        active = keys.active(status.partition, cast("int", status.values["generation"]))
        return await self._tables.get_row(keys.GROUPS, task_group_id, active) is not None

    async def _give_up(self, task_id: str) -> bool:
        """Returns whether a task is deleted although it is not resolved, or its resolution was not handled. Then no
        event is sent, or its dependents and its group are not followed up.

        While handlers may only be late, the task stays and its deadline message is put again, whose handler does all
        that is missing. Later the task is deleted, and before it its index row, which a handler would have removed."""
        task = await self._stores.tasks.status(task_id)
        if task is None:
            return False  # just now
        resolved = task.last_run.resolved if task.is_resolved else None
        if not is_over(max(task.expires, resolved or task.expires), self._now() - LATE_TIMERS):
            await self._stores.messages.put_deadline(put_deadline(task))
            return False
        log.error("task %s has expired unresolved", task.task_id, extra={"action": "expired_unresolved"})
        if task.runs:
            gone = ChangePoolRows(remove=(row_of(task, task.last_run_id),))
            await self._stores.pools.change_pool_rows([gone])
        return True

    async def _delete_pages(self, task_id: str, until: datetime, *, is_over: Callable[[Row], bool]) -> bool:
        """Deletes rows of a task's partition, with their blobs, page by page, and a hundred at a time: what is deleted
        stays deleted, however the run ends. Returns whether any stay. Raises OutOfTime. An artifact that cannot be
        deleted holds up nothing but its task: its failure is raised at the end."""
        failures: list[Exception] = []
        some_stay = False
        async for page in rows_of(self._tables, keys.TASKS, task_id, select=_PROPERTIES):
            over = [row for row in page if is_over(row)]
            some_stay = some_stay or len(over) < len(page)
            for start in range(0, len(over), MAX_OPERATIONS):
                if self._now() >= until:
                    raise failures[0] if failures else OutOfTime
                batch = over[start : start + MAX_OPERATIONS]
                failed = await self._delete_blobs(task_id, batch)
                await delete_unchanged(self._tables, keys.TASKS, [row for row in batch if row.key not in failed])
                failures += failed.values()
        if failures:
            raise failures[0]
        return some_stay

    async def _delete_contents(self, task_id: str, rows: Sequence[Row]) -> None:
        """Deletes the blobs of a task's artifacts. If some cannot be, deletes the rows of the others and raises."""
        failed = await self._delete_blobs(task_id, rows)
        if failed:
            first, end = keys.ARTIFACTS
            deleted = [row for row in rows if first <= row.key < end and row.key not in failed]
            await delete_unchanged(self._tables, keys.TASKS, deleted)
            raise next(iter(failed.values()))

    async def artifact(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes an artifact that expires before its task; returns its expiration if that is later by now. The row
        goes first, on condition that it is as read: a repeated creation may prolong it. If the job dies, the blob goes
        with the task."""
        task_id, run_id, name = _words(expiring)
        stored = await self._artifacts.read_one(task_id, run_id, name)
        if stored is None:
            return None
        if not is_over(stored.artifact.expires, self._now()):
            return stored.artifact.expires
        if not await self._delete_row(stored):
            return self._now()
        if stored.artifact.has_blob:
            await self._storage.blobs.delete_blob(stored.container, stored.path)
        return None

    async def upload(self, expiring: Expiring, until: datetime) -> None:
        """Commits an upload that a resolution might not have committed in time, if it still waits."""
        task_id, run_id, name = _words(expiring)
        waiting = await self._artifacts.waiting(task_id, run_id, name)
        if waiting is not None:
            await self._uploads.commit(task_id, [waiting])

    async def _expect_late_blobs(self, task_id: str, expires: datetime, rows: Sequence[Row], written: datetime) -> None:
        """Schedules another look for blobs of a task that is deleted now, if an upload to it may be under way. No URL
        for uploads outlasts its task, but an upload that began in time may go on for `UNDER_WAY`. No URL was given out
        after `written`, the time of the last write to the task's status row."""
        first, end = keys.ARTIFACTS
        has_uploads = any(  # content may still come, or an artifact that is gone had a blob
            row.key == keys.STRAYS or (first <= row.key < end and row.values["version"]) for row in rows
        )
        if has_uploads and written + LONGEST_UPLOAD + UNDER_WAY > self._now():
            await self._expiry.strays(task_id, expires + UNDER_WAY)

    async def strays(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes blobs that were uploaded after their task was deleted, unless the id is used again."""
        (task_id,) = expiring.words
        if await self._stores.tasks.status(task_id) is not None:
            return self._now() + UNDER_WAY
        await self._uploads.delete_all(task_id)
        return None

    async def _delete_blobs(self, task_id: str, rows: Sequence[Row]) -> dict[str, Exception]:
        """Deletes the blobs of all artifacts among the rows of a task, and with the row that marks strays every blob
        of the task. Returns the keys of those rows whose blobs could not be deleted, and why."""
        first, end = keys.ARTIFACTS
        failed: dict[str, Exception] = {}

        async def delete_content(row: Row) -> None:
            try:
                if row.key == keys.STRAYS:
                    await self._uploads.delete_all(task_id)
                elif row.values["upload"] != Upload.NONE:
                    name, run_id = str(row.values["name"]), int(row.key.split("~")[1])
                    path = keys.path(task_id, run_id, name, str(row.values["version"]))
                    await self._storage.blobs.delete_blob(keys.container(name), path)
            except Exception as error:
                failed[row.key] = error

        with_blobs = [row for row in rows if first <= row.key < end or row.key == keys.STRAYS]
        await in_waves(bounds.BACKGROUND, delete_content, with_blobs)
        return failed

    async def _delete_row(self, stored: Stored) -> bool:
        """Deletes an artifact's row. If it is a `blob` that has expired before it was complete, its run need not wait
        for it any more to be reported completed."""
        artifact = stored.artifact
        if artifact.storage_type is StorageType.BLOB and not artifact.is_present:
            loaded = await self._stores.tasks.load(stored.task_id)
            if loaded is not None and stored.run_id <= loaded.task.last_run_id:
                task = without_unfinished(loaded.task, stored.run_id, artifact.name)
                if task != loaded.task:
                    try:
                        await self._stores.tasks.commit(loaded, task, deletion(stored))
                    except CommitLost:
                        return False
                    return True
        return await self._artifacts.delete_artifact(stored)


def _words(expiring: Expiring) -> tuple[str, int, str]:
    task_id, run_id, _ = expiring.words
    return task_id, int(run_id), str(expiring.values["name"])
