"""Uploads files as artifacts: createArtifact returns a URL to which the file is PUT (contract 7)."""

from __future__ import annotations

import asyncio
import logging
import mimetypes
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import aiohttp
from yarl import URL

from worker.claim import Claim
from worker.queue import TROUBLE

log = logging.getLogger("worker")

TRIES = 5
CHUNK = 256 * 1024
CUT_OFF = b"\n[taskcluster] The rest is cut off.\n"
UPLOAD_SECONDS = 30 * 60


class UploadFailed(Exception):
    """The artifact could not be stored, after several tries."""


class TooLarge(UploadFailed):
    """The server of the upload does not take so much (413)."""


class Artifacts:
    """The artifacts of one run."""

    def __init__(self, claim: Claim, session: aiohttp.ClientSession) -> None:
        self._claim = claim
        self._session = session

    async def upload(self, name: str, path: Path, *, content_type: str | None = None, limit: int | None = None) -> None:
        """Stores the file as it is now. With a limit in bytes it is one that grows: it may be stored again later.

        Raises UploadFailed, TooLarge without further tries; what the queue refuses comes as the client raises it.
        """
        size, ending = (await asyncio.to_thread(path.stat)).st_size, b""
        if limit is not None and size > limit:
            size, ending = limit, CUT_OFF
        request = {
            "storageType": "s3",
            "expires": self._claim.definition["expires"],
            "contentType": content_type or mimetypes.guess_type(name)[0] or "application/octet-stream",
        }
        if limit is None:
            request["contentLength"] = size
        headers = {"Content-Type": request["contentType"], "Content-Length": str(size + len(ending))}
        for attempt in range(TRIES):
            # Asked for again each time: the URL is short-lived, and the call may be repeated as it is.
            try:
                url = (await self._create(name, request))["putUrl"]
                async with self._session.put(
                    URL(url, encoded=True),
                    data=_read(path, size, ending),
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=UPLOAD_SECONDS),
                ) as answer:
                    if answer.ok:
                        return
                    problem = f"the storage answered {answer.status}"
                    if answer.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                        raise TooLarge(f"{name}: {problem}")
            except TROUBLE as trouble:
                problem = str(trouble) or type(trouble).__name__
            log.warning("%s: uploading %s failed: %s", self._claim, name, problem)
            await asyncio.sleep(2**attempt / 4)
        raise UploadFailed(f"{name}: {problem}")

    async def report_missing(self, name: str, reason: str, message: str) -> None:
        """Says in place of an artifact why it is not there."""
        request = {
            "storageType": "error",
            "expires": self._claim.definition["expires"],
            "reason": reason,
            "message": message,
        }
        await self._create(name, request)

    async def _create(self, name: str, request: dict[str, str]) -> dict[str, str]:
        claim = self._claim
        answer: dict[str, str] = await claim.queue.createArtifact(claim.task_id, claim.run_id, name, request)
        return answer


async def _read(path: Path, size: int, ending: bytes) -> AsyncIterator[bytes]:
    """The first `size` bytes, since a file may grow while it is sent, and the ending."""
    with path.open("rb") as file:
        while size > 0 and (chunk := await asyncio.to_thread(file.read, min(CHUNK, size))):
            size -= len(chunk)
            yield chunk
    yield ending
