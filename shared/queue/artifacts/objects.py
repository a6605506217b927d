"""The object service as far as artifacts need it: what the public clients' upload and download helpers call. Every
object is an artifact's: `t/<taskId>/<runId>/<name>` (contract 7.2). Its state lies in the artifact's row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from shared.auth.certificates import temporary_credentials
from shared.base.dates import format_date
from shared.base.errors import InputError, RequestConflict, ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.protocol import EXPIRY_GRACE_PERIOD, SIGNED_URL_CLOCK_SKEW
from shared.base.shares import CURRENT
from shared.queue.artifacts import rules
from shared.queue.artifacts.rows import ArtifactStore, Stored
from shared.queue.artifacts.rules import Artifact, StorageType
from shared.queue.artifacts.uploads import Uploads
from shared.queue.claims.work import Issuer
from shared.queue.tasks.definition import Json
from shared.queue.tasks.rules import Run
from shared.runtime import Runtime
from shared.store.interface import Storage

UPLOAD_CREDENTIALS = timedelta(hours=24)
DOWNLOAD_CREDENTIALS = timedelta(hours=1)
_NAME = re.compile(r"t/([A-Za-z0-9_-]{22})/([0-9]{1,4})/([\x20-\x7e]+)")
_NOT_IN_CLIENT_ID = re.compile(r"[^A-Za-z0-9!@/:.+|_-]")


def object_name(stored: Stored) -> str:
    """Returns the name of an artifact's object."""
    return f"t/{stored.task_id}/{stored.run_id}/{stored.artifact.name}"


@dataclass(eq=False, repr=False)
class Objects:
    """Objects of `object` artifacts. All methods raise ResourceNotFound for other names, and StorageUnavailable."""

    _artifacts: ArtifactStore
    _uploads: Uploads
    _storage: Storage
    _runtime: Runtime
    _issuer: Issuer

    def __post_init__(self) -> None:
        self._blobs = self._storage.blobs
        self._access = self._storage.access

    async def existing(self, name: str) -> Stored:
        """Returns the artifact behind an object."""
        match = _NAME.fullmatch(name)
        stored = await self._artifacts.read_one(match[1], int(match[2]), match[3]) if match else None
        if stored is None or stored.artifact.storage_type is not StorageType.OBJECT:
            raise ResourceNotFound(f"there is no object {name}")
        return stored

    async def finished(self, name: str) -> Stored:
        """Returns the artifact behind an object whose upload is finished."""
        stored = await self.existing(name)
        if not stored.artifact.details.get("isFinished"):
            raise ResourceNotFound(f"there is no object {name}")
        return stored

    def check_upload(self, stored: Stored, project_id: str, upload_id: str) -> None:
        """Raises RequestConflict unless `upload_id` is the id of the upload that the artifact was created with."""
        details = stored.artifact.details
        if details["projectId"] != project_id or details.get("uploadId", upload_id) != upload_id:
            raise RequestConflict("the object has another `projectId` or `uploadId`")

    async def put_inline(self, stored: Stored, data: bytes, hashes: Mapping[str, str]) -> None:
        """Stores the data of a small object. Raises RequestConflict when the upload is finished."""
        self._check_open(stored)
        await self._uploads.replace_object(stored, data, **_stated(stored.artifact, hashes))

    async def put_url(self, stored: Stored, content_length: int, *, is_chunked: bool) -> Json:
        """Returns where to put the data, until when, with which headers. `is_chunked`: the client sends it in chunks,
        without its length. Raises RequestConflict when the upload is finished, InputError if the data is too large, or
        comes in chunks: storage refuses these, and the Functions host loses them."""
        self._check_open(stored)
        if content_length > rules.MAX_PUT:
            raise InputError(f"an object must not have more than {rules.MAX_PUT} bytes")
        if is_chunked:
            raise InputError(
                "this client sends data in chunks, which nothing here can take: create an `s3` artifact instead "
                "(generic-worker: createObjectArtifacts: false)"
            )
        now = self._runtime.now().replace(microsecond=0)
        life = rules.upload_life(content_length)
        expires = min(now + life, stored.artifact.expires.replace(microsecond=0) + EXPIRY_GRACE_PERIOD)
        headers = rules.blob_headers(stored.artifact.name, stored.artifact.content_type)
        url = await self._access.write_blob(
            stored.container, stored.path, start=now - SIGNED_URL_CLOCK_SKEW, expiry=expires
        )
        sent = {
            "Content-Length": str(content_length),
            "Content-Type": headers["content_type"],
            "x-ms-blob-type": "BlockBlob",
            "x-ms-blob-content-type": headers["content_type"],
            "x-ms-blob-content-disposition": headers["content_disposition"],
        }
        return {"url": url, "expires": format_date(expires), "headers": sent}

    async def add_hashes(self, stored: Stored, hashes: Mapping[str, str]) -> Stored:
        """Notes hashes that are stated before the end of the upload. Raises RequestConflict, ServiceUnavailable."""
        return stored if not hashes else await self._note_details(stored, **_stated(stored.artifact, hashes))

    async def finish(self, stored: Stored, hashes: Mapping[str, str]) -> None:
        """Finishes the upload of an object. Raises InputError if no data was uploaded, RequestConflict if the hashes
        contradict those stated before, ServiceUnavailable."""
        joined = _joined(stored.artifact, hashes)
        if stored.artifact.details.get("isFinished"):
            return
        found = await self._blobs.properties(stored.container, stored.path)
        if found is None:
            raise InputError("no data has been uploaded")
        length = rules.seen_length(found.length, found.content_encoding)
        await self._note_details(stored, length=length, hashes=joined, isFinished=True)

    def upload_credentials(self, stored: Stored, run: Run) -> Json:
        """Returns the credentials with which a worker uploads the object (contract 7.2)."""
        artifact, now = stored.artifact, self._runtime.now()
        return self._credentials(
            f"artifact-upload/{stored.task_id}/{stored.run_id}/on/{run.worker_group}/{run.worker_id}",
            f"object:upload:{artifact.details['projectId']}:{object_name(stored)}",
            now,
            max(min(artifact.expires, now + UPLOAD_CREDENTIALS), now),
        )

    def download_credentials(self, stored: Stored) -> Json:
        """Returns the credentials with which a reader downloads the object (contract 7.6)."""
        now, client = self._runtime.now(), f"artifact-download/{stored.task_id}/{stored.run_id}/{stored.artifact.name}"
        return self._credentials(client, f"object:download:{object_name(stored)}", now, now + DOWNLOAD_CREDENTIALS)

    def _credentials(self, client_id: str, scope: str, start: datetime, expiry: datetime) -> Json:
        return temporary_credentials(
            client_id=_NOT_IN_CLIENT_ID.sub("_", client_id),
            scopes=[scope],
            start=start,
            expiry=expiry,
            issuer=self._issuer.client_id,
            issuer_token=self._issuer.access_token,
            seed=self._runtime.slugid() + CURRENT.get(),
        )

    @staticmethod
    def _check_open(stored: Stored) -> None:
        if stored.artifact.details.get("isFinished"):
            raise RequestConflict("the object's upload is finished")

    async def _note_details(self, stored: Stored, *, length: int | None = None, **details: Any) -> Stored:
        artifact = replace(
            stored.artifact,
            details={**stored.artifact.details, **details},
            length=stored.artifact.length if length is None else length,
        )
        noted = await self._artifacts.note_found(stored, artifact)
        if noted is None:
            raise ServiceUnavailable("the object is contended; send the call again")
        return noted


def hashes_of(stored: Stored) -> Mapping[str, str]:
    """Returns the hashes of an object's data that are known."""
    hashes: Mapping[str, str] = stored.artifact.details.get("hashes", {})
    return hashes


def _joined(artifact: Artifact, hashes: Mapping[str, str]) -> Mapping[str, str]:
    """Joins new hashes with the known ones. Raises RequestConflict if a hash differs from the one stated before."""
    known = artifact.details.get("hashes", {})
    joined = {**known, **hashes}
    if any(joined[name] != known[name] for name in known):
        raise RequestConflict("the object has been stated to have other hashes")
    return joined


def _stated(artifact: Artifact, hashes: Mapping[str, str]) -> dict[str, Any]:
    """Returns the detail of an artifact that keeps hashes, if there are any. Raises RequestConflict."""
    return {"hashes": _joined(artifact, hashes)} if hashes else {}
