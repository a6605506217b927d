"""Folders of runs below the work directory: removed after their run, or by the next worker if theirs has died."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

log = logging.getLogger("worker")

TASKS = "tasks"
_LOCK = ".lock"
TRIES = 20


class Folders:
    """The folders of runs. Several workers may share the work directory.

    Beside each folder is a file that its worker has locked; the system gives the lock up when the worker dies.
    """

    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir
        self._tasks = work_dir / TASKS

    def sweep(self) -> None:
        """Makes the work directory, or removes what workers that have died have left in it. Raises OSError."""
        self._work_dir.mkdir(mode=0o711, exist_ok=True)
        if _may_be_anyones(self._work_dir) and self._work_dir.lstat().st_uid != os.getuid():
            raise PermissionError(f"{self._work_dir} belongs to another user")
        self._tasks.mkdir(mode=0o711, exist_ok=True)
        for lock in self._tasks.glob(f"*{_LOCK}"):
            with contextlib.suppress(OSError), locked(lock):
                folder = lock.with_name(lock.name.removesuffix(_LOCK))
                if folder.exists():
                    log.info("removing %s: its worker has died", folder)
                    remove(folder)
                lock.unlink()

    @asynccontextmanager
    async def one(self, name: str) -> AsyncIterator[Path]:
        """A fresh folder. Raises OSError."""
        folder = self._tasks / name
        lock = self._tasks / f"{name}{_LOCK}"
        with await self._own(lock):
            await asyncio.to_thread(remove, folder)
            folder.mkdir(mode=0o711)
            try:
                yield folder
            finally:
                await asyncio.to_thread(remove, folder)
                lock.unlink()

    @staticmethod
    async def _own(lock: Path) -> ExitStack:
        """Holds a lock until the stack is closed. Another worker may be sweeping it away at this very moment.

        Raises OSError.
        """
        held = ExitStack()
        for attempt in range(TRIES):
            try:
                held.enter_context(locked(lock))
                break
            except (BlockingIOError, FileNotFoundError):
                if attempt == TRIES - 1:
                    raise
                await asyncio.sleep(0.05)
        return held


def _may_be_anyones(path: Path) -> bool:
    """Whether every user can make something of this name, as in a folder for temporary files."""
    return bool(path.parent.stat().st_mode & stat.S_IWOTH)


def remove(path: Path) -> None:
    """Removes a folder with all that is in it, also what was made read-only; a link itself, not its target."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        with contextlib.suppress(OSError):
            path.chmod(0o700)
        for parent, folders, _ in os.walk(path):
            for name in folders:
                inner = Path(parent, name)
                with contextlib.suppress(OSError):
                    if not inner.is_symlink():
                        inner.chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        log.warning("%s cannot be removed", path)


@contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Holds the lock. Raises BlockingIOError when another process does, FileNotFoundError when it has been removed."""
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file.fileno()).st_ino != lock.stat().st_ino:
            raise FileNotFoundError(lock)
        yield
