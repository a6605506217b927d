"""Uploads files as artifacts: createArtifact returns a URL to which the file is PUT (contract 7)."""

from __future__ import annotations

import asyncio
import gzip
import logging
import mimetypes
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from typing import Any, BinaryIO

import aiohttp
from yarl import URL

from worker.claim import Claim
from worker.hiding import shown
from worker.queue import TROUBLE, insist

log = logging.getLogger("worker")

TRIES = 5
CHUNK = 256 * 1024
UPLOAD_SECONDS = 30 * 60


class UploadFailed(Exception):
    """The artifact could not be stored, after several tries."""


class Artifacts:
    """The artifacts of one run."""

    def __init__(self, claim: Claim, session: aiohttp.ClientSession) -> None:
        self._claim = claim
        self._session = session

    async def upload(
        self,
        name: str,
        file: BinaryIO,
        *,
        expires: str | None = None,
        content_type: str | None = None,
        encoding: str = "",
    ) -> None:
        """Stores an open file as it is now. `encoding`: gzip, or none.

        Raises UploadFailed; what the queue refuses comes as the client raises it.
        """
        size = os.fstat(file.fileno()).st_size
        request = {
            "storageType": "s3",
            "expires": self._expires(expires),
            "contentType": content_type or mimetypes.guess_type(name)[0] or "application/octet-stream",
            "contentLength": size,  # of the content, not of its encoding
        }
        if encoding == "gzip":
            with tempfile.TemporaryFile() as compressed:
                await asyncio.to_thread(_compress, file, compressed)
                await self._store(name, request, compressed, {"Content-Encoding": "gzip"})
        else:
            await self._store(name, request, file, {})

    async def _store(self, name: str, request: dict[str, Any], file: BinaryIO, headers: dict[str, str]) -> None:
        size = os.fstat(file.fileno()).st_size
        headers = {**headers, "Content-Type": request["contentType"], "Content-Length": str(size)}
        for attempt in range(TRIES):
            # createArtifact is called again for each try: its URL is short-lived, and the call may be repeated
            # unchanged.
            try:
                url = (await self._create(name, request))["putUrl"]
                async with self._session.put(
                    URL(url, encoded=True),
                    data=_read(file, size),
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=UPLOAD_SECONDS),
                ) as answer:
                    if answer.ok:
                        return
                    problem = f"the storage answered {answer.status}"
            except TROUBLE as trouble:
                problem = shown(trouble)
            log.warning("%s: uploading %s failed: %s", self._claim, name, problem)
            await asyncio.sleep(2**attempt / 4)
        raise UploadFailed(f"{name}: {problem}")

    async def report_missing(self, name: str, reason: str, message: str, expires: str | None = None) -> None:
        """Says in place of an artifact why it is not there."""
        request = {
            "storageType": "error",
            "expires": self._expires(expires),
            "reason": reason,
            "message": message,
        }
        await insist(lambda: self._create(name, request))

    async def link(self, name: str, artifact: str, content_type: str) -> None:
        """Gives another artifact of the run a second name."""
        request = {
            "storageType": "link",
            "expires": self._expires(None),
            "artifact": artifact,
            "contentType": content_type,
        }
        await insist(lambda: self._create(name, request))

    def _expires(self, wanted: str | None) -> str:
        """The expiration that is wanted, but not later than the task's. Both are ISO 8601 in UTC, which sort by time up
        to the fraction."""
        latest = str(self._claim.definition["expires"])
        return latest if wanted is None else min(wanted, latest)

    async def _create(self, name: str, request: dict[str, Any]) -> dict[str, str]:
        claim = self._claim
        answer: dict[str, str] = await claim.queue.createArtifact(claim.task_id, claim.run_id, name, request)
        return answer


def _compress(file: BinaryIO, into: BinaryIO) -> None:
    with gzip.GzipFile(fileobj=into, mode="wb", mtime=0) as compressed:
        shutil.copyfileobj(file, compressed, CHUNK)
    into.flush()


async def _read(file: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """The first `size` bytes, since a file may grow while it is sent."""
    file.seek(0)
    while size > 0 and (chunk := await asyncio.to_thread(file.read, min(CHUNK, size))):
        size -= len(chunk)
        yield chunk
