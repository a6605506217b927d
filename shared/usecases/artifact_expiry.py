"""The expiry job's part for artifacts: what has expired goes, and what nobody else would commit is committed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.concurrency import in_waves
from shared.domain.artifacts import Upload
from shared.runtime import Runtime
from shared.storage import artifact_keys
from shared.storage.artifacts import ArtifactStore
from shared.storage.expiry import KEPT, Expiring
from shared.storage.interface import Blobs, Row
from shared.usecases.uploads import Uploads

WIDTH = 16
"""Blobs deleted in parallel."""
PROPERTIES = ("name", "upload")
"""What `delete_blobs` needs of a task's rows."""


class ArtifactExpiry:
    """Handles rows of the Expiry table. Every step may be repeated."""

    def __init__(self, artifacts: ArtifactStore, uploads: Uploads, blobs: Blobs, runtime: Runtime) -> None:
        self._artifacts = artifacts
        self._uploads = uploads
        self._blobs = blobs
        self._now = runtime.now

    async def artifact(self, expiring: Expiring, until: datetime) -> datetime | None:
        """An artifact that expires before its task; answers its expiration if it is a later one by now.

        The row goes first, on condition that it is as read: a repeated creation may prolong it. The blob's path is in
        what is due, so that a crash in between leaves it to the next run.
        """
        task_id, run_id, name = _words(expiring)
        stored = await self._artifacts.get(task_id, run_id, name)
        if stored is not None:
            if stored.artifact.expires + KEPT > self._now():
                return stored.artifact.expires
            if not await self._artifacts.delete(stored):
                return self._now()
        await self._delete_blob(task_id, run_id, name)
        return None

    async def upload(self, expiring: Expiring, until: datetime) -> None:
        """An upload that no resolution was sure to commit in time."""
        await self._uploads.commit_one(*_words(expiring))

    async def delete_blobs(self, task_id: str, rows: Sequence[Row]) -> dict[str, Exception]:
        """Deletes the blobs of all artifacts among the rows of a task. Answers the keys of those rows whose blob could
        not be deleted, and why."""
        first, end = artifact_keys.ARTIFACTS
        failed: dict[str, Exception] = {}

        async def delete(row: Row) -> None:
            try:
                if row.values["upload"] != Upload.NONE:
                    await self._delete_blob(task_id, int(row.key.split("~")[1]), str(row.values["name"]))
            except Exception as error:
                failed[row.key] = error

        await in_waves(WIDTH, delete, [row for row in rows if first <= row.key < end])
        return failed

    async def _delete_blob(self, task_id: str, run_id: int, name: str) -> None:
        await self._blobs.delete(artifact_keys.container(name), artifact_keys.path(task_id, run_id, name))


def _words(expiring: Expiring) -> tuple[str, int, str]:
    task_id, run_id, _ = expiring.words
    return task_id, int(run_id), str(expiring.values["name"])
