"""Where the content of an artifact is put, and how what was put is committed (contract 7, 7.2, design 8).

A bare PUT leaves an uncommitted block, which no reader sees. The block is committed as the blob when its artifact is
first read, and again when the run is resolved, so that the last PUT counts. If no resolution comes in time, or the PUT
ends after it, the expiry job commits the block."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from shared.base import bounds
from shared.base.concurrency import in_waves
from shared.base.errors import RequestConflict, ResourceNotFound, ServiceUnavailable
from shared.base.frozen import replace
from shared.queue.artifacts import rules
from shared.queue.artifacts.rows import ArtifactStore, Stored
from shared.queue.artifacts.rules import Artifact, StorageType, Upload
from shared.queue.tasks.edges import Waiting
from shared.runtime import Runtime
from shared.store import keys
from shared.store.expiring import ExpiryStore
from shared.store.interface import BlobMissing, BlobProperties, Storage

BLOCK = "artifact"
"""Id of the block that a bare PUT brings, before base64."""


class Uploads:
    """The blobs behind artifacts. Every step may be repeated. A client that has a URL for uploads may do to its blob
    what the URL allows: whatever is found there is an upload, or none, and never a failure."""

    def __init__(self, storage: Storage, artifacts: ArtifactStore, expiry: ExpiryStore, runtime: Runtime) -> None:
        self._blobs = storage.blobs
        self._artifacts = artifacts
        self._expiry = expiry
        self._now = runtime.now
        self._new_version = runtime.slugid

    async def commit(self, task_id: str, uploads: Sequence[Waiting]) -> None:
        """Commits uploads of a task; those without content are left to the expiry job. Raises StorageUnavailable."""
        came = await in_waves(bounds.BACKGROUND, self._has_come, uploads)
        committed = [upload for upload, is_there in zip(uploads, came, strict=True) if is_there]
        await in_waves(bounds.BACKGROUND, self._wait_on, [upload for upload in uploads if upload not in committed])
        for upload in await self._artifacts.committed(task_id, committed):
            stored = await self._artifacts.read_one(task_id, upload.run_id, upload.name)
            if stored is None or stored.artifact.version != upload.version:
                await self._blobs.delete_blob(upload.container, upload.path)

    async def settled(self, stored: Stored) -> Artifact | None:
        """Returns the artifact with what is known of its content; None if the content was not uploaded yet. No request
        for an artifact that was examined before."""
        artifact = stored.artifact
        if artifact.is_settled or not artifact.has_blob:
            return artifact
        if artifact.upload is Upload.RELAY and not artifact.is_present:
            return None  # a PUT that was refused, or is not answered yet, may have left a blob
        if artifact.upload is Upload.DIRECT and not artifact.is_present:
            await self._commit(stored.container, stored.path, artifact.name, artifact.content_type)
        found = await self._blobs.properties(stored.container, stored.path)
        if found is None:
            return None
        encoding = found.content_encoding
        if artifact.upload is Upload.DIRECT and not encoding:
            encoding = await self._detect(stored, found)
        length = None
        # The client of an `azure` artifact may keep writing its blob, for example a growing log. So its length stays
        # unknown.
        if artifact.storage_type is not StorageType.AZURE and artifact.content_length is None:
            length = rules.seen_length(found.length, encoding, await self._trailer(stored, found) if encoding else b"")
        seen = replace(artifact, is_present=True, is_settled=True, encoding=encoding, length=length)
        if await self._artifacts.note_found(stored, seen) is None:
            latest = await self._artifacts.latest(stored)
            if latest is None or latest.artifact.version != stored.artifact.version:
                await self._blobs.delete_blob(stored.container, stored.path)
                return None
        return seen

    async def save(
        self, stored: Stored, content: bytes, content_type: str, encoding: str, *, is_first: bool = False
    ) -> bool:
        """Stores content that came through this service. Returns False if the artifact is gone. With `is_first`
        it stores the first content of an artifact that was not read since it was created: its row must be as it was
        then, and its run must be running. Nothing is overwritten. False if a read has to decide what may be done.
        Nobody sees the blob until the row says that it is there. Raises StorageUnavailable."""
        headers = rules.blob_headers(stored.artifact.name, content_type, encoding)
        known, container, path = headers["content_encoding"], stored.container, stored.path
        if not await self._blobs.upload(container, path, content, **headers, only_new=is_first):
            return False
        arrived = self._artifacts.arrived_first if is_first else self._artifacts.arrived
        if await arrived(
            stored, encoding=known, length=rules.seen_length(len(content), known, content[-rules.GZIP_TRAILER :])
        ):
            return True
        latest = await self._artifacts.latest(stored) if is_first else None
        if latest is None or latest.artifact.version != stored.artifact.version:
            await self._blobs.delete_blob(container, path)
        return False

    async def replace_object(self, stored: Stored, content: bytes, **details: Any) -> Stored:
        """Stores the data of an object in a new place, and then makes the artifact's row refer to that place, with
        `details`. So a slow write that takes effect after the upload was finished changes nothing. Raises
        RequestConflict when the upload is finished, ServiceUnavailable when the object was changed meanwhile."""
        details = {**stored.artifact.details, **details, "hasData": True}
        new = replace(stored, artifact=replace(stored.artifact, version=self._new_version(), details=details))
        headers = rules.blob_headers(new.artifact.name, new.artifact.content_type)
        await self._blobs.upload(new.container, new.path, content, **headers)
        noted = await self._artifacts.note_found(stored, new.artifact)
        if noted is None:
            latest = await self._artifacts.latest(stored)
            if latest is not None and latest.artifact.version == new.artifact.version:
                return latest  # it was noted, and the answer to that was lost
            await self._blobs.delete_blob(new.container, new.path)
            if latest is None:
                raise ResourceNotFound("the object has expired")
            if latest.artifact.details.get("isFinished"):
                raise RequestConflict("the object's upload is finished")
            raise ServiceUnavailable("the object is contended; send the call again")
        if "hasData" in stored.artifact.details:
            await self._blobs.delete_blob(stored.container, stored.path)
        return noted

    async def delete_all(self, task_id: str) -> None:
        """Deletes every blob of a task, page by page, also those of artifacts that are gone or were replaced."""
        for container in (keys.PRIVATE, keys.PUBLIC):
            delete = partial(self._blobs.delete_blob, container)
            while paths := await self._blobs.list_paths(container, keys.paths(task_id)):
                await in_waves(bounds.BACKGROUND, delete, paths)

    async def _has_come(self, upload: Waiting) -> bool:
        """Commits blocks uploaded since the last commit. Returns whether the blob exists, now or from before."""
        if not upload.version:
            return False
        if await self._commit(upload.container, upload.path, upload.name, upload.content_type):
            return True
        return await self._blobs.properties(upload.container, upload.path) is not None

    async def _wait_on(self, upload: Waiting) -> None:
        """Lets the expiry job look for an upload again until none can be under way any more."""
        now = self._now()
        if upload.version and now < upload.until + rules.UNDER_WAY:
            await self._expiry.upload(upload.task_id, upload.run_id, upload.name, max(upload.until, now))
        else:
            await self._artifacts.forget(upload)

    async def _commit(self, container: str, path: str, name: str, content_type: str) -> bool:
        """Commits the block only if it is new: a blob that was committed before keeps the encoding noted for it."""
        headers = rules.blob_headers(name, content_type)
        return await self._blobs.commit_blocks(container, path, [BLOCK], **headers, only_new=True)

    async def _detect(self, stored: Stored, found: BlobProperties) -> str:
        """Detects the encoding from the content, since storage does not keep the encoding that a bare PUT states.
        Workers state the length before they encode. Content that begins as gzip and has another length was encoded.
        With the same length it counts as encoded only if its gzip trailer names that length. The result is noted only
        on the content that was read: another may have been committed meanwhile."""
        if not rules.begins_as_gzip(await self._part(stored, 0, rules.GZIP_HEAD), found.length):
            return ""
        is_as_stated = found.length == stored.artifact.sent_length
        if is_as_stated and not rules.is_made_of(found.length, await self._trailer(stored, found)):
            return ""
        headers = rules.blob_headers(stored.artifact.name, stored.artifact.content_type, "gzip")
        await self._blobs.set_headers(stored.container, stored.path, **headers, etag=found.etag)
        return "gzip"

    async def _trailer(self, stored: Stored, found: BlobProperties) -> bytes:
        return await self._part(stored, max(found.length - rules.GZIP_TRAILER, 0), rules.GZIP_TRAILER)

    async def _part(self, stored: Stored, start: int, limit: int) -> bytes:
        """Returns some bytes of the content, or none if the content is gone."""
        try:
            return await self._blobs.download(stored.container, stored.path, start=start, limit=limit)
        except BlobMissing:
            return b""
