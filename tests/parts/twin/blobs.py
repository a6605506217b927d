"""Azure block blobs in memory: committed blobs, and blocks that wait for their commit."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from shared.store import limits
from shared.store.counting import Kind
from shared.store.interface import BlobHeaders, BlobMissing, BlobProperties
from tests.parts.twin.gate import Call, Gate, perform
from tests.parts.twin.names import check_dashed


@dataclass(frozen=True, kw_only=True)
class StoredBlob:
    """A committed blob. `blocks` are those that it was made of, if any."""

    content: bytes
    content_type: str
    content_encoding: str
    content_disposition: str
    etag: str
    blocks: Mapping[str, bytes] = field(default_factory=dict)


class MemoryBlobs:
    """`interface.Blobs`, and `blobs` and `staged` for a look inside."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._blobs: dict[str, dict[str, StoredBlob]] = {}
        self._staged: dict[tuple[str, str], dict[str, bytes]] = {}
        self._writes = itertools.count(1)

    def blobs(self, container: str) -> Mapping[str, StoredBlob]:
        """Returns the committed blobs of a container by path, without a counted request."""
        return self._blobs.get(container, {})

    def staged(self, container: str, path: str) -> Mapping[str, bytes]:
        """Returns the blocks of a blob that wait for their commit, without a counted request."""
        return self._staged.get((container, path), {})

    def state(self) -> str:
        """Returns all blobs and blocks as text, without a counted request."""
        return repr((sorted(self._blobs.items()), sorted(self._staged.items())))

    async def upload(
        self, container: str, path: str, content: bytes, *, only_new: bool = False, **headers: Unpack[BlobHeaders]
    ) -> bool:
        check_dashed(container)

        def effect() -> bool:
            if only_new and path in self.blobs(container):
                return False
            self._staged.pop((container, path), None)
            self._store(container, path, content, {}, headers)
            return True

        return await perform(self._gate, Call(Kind.BLOB_WRITE, container, path), effect)

    async def download(self, container: str, path: str, *, start: int = 0, limit: int | None = None) -> bytes:
        check_dashed(container)
        if limit is not None and limit < 1:
            raise ValueError(f"a limit of {limit} bytes")
        call = Call(Kind.BLOB_READ, container, path)
        end = None if limit is None else start + limit
        return await perform(self._gate, call, lambda: self._committed(container, path).content[start:end])

    async def properties(self, container: str, path: str) -> BlobProperties | None:
        check_dashed(container)

        def effect() -> BlobProperties | None:
            blob = self.blobs(container).get(path)
            if blob is None:
                return None
            return BlobProperties(
                length=len(blob.content),
                content_type=blob.content_type,
                content_encoding=blob.content_encoding,
                content_disposition=blob.content_disposition,
                etag=blob.etag,
            )

        return await perform(self._gate, Call(Kind.BLOB_READ, container, path), effect)

    async def put_block(self, container: str, path: str, block_id: str, content: bytes) -> None:
        check_dashed(container)
        limits.check_block_id(block_id)

        def effect() -> None:
            self._blobs.setdefault(container, {})
            staged = self._staged.setdefault((container, path), {})
            if any(len(other.encode()) != len(block_id.encode()) for other in staged):
                raise ValueError("the ids of a blob's blocks are not equally long")
            staged[block_id] = content

        await perform(self._gate, Call(Kind.BLOB_WRITE, container, path), effect)

    async def commit_blocks(
        self,
        container: str,
        path: str,
        block_ids: Sequence[str],
        *,
        only_new: bool = False,
        **headers: Unpack[BlobHeaders],
    ) -> bool:
        check_dashed(container)
        for block_id in block_ids:
            limits.check_block_id(block_id)

        def effect() -> bool:
            committed = self.blobs(container).get(path)
            old = committed.blocks if committed and not only_new else {}
            known = {**old, **self.staged(container, path)}
            if not set(block_ids) <= set(known):
                return False
            blocks = {block_id: known[block_id] for block_id in block_ids}
            content = b"".join(known[block_id] for block_id in block_ids)
            self._staged.pop((container, path), None)
            self._store(container, path, content, blocks, headers)
            return True

        return await perform(self._gate, Call(Kind.BLOB_WRITE, container, path), effect)

    async def set_headers(
        self, container: str, path: str, *, etag: str | None = None, **headers: Unpack[BlobHeaders]
    ) -> bool:
        check_dashed(container)

        def effect() -> bool:
            blob = self.blobs(container).get(path)
            if blob is None or etag not in {None, blob.etag}:
                return False
            self._blobs[container][path] = replace(blob, etag=self._new_etag(), **_all(headers))
            return True

        return await perform(self._gate, Call(Kind.BLOB_WRITE, container, path), effect)

    async def delete_blob(self, container: str, path: str) -> None:
        check_dashed(container)
        call = Call(Kind.BLOB_WRITE, container, path)
        await perform(self._gate, call, lambda: self._blobs.get(container, {}).pop(path, None))

    async def list_paths(self, container: str, prefix: str, *, limit: int = 1000) -> list[str]:
        check_dashed(container)
        limits.check_page(limit)

        def effect() -> list[str]:
            return sorted(path for path in self.blobs(container) if path.startswith(prefix))[:limit]

        return await perform(self._gate, Call(Kind.BLOB_READ, container, prefix), effect)

    def _committed(self, container: str, path: str) -> StoredBlob:
        blob = self.blobs(container).get(path)
        if blob is None:
            raise BlobMissing(path)
        return blob

    def _store(
        self,
        container: str,
        path: str,
        content: bytes,
        blocks: Mapping[str, bytes],
        headers: BlobHeaders,
    ) -> None:
        self._blobs.setdefault(container, {})[path] = StoredBlob(
            content=bytes(content), etag=self._new_etag(), blocks=blocks, **_all(headers)
        )

    def _new_etag(self) -> str:
        return f'"0x{next(self._writes):X}"'


def _all(headers: BlobHeaders) -> dict[str, Any]:
    return {"content_encoding": "", "content_disposition": "", **headers}
