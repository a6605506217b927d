"""The expiry job's part for artifacts: deletes what has expired, commits uploads that no other would."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.concurrency import in_waves
from shared.domain.artifacts import LONGEST_UPLOAD, UNDER_WAY, StorageType, Upload
from shared.runtime import Runtime
from shared.storage import keys
from shared.storage.artifacts import ArtifactStore, Stored, deletion
from shared.storage.expiry import Expiring, ExpiryStore, is_over
from shared.storage.interface import Blobs, Row
from shared.storage.tasks import CommitLost, TaskStore
from shared.usecases.artifacts import without_unfinished
from shared.usecases.uploads import Uploads

WIDTH = 16
"""Blobs deleted in parallel."""
PROPERTIES = ("name", "upload", "version")
"""What `delete_blobs` needs of a task's rows."""


class ArtifactExpiry:
    """Handles rows of the Expiry table. Every step may be repeated."""

    def __init__(
        self,
        tasks: TaskStore,
        artifacts: ArtifactStore,
        uploads: Uploads,
        expiry: ExpiryStore,
        blobs: Blobs,
        runtime: Runtime,
    ) -> None:
        self._tasks = tasks
        self._artifacts = artifacts
        self._uploads = uploads
        self._expiry = expiry
        self._blobs = blobs
        self._now = runtime.now

    async def artifact(self, expiring: Expiring, until: datetime) -> datetime | None:
        """An artifact that expires before its task; returns its expiration if it is a later one by now.

        The row goes first, on condition that it is as read: a repeated creation may prolong it. If the job dies in
        between, the blob goes with the task.
        """
        task_id, run_id, name = _words(expiring)
        stored = await self._artifacts.get(task_id, run_id, name)
        if stored is None:
            return None
        if not is_over(stored.artifact.expires, self._now()):
            return stored.artifact.expires
        if not await self._delete_row(stored):
            return self._now()
        if stored.artifact.has_blob:
            await self._blobs.delete(stored.container, stored.path)
        return None

    async def upload(self, expiring: Expiring, until: datetime) -> None:
        """An upload that no resolution was sure to commit in time."""
        await self._uploads.commit_one(*_words(expiring))

    async def expect_late_blobs(self, task_id: str, expires: datetime, rows: Sequence[Row], written: datetime) -> None:
        """Schedules another look for blobs of a task that is deleted now, if an upload to it may be under way.

        No URL for uploads outlasts its task, and storage takes what has begun in time: for `UNDER_WAY`. Its status was
        `written` last after the last URL was given out.
        """
        first, end = keys.ARTIFACTS
        has_uploads = any(first <= row.key < end and row.values["version"] for row in rows)  # it may not have come yet
        if has_uploads and written + LONGEST_UPLOAD + UNDER_WAY > self._now():
            await self._expiry.strays(task_id, expires + UNDER_WAY)

    async def strays(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes blobs that have come after their task was deleted; not while its id is used again."""
        (task_id,) = expiring.words
        if await self._tasks.status(task_id) is not None:
            return self._now() + UNDER_WAY
        await self._uploads.delete_all(task_id)
        return None

    async def delete_blobs(self, task_id: str, rows: Sequence[Row]) -> dict[str, Exception]:
        """Deletes the blobs of all artifacts among the rows of a task, and with the row that marks strays every blob
        of the task. Returns the keys of those rows whose blobs could not be deleted, and why."""
        first, end = keys.ARTIFACTS
        failed: dict[str, Exception] = {}

        async def delete(row: Row) -> None:
            try:
                if row.key == keys.STRAYS:
                    await self._uploads.delete_all(task_id)
                elif row.values["upload"] != Upload.NONE:
                    name, run_id = str(row.values["name"]), int(row.key.split("~")[1])
                    path = keys.path(task_id, run_id, name, str(row.values["version"]))
                    await self._blobs.delete(keys.container(name), path)
            except Exception as error:
                failed[row.key] = error

        with_blobs = [row for row in rows if first <= row.key < end or row.key == keys.STRAYS]
        await in_waves(WIDTH, delete, with_blobs)
        return failed

    async def _delete_row(self, stored: Stored) -> bool:
        """A `blob` that has expired before it was complete no longer keeps its run from being reported completed."""
        artifact = stored.artifact
        if artifact.storage_type is StorageType.BLOB and not artifact.is_present:
            loaded = await self._tasks.load(stored.task_id)
            if loaded is not None and stored.run_id <= loaded.task.last_run_id:
                task = without_unfinished(loaded.task, stored.run_id, artifact.name)
                if task != loaded.task:
                    try:
                        await self._tasks.commit(loaded, task, deletion(stored))
                    except CommitLost:
                        return False
                    return True
        return await self._artifacts.delete(stored)


def _words(expiring: Expiring) -> tuple[str, int, str]:
    task_id, run_id, _ = expiring.words
    return task_id, int(run_id), str(expiring.values["name"])
