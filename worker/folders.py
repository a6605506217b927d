"""The work directory: a folder for the run that is worked on, and caches that tasks leave to later ones.

The guard alone changes it (guard.py), which may be root, while no process of a task is there. It follows no link, and
it removes what a task has left with the rights of the task's user.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import os
import secrets
import socket
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from worker.archives import BadContent, made
from worker.users import User, as_user, is_shortage

TRIES = 50
"""Ten a second, while another worker in the same place is to be gone: its guard may be removing a folder."""
SHARED = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")  # noqa: S108 - what tasks leave there is removed
"""Where every user of a usual system can leave files."""


class WorkDirectory:
    """The work directory of one worker, which no other one uses."""

    def __init__(self, path: Path, user: User | None, keep_free: int) -> None:
        """Makes it, or removes what a worker that died has left in it. Raises OSError where it cannot be used.

        `user`: who tasks run as, and nobody else; None: the worker's own user. `keep_free`: while fewer bytes of the
        disk are free, caches are removed.
        """
        self._user, self._keep_free = user, keep_free
        self._uid = os.getuid() if user is None else user.uid
        self._owner = (-1, -1) if user is None else (user.uid, user.gid)
        """Whom files of a task get, for `chown`."""
        self._placed: list[tuple[Path, Path, bool]] = []
        _make(path)
        found, self._path = path.lstat(), path.resolve()
        if (user is not None or path.parent.stat().st_mode & stat.S_IWOTH) and found.st_uid != os.getuid():
            raise PermissionError(f"{path} belongs to another user")
        if user is not None and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{path} can be changed by other users")
        # Only its owner may open it: whoever can open it can lock it.
        self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        _hold(lambda: fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB), f"another worker uses {path}")
        if user is not None:
            name = f"\0taskcluster-worker/{Path('/proc/self/ns/pid').readlink()}/{user.uid}"
            with socket.socket(socket.AF_UNIX) as held:
                _hold(lambda: held.bind(name), f"another worker has tasks run as user {user.uid}")
                self._held = held.detach()
        _make(path / "tasks")
        self._caches = path / "caches"
        self._caches.mkdir(exist_ok=True)
        self._caches.chmod(0o700)  # tasks reach a cache only by a mount, which needs its scope
        if problem := self.put_back():
            raise OSError(problem)

    def make_room(self) -> str:
        """Removes caches, the longest unused first, until enough of the disk is free. Returns what is still missing."""
        caches = sorted(self._caches.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
        while True:
            disk = os.statvfs(self._path)
            free = disk.f_bavail * disk.f_frsize
            if free >= self._keep_free and disk.f_favail >= disk.f_files / 20:
                return ""
            if not caches:
                return f"the disk has only {free >> 20} MiB and {disk.f_favail} files left"
            self._remove([caches.pop()])

    def begin(self, name: str, caches: Mapping[str, str]) -> tuple[Path, dict[str, bool | str]]:
        """Makes a folder for a run, with caches at their places. Returns it, and for each cache whether it is new or
        why it is not there. Raises OSError."""
        folder = self._path / "tasks" / name
        self._make(folder)
        return folder, {cache: self._place(folder, cache, place) for cache, place in caches.items()}

    def _place(self, folder: Path, name: str, directory: str) -> bool | str:
        # No file changes its owner: for another user it is another cache.
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
        home = self._caches / f"{digest[:32]}-{self._uid}"
        place, is_new = folder / directory, not home.exists()
        try:
            above = made(folder, str(PurePosixPath(directory)))
            while above != folder:
                os.chown(above, *self._owner)
                above = above.parent
            self._make(place)  # fails where there is something already
            if not is_new:
                home.rename(place)
        except (OSError, ValueError, BadContent) as problem:  # ValueError for text that can be no name
            if is_shortage(problem):
                raise
            return str(getattr(problem, "strerror", problem))
        self._placed.append((place, home, is_new))
        return is_new

    def _make(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        os.chown(folder, *self._owner)

    def put_back(self, *, filled: bool = False, purged: bool = False) -> str:
        """Takes the caches back, and removes all else that a task has left; what cannot be removed. `filled`: new
        caches have what they were to begin with; `purged`: no cache is to be kept."""
        while self._placed:
            place, home, is_new = self._placed.pop()
            with contextlib.suppress(OSError):  # its task may have moved it, or put a link above it
                is_own = _is_directory(place) and place.stat().st_uid == self._uid
                if is_own and os.path.realpath(place) == str(place) and not purged and (filled or not is_new):
                    place.rename(home)
                    os.utime(home)
        tasks = self._path / "tasks"
        try:
            if not _is_directory(tasks):
                return f"{tasks} cannot be removed: it is no directory"
            self._remove(list(tasks.iterdir()))
        except OSError as problem:
            return f"{problem.filename} cannot be removed: {problem.strerror}"
        return ""

    def _remove(self, folders: list[Path]) -> None:
        """Removes folders, and what tasks have left elsewhere, with the rights of the tasks' user. Raises OSError."""

        def remove() -> None:
            if self._user is not None:
                _sweep_ipc()
                for shared in SHARED:
                    _remove_own(Path(shared), os.getuid(), depth=3)
            for folder in filter(_is_directory, folders):
                empty(folder)

        as_user(self._user, remove)
        for folder in folders:
            folder.rmdir() if _is_directory(folder) else folder.unlink()


def _is_directory(path: Path) -> bool:
    """Returns whether the path is a directory itself, and not a link to one."""
    return stat.S_ISDIR(path.lstat().st_mode)


def empty(folder: Path) -> None:
    """Removes all that is in a directory, however deep and much, also what was made read-only. Raises OSError.

    One directory after the other, whose own directories are moved to the top: so depth costs no recursion, and no list
    is kept of what may be millions of names. What a pass misses, the next one finds.
    """
    name, count, is_empty = secrets.token_hex(8), 0, False
    folder.chmod(0o700)
    while not is_empty:
        is_empty = True
        for entry in map(Path, os.scandir(folder)):
            is_empty = False
            if not _is_directory(entry):
                entry.unlink()
                continue
            entry.chmod(0o700)
            for inner in map(Path, os.scandir(entry)):
                if _is_directory(inner):
                    inner.chmod(0o700)  # moving a directory writes into it
                    inner.rename(folder / f"{name}-{count}")
                    count += 1
                else:
                    inner.unlink()
            if not list(os.scandir(entry)):
                entry.rmdir()


def _remove_own(folder: Path, user: int, depth: int) -> None:
    """Removes what a user has left in a directory that anybody can write to, and in such directories in it."""
    with contextlib.suppress(OSError):
        for entry in map(Path, os.scandir(folder)):
            with contextlib.suppress(OSError):
                found, is_directory = entry.lstat(), _is_directory(entry)
                if found.st_uid != user:
                    if depth > 1 and is_directory and found.st_mode & stat.S_IWOTH:
                        _remove_own(entry, user, depth - 1)
                elif is_directory:
                    empty(entry)
                    entry.rmdir()
                else:
                    entry.unlink()


def _sweep_ipc() -> None:
    """Removes this user's shared memory, semaphores and message queues of System V, which outlive processes (Linux)."""
    libc = ctypes.CDLL(None)
    for kind, remove in (("shm", libc.shmctl), ("sem", libc.semctl), ("msg", libc.msgctl)):
        with contextlib.suppress(FileNotFoundError):
            for row in Path(f"/proc/sysvipc/{kind}").read_text(encoding="utf-8").splitlines()[1:]:
                remove(int(row.split()[1]), 0, 0)  # IPC_RMID, which fails for those of others


def _make(folder: Path) -> None:
    """Makes a directory that every user can pass, whatever the process's mask is, unless there is one."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(parents=True)
        folder.chmod(0o711)


def _hold(take: Callable[[], Any], problem: str) -> None:
    """Takes what only one worker can have, for as long as this process lives. Raises OSError."""
    for _ in range(TRIES):
        with contextlib.suppress(OSError):
            take()
            return
        time.sleep(0.1)
    raise OSError(problem)
