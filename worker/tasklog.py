"""The log of a run: what the worker and the command say, kept in a file and shown as an artifact while it grows."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path

from worker.artifacts import Artifacts, TooLarge, UploadFailed
from worker.queue import REFUSED

log = logging.getLogger("worker")

NAME = "public/logs/live.log"
CONTENT_TYPE = "text/plain; charset=utf-8"
LIMIT = 48 * 1024 * 1024
"""Bytes of the log that are uploaded while it grows: then it goes through the service, which takes no more than 64 MiB
by default. Where it takes less, the worker finds out by halves."""
SHORTEST = 64 * 1024
"""Bytes that are always worth a try."""
FIRST_PAUSE = 2.0
LONGEST_PAUSE = 60.0


class TaskLog:
    """Writes lines of the worker's own, and uploads."""

    def __init__(self, path: Path, artifacts: Artifacts) -> None:
        self.path = path
        self._artifacts = artifacts
        self._uploaded = 0
        self._limit = LIMIT

    def write(self, text: str) -> None:
        """Adds lines that are the worker's."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self.path.open("a", encoding="utf-8", errors="replace") as file:
            file.writelines(f"[taskcluster {now}] {line}\n" for line in text.splitlines())

    async def stream(self) -> None:
        """Uploads what there is, at growing intervals, until cancelled. A failed upload is retried the next time."""
        pause = FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            if self.path.stat().st_size > self._uploaded:
                try:
                    await self.upload()
                except (UploadFailed, *REFUSED) as problem:
                    log.warning("the log is not streamed: %s", problem)

    async def upload(self) -> None:
        """Uploads what there is, or as much as is taken. Raises UploadFailed, or what the queue refuses."""
        size = self.path.stat().st_size
        await self._upload_beginning()
        self._uploaded = size

    async def finish(self) -> None:
        """Uploads the whole log: as before, else straight into storage; or as much of it as is taken.

        Raises nothing: no task fails for its log.
        """
        ways = (self._upload_as_before, self._upload_directly, self._upload_beginning)
        for way in ways:
            try:
                await way()
            except (UploadFailed, *REFUSED) as problem:
                log.warning("the log is not uploaded by %s: %s", way.__name__, problem)
            else:
                return

    async def _upload_as_before(self) -> None:
        size = self.path.stat().st_size
        if size > self._limit:
            raise TooLarge(f"the log has {size} bytes, and {self._limit} may be taken")
        await self._artifacts.upload(NAME, self.path, content_type=CONTENT_TYPE, limit=size)

    async def _upload_directly(self) -> None:
        await self._artifacts.upload(NAME, self.path, content_type=CONTENT_TYPE)

    async def _upload_beginning(self) -> None:
        while True:
            try:
                await self._artifacts.upload(NAME, self.path, content_type=CONTENT_TYPE, limit=self._limit)
            except TooLarge:
                if self._limit <= SHORTEST:
                    raise
                self._limit = min(self._limit, self.path.stat().st_size) // 2
            else:
                return
