"""Caches on disk: directories that one task leaves to the next, by name.

A cache is moved into the task's folder, and back when the task has ended. While a task has it, another one of the same
name gets a directory of its own: so there are as many of a name as there were tasks at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from worker.folders import locked, remove

log = logging.getLogger("worker")

CACHES = "caches"
_CONTENT = "content"


@dataclass
class Cache:
    """A cache that a task has, for the time of a `with`."""

    home: Path
    """Where it is kept; nobody else has it."""
    is_new: bool
    place: Path | None = field(default=None, init=False)

    def move_in(self, place: Path) -> None:
        """Puts it where the task wants it. Raises OSError."""
        place.parent.mkdir(parents=True, exist_ok=True)
        content = self.home / _CONTENT
        content.mkdir(exist_ok=True)
        content.rename(place)
        self.place = place

    def purge(self) -> None:
        """Forgets it."""
        if self.place is not None:
            remove(self.place)
            self.place = None
        remove(self.home / _CONTENT)

    def move_out(self) -> None:
        """Takes it back, unless the task has put something else there."""
        place, self.place = self.place, None
        if place is not None and place.is_dir() and not place.is_symlink():
            remove(self.home / _CONTENT)
            place.rename(self.home / _CONTENT)
            os.utime(self.home)


class Caches:
    """All caches of a work directory, which several workers may share."""

    def __init__(self, work_dir: Path, keep_free: int) -> None:
        """`keep_free`: bytes of the disk; while fewer are free, caches are removed, the longest unused ones first."""
        self._folder = work_dir / CACHES
        self._keep_free = keep_free

    @contextmanager
    def one(self, name: str) -> Iterator[Cache]:
        """A cache of this name that no other task has. Raises OSError."""
        named = self._folder / hashlib.sha256(name.encode()).hexdigest()[:32]
        with ExitStack() as held:
            number = 0
            while True:
                home = named / str(number)
                home.mkdir(parents=True, mode=0o711, exist_ok=True)
                with contextlib.suppress(BlockingIOError, FileNotFoundError):
                    held.enter_context(locked(home / "lock"))
                    break
                number += 1
            cache = Cache(home, is_new=not (home / _CONTENT).is_dir())
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
