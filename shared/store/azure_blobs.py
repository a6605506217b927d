"""Azure Blob Storage behind `interface.Blobs`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any, Unpack

from azure.core import MatchConditions

from shared.base.frozen import dataclass
from shared.store import limits
from shared.store.interface import MAX_PAGE, BlobHeaders, BlobMissing, BlobProperties
from shared.store.wire import FAILURES, REFUSALS, Patience, Refused, failure_of, unavailable

if TYPE_CHECKING:  # loaded with the first blob: it takes a tenth of a second
    from azure.storage.blob import ContentSettings
    from azure.storage.blob.aio import BlobClient, BlobServiceClient


log = logging.getLogger("taskcluster.storage")

_LEASED = "LeaseIdMissing"
_LEASES_BROKEN = 3
"""How often a request breaks a lease: a client that holds a URL for uploads may take another one at once."""
_BLOCK_BLOB = "BlockBlob"


class _Block(Enum):
    """The states of blocks that a commit may take, in the SDK's own words; its enumeration has other values."""

    LATEST = "latest"
    UNCOMMITTED = "uncommitted"


@dataclass(frozen=True, eq=False)
class AzureBlobs:
    """Containers of one account. A container that does not exist yet is made by the first write."""

    _sdk: Callable[[], BlobServiceClient]
    """Gives the SDK's client of the account."""
    _patience: Patience
    _made: set[str] = field(default_factory=set)

    async def ensure(self, container: str) -> None:
        """Makes the container if it does not exist. Makes no request once this process knows that it does. Raises
        StorageUnavailable."""
        if container not in self._made:
            await self._make(container)
            self._made.add(container)

    async def upload(
        self, container: str, path: str, content: bytes, *, only_new: bool = False, **headers: Unpack[BlobHeaders]
    ) -> bool:
        async def send() -> None:
            await self._blob(container, path).upload_blob(
                content,
                _BLOCK_BLOB,
                len(content),
                overwrite=not only_new,
                content_settings=_settings(headers),
                error_map=REFUSALS,
                time_allowed=self._transfer(len(content)),
            )

        with _Except(*(["BlobAlreadyExists"] if only_new else [])):
            await self._send_write(container, send)
            return True
        return False

    async def download(self, container: str, path: str, *, start: int = 0, limit: int | None = None) -> bytes:
        """Returns the bytes as stored: a content encoding is not undone."""
        if limit is not None and limit < 1:
            raise ValueError(f"a limit of {limit} bytes")
        options: dict[str, Any] = {"offset": None if limit is None and not start else start, "length": limit}
        with _Except(404, 409):  # 409: archived, or encrypted with a key that is not ours
            with _Except("InvalidRange"):  # the range begins after the blob's end
                blob = self._blob(container, path)
                stream = await blob.download_blob(decompress=False, error_map=REFUSALS, **options)
                content: bytes = await stream.readall()
                return content
            return b""
        raise BlobMissing(path)

    async def properties(self, container: str, path: str) -> BlobProperties | None:
        with _Except(404, 409):  # 409: encrypted with a key that is not ours
            found = await self._blob(container, path).get_blob_properties(error_map=REFUSALS)
            if found.blob_type == _BLOCK_BLOB:
                return BlobProperties(
                    length=found.size,
                    content_type=found.content_settings.content_type or "",
                    content_encoding=found.content_settings.content_encoding or "",
                    content_disposition=found.content_settings.content_disposition or "",
                    etag=found.etag,
                )
        return None

    async def put_block(self, container: str, path: str, block_id: str, content: bytes) -> None:
        """Writes one block. All ids of a blob's blocks (`block_id`, before base64) are equally long. Raises ValueError
        when they are not."""
        limits.check_block_id(block_id)

        async def send() -> None:
            seconds = self._transfer(len(content))
            blob = self._blob(container, path)
            await blob.stage_block(block_id, content, len(content), error_map=REFUSALS, time_allowed=seconds)

        with _Except("InvalidBlobOrBlock"):
            await self._send_write(container, send)
            return
        raise ValueError("the ids of a blob's blocks are not equally long")

    async def commit_blocks(
        self,
        container: str,
        path: str,
        block_ids: Sequence[str],
        *,
        only_new: bool = False,
        **headers: Unpack[BlobHeaders],
    ) -> bool:
        from azure.storage.blob import BlobBlock

        for block_id in block_ids:
            limits.check_block_id(block_id)
        state: Any = _Block.UNCOMMITTED if only_new else _Block.LATEST
        blocks, settings = [BlobBlock(block_id, state) for block_id in block_ids], _settings(headers)

        async def commit(blob: BlobClient) -> None:
            await blob.commit_block_list(blocks, content_settings=settings, error_map=REFUSALS)

        try:
            await self._send_write(container, lambda: self._despite_leases(container, path, commit))
        except Refused as answer:
            if answer.code == "InvalidBlockList":
                return False
            if answer.status in {409, 412}:  # of another type, archived, leased again, target of a copy
                log.warning("blocks of %s cannot be committed: %s", path, answer, extra={"action": "upload_spoiled"})
                return False
            raise
        return True

    async def set_headers(
        self, container: str, path: str, *, etag: str | None = None, **headers: Unpack[BlobHeaders]
    ) -> bool:
        settings = _settings(headers)
        only: dict[str, Any] = {"etag": etag, "match_condition": MatchConditions.IfNotModified} if etag else {}

        async def change(blob: BlobClient) -> None:
            await blob.set_http_headers(settings, error_map=REFUSALS, **only)

        with _Except(404, 409, 412):
            await self._despite_leases(container, path, change)
            return True
        return False

    async def delete_blob(self, container: str, path: str) -> None:
        async def delete_once(blob: BlobClient) -> None:
            await blob.delete_blob(delete_snapshots="include", error_map=REFUSALS)

        with _Except(404):
            await self._despite_leases(container, path, delete_once)

    async def list_paths(self, container: str, prefix: str, *, limit: int = MAX_PAGE) -> list[str]:
        """See `interface.Blobs`. Reads further pages until there are `limit` paths or no more."""
        limits.check_page(limit)
        found = self._sdk().get_container_client(container)
        names = found.list_blob_names(name_starts_with=prefix, results_per_page=limit, error_map=REFUSALS)
        paths: list[str] = []
        with _Except(404):
            async for page in names.by_page():
                paths += [path async for path in page]
                if len(paths) >= limit:
                    break
        return paths[:limit]

    def _blob(self, container: str, path: str) -> BlobClient:
        return self._sdk().get_blob_client(container, path)

    async def _despite_leases(self, container: str, path: str, send: Callable[[BlobClient], Awaitable[None]]) -> None:
        """Sends a write to a blob that others may write to as well; if they hold a lease on it, the lease is broken."""
        from azure.storage.blob.aio import BlobLeaseClient

        blob = self._blob(container, path)
        for _ in range(_LEASES_BROKEN):
            with _Except(_LEASED):
                await send(blob)
                return
            try:
                with unavailable():
                    await BlobLeaseClient(blob).break_lease(lease_break_period=0, error_map=REFUSALS)
            except Refused as answer:
                log.warning("a lease on %s cannot be broken: %s", path, answer, extra={"action": "lease_kept"})
        with unavailable():
            await send(blob)

    async def _send_write(self, container: str, send: Callable[[], Awaitable[None]]) -> None:
        """Sends a write; when the container is missing, makes it and sends the write again."""
        with _Except("ContainerNotFound"):
            await send()
            return
        await self._make(container)
        with unavailable():
            await send()

    async def _make(self, container: str) -> None:
        with _Except("ContainerAlreadyExists"):
            await self._sdk().get_container_client(container).create_container(error_map=REFUSALS)

    def _transfer(self, length: int) -> float:
        """Returns the seconds that a request with a body of that size may take."""
        return self._patience.total + length / self._patience.bytes_per_second


class _Except(AbstractContextManager[None, bool]):
    """Ends what is sent inside quietly if the service refuses it with one of these statuses or codes. Raises Refused
    for other ones, StorageUnavailable."""

    def __init__(self, *expected: int | str) -> None:
        self._expected = expected

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if isinstance(error, FAILURES):
            raise failure_of(error) from error
        return isinstance(error, Refused) and not {error.status, error.code}.isdisjoint(self._expected)


def _settings(headers: BlobHeaders) -> ContentSettings:
    from azure.storage.blob import ContentSettings

    return ContentSettings(
        content_type=headers["content_type"],
        content_encoding=headers.get("content_encoding") or None,
        content_disposition=headers.get("content_disposition") or None,
    )
