"""Folders of runs below the work directory: removed after their run, or by the next worker if theirs has died."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from worker import descriptors
from worker.users import User

log = logging.getLogger("worker")

TASKS = "tasks"
_LOCK = ".lock"
TRIES = 20


class Folders:
    """The folders of runs. Several workers may share the work directory.

    Beside each folder is a lock file, which its worker has locked. The guard of the run's processes holds the lock as
    well (process.py), so the system releases it when both have ended. There are such locks for users, too.
    """

    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir
        self._tasks = work_dir / TASKS
        self._locks: dict[Path, Sequence[int]] = {}

    def sweep(self, *, is_root_for_others: bool = False) -> None:
        """Makes the work directory, or removes what workers that have died have left in it. Raises OSError.

        `is_root_for_others`: tasks run as other users, none of whom may change the directory.
        """
        _make(self._work_dir)
        found = self._work_dir.lstat()
        if (is_root_for_others or _may_be_anyones(self._work_dir)) and found.st_uid != os.getuid():
            raise PermissionError(f"{self._work_dir} belongs to another user")
        if is_root_for_others and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{self._work_dir} can be changed by other users")
        _make(self._tasks)
        for lock in self._tasks.glob(f"*{_LOCK}"):
            with contextlib.suppress(OSError), locked(lock):
                folder = lock.with_name(lock.name.removesuffix(_LOCK))
                if folder.exists():
                    log.info("removing %s: its worker has died", folder)
                    remove(folder)
                lock.unlink()

    @asynccontextmanager
    async def one(self, name: str, user: User | None = None) -> AsyncIterator[Path]:
        """A fresh folder, for a run whose tasks are run as this user. Raises OSError.

        If the user's lock is still held for an earlier run, of another worker or of one that died, this waits a second
        for it.
        """
        folder = self._tasks / name
        lock = self._tasks / f"{name}{_LOCK}"
        with ExitStack() as held:
            locks = [await self._own(lock, held)]
            if user is not None:
                locks.append(await self._own(self._tasks / f"user-{user.uid}{_LOCK}", held))
            await asyncio.to_thread(remove, folder)
            _make(folder)
            self._locks[folder] = locks
            try:
                yield folder
            finally:
                del self._locks[folder]
                await asyncio.to_thread(remove, folder)
                lock.unlink()

    def locks(self, folder: Path) -> Sequence[int]:
        """Descriptors of the locks of a folder that is in use: who inherits them keeps the folder and the user."""
        return self._locks[folder]

    @staticmethod
    async def _own(lock: Path, held: ExitStack) -> int:
        """Holds a lock until the stack is closed. Another worker may be sweeping it away at this very moment.

        Raises OSError.
        """
        for _ in range(TRIES):
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                return held.enter_context(locked(lock))
            await asyncio.sleep(0.05)
        return held.enter_context(locked(lock))


def _make(folder: Path) -> None:
    """Makes a directory that every user can pass, whatever the process's mask is, unless there is one."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o711)


def _may_be_anyones(path: Path) -> bool:
    """Whether every user can make something of this name, as in a folder for temporary files."""
    return bool(path.parent.stat().st_mode & stat.S_IWOTH)


def remove(path: Path) -> None:
    """Removes a folder with all that is in it, also what was made read-only; a link itself, not its target.

    The folder that it is in must not be one that a task can change.
    """
    try:
        with descriptors.opened(path.parent) as parent:
            descriptors.remove(parent, path.name)
    except FileNotFoundError:
        return
    except OSError as problem:
        log.warning("%s cannot be removed: %s", path, problem.strerror)


@contextmanager
def locked(lock: Path) -> Iterator[int]:
    """Holds the lock; its descriptor. Raises BlockingIOError when another process does, FileNotFoundError when it has
    been removed."""
    # Only its owner may open it: whoever can open it can lock it, and so keep others from a user or a folder.
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino != lock.stat().st_ino:
            raise FileNotFoundError(lock)
        yield descriptor
    finally:
        os.close(descriptor)
