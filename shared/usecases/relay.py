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

from shared.errors import InputTooLarge, InsufficientScopes, ResourceNotFound
from shared.usecases.uploads import Uploads

PREFIX = "/artifacts/relay"


class Relay:
    """Hands out upload URLs, and takes what is put there."""

    def __init__(
        self,
        uploads: Uploads,
        now: Callable[[], datetime],
        *,
        signing_keys: Sequence[str],
        root_url: str,
        limit: int,
    ) -> None:
        """The first key signs, all of them verify; `limit` in bytes an upload."""
        self._uploads = uploads
        self._now = now
        self._keys = [hashlib.sha256(f"artifact-relay\n{key}".encode()).digest() for key in signing_keys]
        self._root_url = root_url
        self._limit = limit

    def url(self, task_id: str, run_id: int, name: str, content_type: str, expiry: datetime) -> str:
        """A URL to PUT the content of an artifact to, until `expiry` (whole seconds)."""
        until = str(int(expiry.timestamp()))
        signature = _signature(self._keys[0], task_id, str(run_id), name, content_type, until)
        query = urlencode({"type": content_type, "until": until, "signature": signature})
        encoded = base64.urlsafe_b64encode(name.encode()).rstrip(b"=").decode()
        return f"{self._root_url}{PREFIX}/{task_id}/{run_id}/{encoded}?{query}"

    async def put(self, params: Mapping[str, str], query: Mapping[str, str], content: bytes, encoding: str) -> None:
        """Stores what was put to a URL, whose parameters are `params` and `query`, with its Content-Encoding.

        Raises InsufficientScopes for a URL that is not ours or has expired, InputTooLarge, ResourceNotFound when the
        artifact has expired, StorageUnavailable.
        """
        task_id, run_id, name = params["taskId"], params["runId"], _decoded(params["name"])
        content_type, until = query.get("type", ""), query.get("until", "")
        given = query.get("signature", "").encode(errors="replace")
        expected = [_signature(key, task_id, run_id, name, content_type, until).encode() for key in self._keys]
        if not any(hmac.compare_digest(given, each) for each in expected):
            raise InsufficientScopes("the signature of this URL is not valid")
        if int(until) <= self._now().timestamp():
            raise InsufficientScopes("this URL has expired: create the artifact again")
        if len(content) > self._limit:
            raise InputTooLarge(
                f"an upload by this URL must not have more than {self._limit} bytes; state contentLength when you "
                "create the artifact to upload straight to storage"
            )
        if not await self._uploads.write(task_id, int(run_id), name, content, content_type, encoding):
            raise ResourceNotFound("the artifact has expired")


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
