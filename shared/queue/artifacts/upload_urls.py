"""The URLs to which the content of an artifact is put (contract 7, 7.2, design 8). Some workers insist on an answer of
200, as S3 gives it, so they upload through this service (the relay). The URLs of its route are signed and short-lived,
like those of a storage service, and hold everything that the upload needs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from shared.base import bounds, errors, remembered
from shared.base.concurrency import both
from shared.base.frozen import dataclass
from shared.base.memo import Memo
from shared.base.protocol import SIGNED_URL_CLOCK_SKEW
from shared.base.shares import CURRENT, Room, Scarce, Share
from shared.queue.artifacts import rules
from shared.queue.artifacts.rows import ArtifactStore, Stored
from shared.queue.artifacts.rules import Upload
from shared.queue.artifacts.uploads import BLOCK, Uploads
from shared.queue.tasks.rows import TaskStore
from shared.store.interface import Access

RELAY_PREFIX = "/artifacts/relay"
_SIGNED = ("type", "version", "until", "length", "share")
"""Query parameters of an upload URL that are signed, besides its path. `length` is empty where no length was stated."""
_AS_IT_IS = frozenset({"", "identity"})
"""Encodings that leave the content as long as it is."""
_TOO_MANY = "this process is storing as many uploads as it can; send the request again"
_EXPIRED = "the artifact has expired"


@dataclass(eq=False, repr=False)
class UploadUrls:
    """Hands out upload URLs, and takes what is put to those of this service."""

    _tasks: TaskStore
    _artifacts: ArtifactStore
    _uploads: Uploads
    _access: Access
    _now: Callable[[], datetime]
    _: KW_ONLY
    signing_keys: Sequence[str]
    """The first key signs, all of them verify."""
    root_url: str
    limit: int
    """The most bytes of an upload; a process holds twice as many, and `bounds.BYTES_WAITING` at least."""

    def __post_init__(self) -> None:
        self._keys = [hashlib.sha256(f"artifact-relay\n{key}".encode()).digest() for key in self.signing_keys]
        self._created: Memo[tuple[str, int, str, str], Stored] = Memo(remembered.CREATED_ARTIFACTS)
        held = max(2 * self.limit, bounds.BYTES_WAITING)
        self._memory = Scarce(held, Room(math.inf, held // 2), partial(errors.ServiceUnavailable, _TOO_MANY))

    async def put_url(self, stored: Stored, until: datetime) -> str:
        """Returns a URL for one PUT until then (whole seconds): of a block, through this service, or with the
        block-blob API. Raises StorageUnavailable."""
        if stored.artifact.upload is Upload.RELAY:
            return self.url(stored, until)
        url = await self._signed_url(stored, until)
        return _block(url, BLOCK) if stored.artifact.upload is Upload.DIRECT else url

    async def requests(self, stored: Stored, sizes: list[int], until: datetime) -> list[dict[str, Any]]:
        """Returns the requests that upload a `blob`, as its creator is told them: one for each part, or a single one if
        `sizes` is empty. Raises StorageUnavailable."""
        url, artifact = await self._signed_url(stored, until), stored.artifact
        if sizes:
            return [
                {"url": _block(url, rules.part_id(number)), "method": "PUT", "headers": {"content-length": str(size)}}
                for number, size in enumerate(sizes)
            ]
        details = artifact.details
        headers = {
            "content-length": str(details.get("transferLength", details["contentLength"])),
            "x-ms-blob-type": "BlockBlob",
            "x-ms-blob-content-type": rules.as_header(artifact.content_type, rules.OPAQUE),
            "x-ms-blob-content-disposition": rules.disposition(artifact.name),
        }
        if encoding := rules.as_header(artifact.encoding, ""):
            headers["x-ms-blob-content-encoding"] = encoding
        return [{"url": url, "method": "PUT", "headers": headers}]

    async def _signed_url(self, stored: Stored, until: datetime) -> str:
        start = self._now().replace(microsecond=0) - SIGNED_URL_CLOCK_SKEW
        return await self._access.write_blob(stored.container, stored.path, start=start, expiry=until)

    def url(self, stored: Stored, expiry: datetime) -> str:
        """Returns a URL of this service to PUT the content of an artifact to, until `expiry`. If the ETag of the
        artifact's row is known (see `CreatedArtifact`), the first content that comes here is stored without a read."""
        task_id, run_id, artifact = stored.task_id, stored.run_id, stored.artifact
        until = str(int(expiry.timestamp()))
        length = "" if artifact.sent_length is None else str(artifact.sent_length)
        words = (artifact.content_type, artifact.version, until, length, CURRENT.get())
        signed = (task_id, str(run_id), artifact.name, *words)
        query = {**dict(zip(_SIGNED, words, strict=True)), "signature": _signature(self._keys[0], *signed)}
        if stored.etag:
            self._created[task_id, run_id, artifact.name, artifact.version] = stored
        encoded = base64.urlsafe_b64encode(artifact.name.encode()).rstrip(b"=").decode()
        return f"{self.root_url}{RELAY_PREFIX}/{task_id}/{run_id}/{encoded}?{urlencode(query)}"

    async def accept(self, params: Mapping[str, str], query: Mapping[str, str], content: bytes, encoding: str) -> None:
        """Stores what was put to a URL, whose parameters are `params` and `query`, with its Content-Encoding.

        Raises InsufficientScopes for a foreign or expired URL, InputTooLarge, InputError for content of another length
        than createArtifact was told, ResourceNotFound when the artifact has expired, RequestConflict when its content
        can not change or comes another way, ServiceUnavailable while too many are stored, StorageUnavailable."""
        task_id, run_id, name = params["taskId"], params["runId"], _decoded(params["name"])
        if self.share(params, query) is None:
            raise errors.InsufficientScopes("the signature of this URL is not valid")
        content_type, version, until, length, _ = (query.get(word, "") for word in _SIGNED)
        if int(until) <= self._now().timestamp():
            raise errors.InsufficientScopes("this URL has expired: create the artifact again")
        if len(content) > self.limit:
            raise errors.InputTooLarge(
                f"an upload by this URL must not have more than {self.limit} bytes; state contentLength when you "
                "create the artifact to upload straight to storage"
            )
        if length and encoding.strip().lower() in _AS_IT_IS and len(content) != int(length):
            raise errors.InputError(f"the upload has {len(content)} bytes, and createArtifact was told {length}")
        async with self._memory.hold(len(content), len(content)):
            await self._store(task_id, int(run_id), name, version, content, content_type, encoding)

    def share(self, params: Mapping[str, str], query: Mapping[str, str]) -> Share | None:
        """Returns the share of the createArtifact call that an upload URL was made for; None if the URL is not ours."""
        given = query.get("signature", "").encode(errors="replace")
        words = [query.get(word, "") for word in _SIGNED]
        signed = params["taskId"], params["runId"], _decoded(params["name"]), *words
        if any(hmac.compare_digest(given, _signature(key, *signed).encode()) for key in self._keys):
            return query["share"]
        return None

    async def _store(
        self, task_id: str, run_id: int, name: str, version: str, content: bytes, content_type: str, encoding: str
    ) -> None:
        created = self._created.pop((task_id, run_id, name, version))
        if created is not None and await self._uploads.save(created, content, content_type, encoding, is_first=True):
            return
        stored = await self._open(task_id, run_id, name, version)
        if not await self._uploads.save(stored, content, content_type, encoding):
            raise errors.ResourceNotFound(_EXPIRED)

    async def _open(self, task_id: str, run_id: int, name: str, version: str) -> Stored:
        """Returns the artifact, if its content may still change and is uploaded through this service."""
        task, stored = await both(self._tasks.status(task_id), self._artifacts.read_one(task_id, run_id, name))
        if task is None or stored is None or run_id > task.last_run_id:
            raise errors.ResourceNotFound(_EXPIRED)
        if stored.artifact.version != version:
            raise errors.RequestConflict(
                "the content of this artifact comes another way by now: create the artifact again"
            )
        rules.check_run_takes_artifacts(task.runs[run_id], self._now())
        return stored


def _decoded(text: str) -> str:
    """Returns the artifact's name from a URL; empty if it cannot be decoded, for which no signature is valid."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


def _signature(key: bytes, *words: str) -> str:
    """Returns an HMAC over the words, each with its length, so that no two lists of words read the same."""
    text = "".join(f"{len(word)}:{word}\n" for word in words)
    digest = hmac.digest(key, text.encode(errors="replace"), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _block(url: str, block_id: str) -> str:
    """Returns a signed URL of a blob as the URL of one of its blocks."""
    return f"{url}&comp=block&blockid={quote(base64.b64encode(block_id.encode()).decode(), safe='')}"
