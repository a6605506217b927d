"""The log of a run: what the worker and the command say, kept in a file and shown as an artifact while it grows."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path

from worker.artifacts import Artifacts, UploadFailed
from worker.queue import REFUSED

log = logging.getLogger("worker")

NAME = "public/logs/live.log"
CONTENT_TYPE = "text/plain; charset=utf-8"
LIMIT = 48 * 1024 * 1024
"""Bytes of the log that are uploaded: while its length is open, it goes through the service, which takes no more
than 64 MiB by default."""
FIRST_PAUSE = 2.0
LONGEST_PAUSE = 60.0


class TaskLog:
    """Writes lines of the worker's own, and uploads."""

    def __init__(self, path: Path, artifacts: Artifacts) -> None:
        self.path = path
        self._artifacts = artifacts
        self._uploaded = 0

    def write(self, text: str) -> None:
        """Adds lines that are the worker's."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self.path.open("a", encoding="utf-8", errors="replace") as file:
            file.writelines(f"[taskcluster {now}] {line}\n" for line in text.splitlines())

    async def stream(self) -> None:
        """Uploads what there is, at growing intervals, until cancelled. Trouble is left to the next time."""
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
        """Uploads all that there is. Raises UploadFailed, or what the queue refuses."""
        size = self.path.stat().st_size
        await self._artifacts.upload(NAME, self.path, content_type=CONTENT_TYPE, limit=LIMIT)
        self._uploaded = size
