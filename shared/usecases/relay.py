"""The upload route of workers that insist on an answer of 200, as S3 gives it (design 8, last point).

Its URLs are signed and short-lived, as a storage service's own would be, and say everything that the upload needs.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from urllib.parse import urlencode

from shared.concurrency import both
from shared.domain.artifacts import Artifact, StorageType, check_run_takes_artifacts
from shared.errors import InputTooLarge, InsufficientScopes, RequestConflict, ResourceNotFound
from shared.storage.artifacts import ArtifactStore, Stored
from shared.storage.tasks import TaskStore
from shared.usecases.uploads import Uploads

PREFIX = "/artifacts/relay"
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
        return f"{self._root_url}{PREFIX}/{task_id}/{run_id}/{encoded}?{query}"

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
        if stored.artifact.storage_type is not StorageType.OBJECT:  # the end of an object's upload is told by a call
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
