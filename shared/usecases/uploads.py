"""Commits what workers have put straight into storage, and finds out what it is (contract 7, design 8).

A bare PUT leaves a block that nobody sees. It becomes the blob when its artifact is first read, when the run is
resolved, or by the expiry job where no resolution comes in time; whichever is first, and again at the resolution, so
that the last PUT counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.concurrency import in_waves
from shared.domain.artifacts import OPAQUE, Artifact, Upload, as_header, detected_encoding, disposition
from shared.storage import artifact_keys
from shared.storage.artifacts import ArtifactStore, Stored, Waiting
from shared.storage.interface import BlobMissing, Storage

BLOCK = "artifact"
"""Id of the block that a bare PUT brings, before base64."""
WIDTH = 16
"""Commits in parallel."""


class Uploads:
    """The blobs behind artifacts. Every step may be repeated."""

    def __init__(self, storage: Storage, artifacts: ArtifactStore) -> None:
        self._blobs = storage.blobs
        self._artifacts = artifacts

    async def commit(self, task_id: str, uploads: Sequence[Waiting]) -> None:
        """Commits uploads of a task; one that has not come goes on waiting. Raises StorageUnavailable."""
        came = await in_waves(WIDTH, self._commit, uploads)
        committed = [upload for upload, is_there in zip(uploads, came, strict=True) if is_there]
        for upload in await self._artifacts.committed(task_id, committed):
            if await self._artifacts.get(task_id, upload.run_id, upload.name) is None:
                await self._delete(task_id, upload.run_id, upload.name)

    async def commit_one(self, task_id: str, run_id: int, name: str) -> None:
        """Commits the upload of one artifact, if it still waits."""
        waiting = await self._artifacts.waiting(task_id, run_id, name)
        if waiting is not None:
            await self.commit(task_id, [waiting])

    async def settled(self, stored: Stored) -> Artifact | None:
        """An artifact whose content is there, and what is known of it; None when the content has not come.

        One that was looked at before costs nothing.
        """
        artifact = stored.artifact
        if artifact.is_settled or not artifact.has_blob:
            return artifact
        if artifact.upload is Upload.DIRECT and not artifact.is_present:
            await self._commit_as(stored.container, stored.path, artifact.name, artifact.content_type)
        found = await self._blobs.properties(stored.container, stored.path)
        if found is None:
            return None
        encoding = found.content_encoding
        if artifact.upload is Upload.DIRECT and not encoding:
            encoding = await self._detect(stored)
        seen = replace(artifact, is_present=True, is_settled=True, encoding=encoding, length=found.length)
        await self._artifacts.note(stored, seen)
        return seen

    async def write(
        self, task_id: str, run_id: int, name: str, content: bytes, content_type: str, encoding: str
    ) -> bool:
        """Stores content that came through this service; False when there is no such artifact any more."""
        await self._blobs.upload(
            artifact_keys.container(name),
            artifact_keys.path(task_id, run_id, name),
            content,
            content_type=as_header(content_type, OPAQUE),
            content_encoding=as_header(encoding, ""),
            content_disposition=disposition(name),
        )
        if await self._artifacts.arrived(task_id, run_id, name, encoding=encoding, length=len(content)):
            return True
        await self._delete(task_id, run_id, name)
        return False

    async def _delete(self, task_id: str, run_id: int, name: str) -> None:
        await self._blobs.delete(artifact_keys.container(name), artifact_keys.path(task_id, run_id, name))

    async def _commit(self, upload: Waiting) -> bool:
        container, path = (
            artifact_keys.container(upload.name),
            artifact_keys.path(upload.task_id, upload.run_id, upload.name),
        )
        return await self._commit_as(container, path, upload.name, upload.content_type)

    async def _commit_as(self, container: str, path: str, name: str, content_type: str) -> bool:
        return await self._blobs.commit_blocks(
            container,
            path,
            [BLOCK],
            content_type=as_header(content_type, OPAQUE),
            content_encoding="",
            content_disposition=disposition(name),
        )

    async def _detect(self, stored: Stored) -> str:
        """Storage does not keep the encoding that a bare PUT states, so it is told from the first bytes."""
        name, content_type = stored.artifact.name, stored.artifact.content_type
        try:
            head = await self._blobs.download(stored.container, stored.path, limit=3)
        except BlobMissing:
            return ""
        encoding = detected_encoding(name, content_type, head)
        if encoding:
            await self._blobs.set_headers(
                stored.container,
                stored.path,
                content_type=as_header(content_type, OPAQUE),
                content_encoding=encoding,
                content_disposition=disposition(name),
            )
        return encoding
