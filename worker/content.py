"""Fetches the content of mounts: artifacts of other tasks, URLs, and what the payload itself holds."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
from http import HTTPStatus
from typing import BinaryIO

import aiohttp
import taskcluster.aio
from taskcluster.exceptions import TaskclusterRestFailure
from yarl import URL

from worker.archives import BadContent
from worker.claim import Claim
from worker.hiding import shown, without_secrets
from worker.payload import ArtifactContent, Base64Content, IndexedContent, RawContent, UrlContent
from worker.queue import TROUBLE

log = logging.getLogger("worker")

TRIES = 5
CHUNK = 256 * 1024
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)

AnyContent = ArtifactContent | IndexedContent | UrlContent | RawContent | Base64Content


class NotReached(Exception):
    """The content cannot be had now, after several tries; it may be later."""


class Contents:
    """Fetches for one task, with its own credentials."""

    def __init__(self, claim: Claim, root_url: str, session: aiohttp.ClientSession) -> None:
        self._claim = claim
        self._root_url = root_url
        self._session = session

    async def fetch(self, content: AnyContent, target: BinaryIO) -> None:
        """Writes the content to an empty file, whose position is at its beginning then, and verifies its hash.

        Raises BadContent, NotReached; OSError when it cannot be written.
        """
        match content:
            case RawContent() | Base64Content():
                _write_inline(content, target)
            case _:
                await self._download(content, target)
        target.seek(0)  # and written through

    async def _download(self, content: ArtifactContent | IndexedContent | UrlContent, target: BinaryIO) -> None:
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(2**attempt / 4)
            try:
                found = await self._get(await self._url(content), target)
            except TaskclusterRestFailure as refused:
                raise BadContent(f"the queue refuses it: {shown(refused)}") from None
            except TROUBLE as trouble:
                problem = shown(trouble)
                log.warning("%s: %s cannot be fetched: %s", self._claim, describe(content), problem)
                continue
            if content.sha256 is not None and found != content.sha256:
                raise BadContent(f"its sha256 is {found}, not {content.sha256}")
            return
        raise NotReached(f"{describe(content)}: {problem}")

    async def _url(self, content: ArtifactContent | IndexedContent | UrlContent) -> str:
        if isinstance(content, UrlContent):
            return content.url
        options = {"rootUrl": self._root_url, "credentials": dict(self._claim.credentials)}
        if isinstance(content, IndexedContent):
            index = taskcluster.aio.Index(options, session=self._session)
            task_id = (await index.findTask(content.namespace))["taskId"]
        else:
            task_id = content.task_id
        found = await self._claim.queue.latestArtifact(task_id, content.artifact)
        if found["storageType"] == "error":
            raise BadContent(f"it is missing: {found['message']}")
        if found["storageType"] == "object":
            objects = taskcluster.aio.Object({**options, "credentials": found["credentials"]}, session=self._session)
            found = await objects.startDownload(found["name"], {"acceptDownloadMethods": {"getUrl": True}})
        return str(found["url"])

    async def _get(self, url: str, target: BinaryIO) -> str:
        """The sha256 of what the URL leads to, which is written to the file."""
        digest = hashlib.sha256()
        async with self._session.get(URL(url, encoded=True), timeout=TIMEOUT) as answer:
            if HTTPStatus.BAD_REQUEST <= answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise BadContent(f"the server answers {answer.status}")
            answer.raise_for_status()
            target.seek(0)
            target.truncate()
            async for chunk in answer.content.iter_chunked(CHUNK):
                digest.update(chunk)
                await asyncio.to_thread(target.write, chunk)
        return digest.hexdigest()


def _write_inline(content: RawContent | Base64Content, target: BinaryIO) -> None:
    if isinstance(content, RawContent):
        target.write(content.raw.encode())
        return
    try:
        target.write(base64.b64decode(content.base64, validate=True))
    except binascii.Error as problem:
        raise BadContent(f"it is no base64: {problem}") from None


def describe(content: AnyContent) -> str:
    """What it is, for the log."""
    match content:
        case ArtifactContent():
            return f"artifact {content.artifact} of task {content.task_id}"
        case IndexedContent():
            return f"artifact {content.artifact} of the task at {content.namespace} in the index"
        case UrlContent():
            return without_secrets(content.url)
        case _:
            return "content of the payload"
