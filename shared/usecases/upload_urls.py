"""Where the content of an artifact is to be put (contract 7.2, design 8)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from shared.domain.artifacts import OPAQUE, Artifact, Upload, as_header, disposition, part_id
from shared.runtime import Runtime
from shared.storage import artifact_keys
from shared.storage.interface import Access
from shared.usecases.reading import CLOCK_SKEW
from shared.usecases.relay import Relay
from shared.usecases.uploads import BLOCK


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
            artifact_keys.container(artifact.name),
            artifact_keys.path(task_id, run_id, artifact.name, artifact.version),
            start=self._now().replace(microsecond=0) - CLOCK_SKEW,
            expiry=until,
        )


def _block(url: str, block_id: str) -> str:
    """A signed URL of a blob as the URL of one of its blocks."""
    return f"{url}&comp=block&blockid={quote(base64.b64encode(block_id.encode()).decode(), safe='')}"
