"""Caches on disk: directories that one task leaves to the next, by name.

A cache is moved into the task's folder, and back when the task has ended. While a task has it, another one of the same
name gets a directory of its own: so there are as many of a name as there were tasks at once. Where tasks run as users
of their own, each user has caches of its own as well: no file changes its owner.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from worker import descriptors
from worker.folders import locked, remove
from worker.users import User

log = logging.getLogger("worker")

CACHES = "caches"
_CONTENT = "content"


@dataclass
class Cache:
    """A cache that a task has, for the time of a `with`."""

    home: Path
    """Where it is kept. No other task has it."""
    is_new: bool
    work_dir: Path
    """The work directory. No task can change it itself, and `place` is below it."""
    user: User | None
    place: Path | None = field(default=None, init=False)

    def move_in(self, place: Path) -> None:
        """Puts it where the task wants it. Raises OSError, also where a link is on the way there."""
        content = self.home / _CONTENT
        if self.is_new:
            content.mkdir(exist_ok=True)
            if self.user is not None:  # nobody else can reach it yet
                os.chown(content, self.user.uid, self.user.gid, follow_symlinks=False)
        with self._around(place, make=True) as folder, descriptors.opened(self.home) as home:
            os.rename(_CONTENT, place.name, src_dir_fd=home, dst_dir_fd=folder)
        self.place = place

    def purge(self) -> None:
        """Forgets it."""
        place, self.place = self.place, None
        if place is not None:
            with contextlib.suppress(OSError), self._around(place) as folder:
                descriptors.remove(folder, place.name)
        remove(self.home / _CONTENT)

    def move_out(self) -> None:
        """Takes it back, unless the task has put something else there."""
        place, self.place = self.place, None
        if place is None:
            return
        try:
            with self._around(place) as folder, descriptors.opened(self.home) as home:
                if self._is_own(folder, place.name):
                    descriptors.remove(home, _CONTENT)
                    os.rename(place.name, _CONTENT, src_dir_fd=folder, dst_dir_fd=home)
                    if not self._is_own(home, _CONTENT):  # the task has exchanged it in between
                        descriptors.remove(home, _CONTENT)
                    os.utime(home)
        except OSError as problem:
            log.info("a cache is forgotten, since its task has moved it: %s", problem.strerror)

    @contextmanager
    def _around(self, place: Path, *, make: bool = False) -> Iterator[int]:
        """The directory that a place is in. Links that the task has put on the way there are not followed."""
        with descriptors.opened(self.work_dir) as base:
            below = PurePosixPath(place.parent.relative_to(self.work_dir))
            with descriptors.walked(base, below, make=make) as folder:
                yield folder

    def _is_own(self, folder: int, name: str) -> bool:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return stat.S_ISDIR(found.st_mode) and (self.user is None or found.st_uid == self.user.uid)


class Caches:
    """All caches of a work directory, which several workers may share."""

    def __init__(self, work_dir: Path, keep_free: int) -> None:
        """`keep_free`: while fewer bytes of the disk are free, caches are removed, the longest unused ones first."""
        self._work_dir = work_dir
        self._folder = work_dir / CACHES
        self._keep_free = keep_free

    @contextmanager
    def one(self, name: str, user: User | None = None) -> Iterator[Cache]:
        """A cache of this name, and of this user, that no other task has. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)  # tasks reach a cache only by a mount, which needs its scope
        named = self._folder / hashlib.sha256(name.encode()).hexdigest()[:32]
        with ExitStack() as held:
            number = 0
            while True:
                home = named / (str(number) if user is None else f"{user.uid}-{number}")
                home.mkdir(parents=True, mode=0o711, exist_ok=True)
                with contextlib.suppress(BlockingIOError, FileNotFoundError):
                    held.enter_context(locked(home / "lock"))
                    break
                number += 1
            cache = Cache(home, not (home / _CONTENT).is_dir(), self._work_dir, user)
            try:
                yield cache
            finally:
                cache.move_out()

    def make_room(self) -> None:
        """Removes caches until enough of the disk is free, or there are none left."""
        homes = [home for home in self._folder.glob("*/*") if home.is_dir()]
        for home in sorted(homes, key=_used):
            if shutil.disk_usage(self._folder).free >= self._keep_free:
                return
            with contextlib.suppress(OSError), locked(home / "lock"):
                log.info("removing a cache that was not used since %s: the disk is full", time.ctime(_used(home)))
                remove(home / _CONTENT)
                os.utime(home)


def _used(home: Path) -> float:
    try:
        return home.stat().st_mtime
    except FileNotFoundError:
        return 0.0
