"""Where the content of an artifact is put, and how what was put is committed (contract 7, 7.2, design 8).

A bare PUT leaves a block that no reader sees. It becomes the blob when its artifact is first read, when the run is
resolved, or by the expiry job where no resolution comes in time, or the PUT ends after it; whichever is first, and
again at the resolution, so that the last PUT counts.

Workers that insist on an answer of 200, as S3 gives it, put through the service: the URLs of that route are signed and
short-lived, as a storage service's own would be, and say everything that the upload needs.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from shared.concurrency import both, in_waves
from shared.domain.artifacts import (
    OPAQUE,
    UNDER_WAY,
    Artifact,
    StorageType,
    Upload,
    as_header,
    check_run_takes_artifacts,
    detected_encoding,
    disposition,
    part_id,
)
from shared.domain.protocol import CLOCK_SKEW
from shared.errors import InputTooLarge, InsufficientScopes, RequestConflict, ResourceNotFound, ServiceUnavailable
from shared.runtime import Runtime
from shared.storage import keys
from shared.storage.artifacts import ArtifactStore, Stored, Waiting
from shared.storage.expiry import ExpiryStore
from shared.storage.interface import Access, BlobMissing, BlobProperties, Storage
from shared.storage.tasks import TaskStore

BLOCK = "artifact"
"""Id of the block that a bare PUT brings, before base64."""
WIDTH = 16
"""Commits in parallel."""


class Uploads:
    """The blobs behind artifacts. Every step may be repeated.

    A client that has a URL for uploads may do to its blob what the URL allows: whatever is found there is an upload, or
    none, and never a failure.
    """

    def __init__(self, storage: Storage, artifacts: ArtifactStore, expiry: ExpiryStore, runtime: Runtime) -> None:
        self._blobs = storage.blobs
        self._artifacts = artifacts
        self._expiry = expiry
        self._now = runtime.now
        self._new_version = runtime.slugid

    async def commit(self, task_id: str, uploads: Sequence[Waiting]) -> None:
        """Commits uploads of a task; one that has not come waits for the expiry job. Raises StorageUnavailable."""
        came = await in_waves(WIDTH, self._has_come, uploads)
        committed = [upload for upload, is_there in zip(uploads, came, strict=True) if is_there]
        await in_waves(WIDTH, self._wait_on, [upload for upload in uploads if upload not in committed])
        for upload in await self._artifacts.committed(task_id, committed):
            stored = await self._artifacts.get(task_id, upload.run_id, upload.name)
            if stored is None or stored.artifact.version != upload.version:
                await self._blobs.delete(upload.container, upload.path)

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
            await self._commit(stored.container, stored.path, artifact.name, artifact.content_type)
        found = await self._blobs.properties(stored.container, stored.path)
        if found is None:
            return None
        encoding = found.content_encoding
        if artifact.upload is Upload.DIRECT and not encoding and found.length != artifact.sent_length:
            encoding = await self._detect(stored, found)
        seen = replace(artifact, is_present=True, is_settled=True, encoding=encoding, length=found.length)
        if await self._artifacts.note(stored, seen) is None and await self._is_gone(stored):
            await self._blobs.delete(stored.container, stored.path)
            return None
        return seen

    async def write(self, stored: Stored, content: bytes, content_type: str, encoding: str) -> bool:
        """Stores content that came through this service; False when there is no such artifact any more."""
        await self._blobs.upload(
            stored.container,
            stored.path,
            content,
            content_type=as_header(content_type, OPAQUE),
            content_encoding=as_header(encoding, ""),
            content_disposition=disposition(stored.artifact.name),
        )
        known = as_header(encoding, "")
        if await self._artifacts.arrived(stored, encoding=known, length=len(content)):
            return True
        await self._blobs.delete(stored.container, stored.path)
        return False

    async def replace_object(self, stored: Stored, content: bytes, **details: Any) -> Stored:
        """Stores the data of an object in a place of its own, and then says so, with `details`.

        So what is slow, and lands after the upload was finished, changes nothing. Raises RequestConflict when the
        upload is finished, ServiceUnavailable when the object was changed meanwhile.
        """
        if stored.artifact.details.get("isFinished"):
            raise RequestConflict("the object's upload is finished")
        details = {**stored.artifact.details, **details, "hasData": True}
        new = replace(stored, artifact=replace(stored.artifact, version=self._new_version(), details=details))
        await self._blobs.upload(
            new.container,
            new.path,
            content,
            content_type=as_header(new.artifact.content_type, OPAQUE),
            content_disposition=disposition(new.artifact.name),
        )
        noted = await self._artifacts.note(stored, new.artifact)
        if noted is None:
            latest = await self._artifacts.get(stored.task_id, stored.run_id, stored.artifact.name)
            if latest is not None and latest.artifact.version == new.artifact.version:
                return latest  # it was noted, and the answer to that was lost
            await self._blobs.delete(new.container, new.path)
            if latest is None:
                raise ResourceNotFound("the object has expired")
            if latest.artifact.details.get("isFinished"):
                raise RequestConflict("the object's upload is finished")
            raise ServiceUnavailable("the object is contended; send the call again")
        if "hasData" in stored.artifact.details:
            await self._blobs.delete(stored.container, stored.path)
        return noted

    async def delete_all(self, task_id: str) -> None:
        """Deletes every blob of a task, page by page, also those of artifacts that are gone or were replaced."""
        for container in (keys.PRIVATE, keys.PUBLIC):
            delete = partial(self._blobs.delete, container)
            while paths := await self._blobs.list_paths(container, keys.paths(task_id)):
                await in_waves(WIDTH, delete, paths)

    async def _is_gone(self, stored: Stored) -> bool:
        """Whether the artifact was deleted, or its content comes another way by now."""
        latest = await self._artifacts.get(stored.task_id, stored.run_id, stored.artifact.name)
        return latest is None or latest.artifact.version != stored.artifact.version

    async def _has_come(self, upload: Waiting) -> bool:
        """Commits what has come since the last commit. Nothing has: then the blob may be there already."""
        if not upload.version:
            return False
        if await self._commit(upload.container, upload.path, upload.name, upload.content_type):
            return True
        return await self._blobs.properties(upload.container, upload.path) is not None

    async def _wait_on(self, upload: Waiting) -> None:
        """An upload may still be under way: the expiry job looks again and again, until that cannot be."""
        now = self._now()
        if upload.version and now < upload.until + UNDER_WAY:
            await self._expiry.upload(upload.task_id, upload.run_id, upload.name, max(upload.until, now))
        else:
            await self._artifacts.forget(upload)

    async def _commit(self, container: str, path: str, name: str, content_type: str) -> bool:
        """Only of a block that is new: a blob that was committed before keeps the encoding that was found out."""
        return await self._blobs.commit_blocks(
            container,
            path,
            [BLOCK],
            content_type=as_header(content_type, OPAQUE),
            content_encoding="",
            content_disposition=disposition(name),
            only_new=True,
        )

    async def _detect(self, stored: Stored, found: BlobProperties) -> str:
        """Storage does not keep the encoding that a bare PUT states, so it is detected from the first bytes.

        That is noted only on the content that was looked at: another one may have been committed meanwhile.
        """
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
                etag=found.etag,
            )
        return encoding


RELAY_PREFIX = "/artifacts/relay"
_SIGNED = ("type", "version", "until")
"""Parameters of a URL that it is signed for, besides its path."""
_EXPIRED = "the artifact has expired"


class Relay:
    """Hands out upload URLs, and takes what is put there."""

    def __init__(
        self,
        tasks: TaskStore,
        artifacts: ArtifactStore,
        uploads: Uploads,
        now: Callable[[], datetime],
        *,
        signing_keys: Sequence[str],
        root_url: str,
        limit: int,
    ) -> None:
        """The first key signs, all of them verify; `limit` in bytes an upload."""
        self._tasks = tasks
        self._artifacts = artifacts
        self._uploads = uploads
        self._now = now
        self._keys = [hashlib.sha256(f"artifact-relay\n{key}".encode()).digest() for key in signing_keys]
        self._root_url = root_url
        self.limit = limit

    def url(self, task_id: str, run_id: int, artifact: Artifact, expiry: datetime) -> str:
        """A URL to PUT the content of an artifact to, until `expiry` (whole seconds)."""
        until = str(int(expiry.timestamp()))
        words = (artifact.content_type, artifact.version, until)
        signature = _signature(self._keys[0], task_id, str(run_id), artifact.name, *words)
        query = urlencode({**dict(zip(_SIGNED, words, strict=True)), "signature": signature})
        encoded = base64.urlsafe_b64encode(artifact.name.encode()).rstrip(b"=").decode()
        return f"{self._root_url}{RELAY_PREFIX}/{task_id}/{run_id}/{encoded}?{query}"

    async def put(self, params: Mapping[str, str], query: Mapping[str, str], content: bytes, encoding: str) -> None:
        """Stores what was put to a URL, whose parameters are `params` and `query`, with its Content-Encoding.

        Raises InsufficientScopes for a URL that is not ours or has expired, InputTooLarge, ResourceNotFound when the
        artifact has expired, RequestConflict when its content can no longer change or comes another way,
        StorageUnavailable.
        """
        task_id, run_id, name = params["taskId"], params["runId"], _decoded(params["name"])
        content_type, version, until = (query.get(word, "") for word in _SIGNED)
        given = query.get("signature", "").encode(errors="replace")
        signed = (task_id, run_id, name, content_type, version, until)
        if not any(hmac.compare_digest(given, _signature(key, *signed).encode()) for key in self._keys):
            raise InsufficientScopes("the signature of this URL is not valid")
        if int(until) <= self._now().timestamp():
            raise InsufficientScopes("this URL has expired: create the artifact again")
        if len(content) > self.limit:
            raise InputTooLarge(
                f"an upload by this URL must not have more than {self.limit} bytes; state contentLength when you "
                "create the artifact to upload straight to storage"
            )
        stored = await self._open(task_id, int(run_id), name, version)
        if stored.artifact.storage_type is StorageType.OBJECT:
            await self._uploads.replace_object(stored, content)
        elif not await self._uploads.write(stored, content, content_type, encoding):
            raise ResourceNotFound(_EXPIRED)

    async def _open(self, task_id: str, run_id: int, name: str, version: str) -> Stored:
        """The artifact, if its content may still change, and comes this way."""
        task, stored = await both(self._tasks.status(task_id), self._artifacts.get(task_id, run_id, name))
        if task is None or stored is None or run_id > task.last_run_id:
            raise ResourceNotFound(_EXPIRED)
        if stored.artifact.version != version:
            raise RequestConflict("the content of this artifact comes another way by now: create the artifact again")
        if stored.artifact.storage_type is not StorageType.OBJECT:  # a call reports the end of an object's upload
            check_run_takes_artifacts(task.runs[run_id], self._now())
        return stored


def _decoded(text: str) -> str:
    """The name in a URL; one that is not ours gets no valid signature."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


def _signature(key: bytes, *words: str) -> str:
    """HMAC over the words, each with its length, so that no two lists of words read the same."""
    text = "".join(f"{len(word)}:{word}\n" for word in words)
    digest = hmac.digest(key, text.encode(errors="replace"), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadRequest:
    """A PUT that brings the content, or a part of it."""

    url: str
    headers: Mapping[str, str]


class UploadUrls:
    """Signs URLs for uploads. All methods raise StorageUnavailable."""

    def __init__(self, access: Access, relay: Relay, runtime: Runtime) -> None:
        self._access = access
        self._relay = relay
        self._now = runtime.now

    async def put_url(self, task_id: str, run_id: int, artifact: Artifact, until: datetime) -> str:
        """A URL for one PUT: of a block, through this service, or with the block-blob API."""
        if artifact.upload is Upload.RELAY:
            return self._relay.url(task_id, run_id, artifact, until)
        url = await self._write(task_id, run_id, artifact, until)
        return _block(url, BLOCK) if artifact.upload is Upload.DIRECT else url

    async def requests(
        self, task_id: str, run_id: int, artifact: Artifact, sizes: list[int], until: datetime
    ) -> list[UploadRequest]:
        """The requests that upload a `blob`, one a part; for a whole one `sizes` is empty."""
        url = await self._write(task_id, run_id, artifact, until)
        if sizes:
            return [
                UploadRequest(url=_block(url, part_id(number)), headers={"content-length": str(size)})
                for number, size in enumerate(sizes)
            ]
        details = artifact.details
        headers = {
            "content-length": str(details.get("transferLength", details["contentLength"])),
            "x-ms-blob-type": "BlockBlob",
            "x-ms-blob-content-type": as_header(artifact.content_type, OPAQUE),
            "x-ms-blob-content-disposition": disposition(artifact.name),
        }
        if encoding := as_header(artifact.encoding, ""):
            headers["x-ms-blob-content-encoding"] = encoding
        return [UploadRequest(url=url, headers=headers)]

    async def _write(self, task_id: str, run_id: int, artifact: Artifact, until: datetime) -> str:
        return await self._access.write_blob(
            keys.container(artifact.name),
            keys.path(task_id, run_id, artifact.name, artifact.version),
            start=self._now().replace(microsecond=0) - CLOCK_SKEW,
            expiry=until,
        )


def _block(url: str, block_id: str) -> str:
    """A signed URL of a blob as the URL of one of its blocks."""
    return f"{url}&comp=block&blockid={quote(base64.b64encode(block_id.encode()).decode(), safe='')}"
