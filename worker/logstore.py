"""The log of a run on the worker's disk: its beginning and its end, however long it is."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from worker.hiding import without_secrets

CHUNK = 1 << 20


class LogStore:
    """Bytes as they come, in a file that has no name: nothing of it is left behind, and no task can open it.

    Of a log beyond the limit the middle is dropped: three quarters of the limit are its beginning, one is its end.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        """`limit`: bytes that are kept at most."""
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by close
        self._tail = max(1, limit // 4)
        self.head = max(0, limit - self._tail)
        """Bytes at the beginning that are kept for certain."""
        self.size = 0
        """Bytes that were written, kept or not."""

    def close(self) -> None:
        """Forgets the log."""
        self._file.close()

    def write(self, data: bytes) -> None:
        """Adds bytes."""
        view = memoryview(data)
        while view:
            place, room = self._place(self.size)
            count = os.pwrite(self._file.fileno(), view[:room], place)
            self.size += count
            view = view[count:]

    def say(self, text: str) -> None:
        """Adds lines of the worker's own."""
        self.write(said(text))

    def read(self, start: int, end: int) -> bytes:
        """Bytes by their positions in the whole log; both must be in what is kept."""
        parts = []
        while start < end:
            place, room = self._place(start)
            part = os.pread(self._file.fileno(), min(room, end - start), place)
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    @property
    def resumes(self) -> int:
        """Where the end begins that is kept: at `head` unless the log is too long, then at the start of a line."""
        start = max(self.head, self.size - self._tail)
        if start == self.head:
            return start
        line = self.read(start, min(start + CHUNK, self.size)).find(b"\n")
        return start + line + 1

    @property
    def notice(self) -> bytes:
        """What stands for the part that is dropped."""
        return b"\n" + said(f"{self.resumes - self.head} bytes of this log are left out here: it is too long.")

    def _place(self, position: int) -> tuple[int, int]:
        """Where in the file a byte of the log is, and how many follow it there."""
        if position < self.head:
            return position, self.head - position
        offset = (position - self.head) % self._tail
        return self.head + offset, self._tail - offset


def said(text: str) -> bytes:
    """Lines of the worker's own. Signatures are removed from URLs, since everybody who may read the log may read these
    lines."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return "".join(f"[taskcluster {now}] {line}\n" for line in without_secrets(text).splitlines()).encode(
        errors="replace"
    )
