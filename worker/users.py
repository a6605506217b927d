"""Users that tasks run as, where the worker is root: so that a task reaches neither the worker nor other tasks."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class User:
    """A user of the system that tasks run as, one at a time."""

    name: str
    uid: int
    gid: int

    @classmethod
    def of(cls, name: str) -> User:
        """The user of this name. Raises KeyError; ValueError for root."""
        found = pwd.getpwnam(name)
        if found.pw_uid == 0:
            raise ValueError("root is what tasks must not be")
        return cls(name, found.pw_uid, found.pw_gid)

    def of_process(self) -> dict[str, Any]:
        """What makes a subprocess belong to this user, by the names of its arguments."""
        groups = [group.gr_gid for group in grp.getgrall() if self.name in group.gr_mem]
        return {"user": self.uid, "group": self.gid, "extra_groups": groups}

    def own(self, folder: Path) -> None:
        """Gives a folder with all that is in it to the user: not what a link leads to, nor a file of several names."""
        os.chown(folder, self.uid, self.gid, follow_symlinks=False)
        for parent, folders, files in os.walk(folder):
            for name in (*folders, *files):
                path = Path(parent, name)
                found = path.lstat()
                if not stat.S_ISREG(found.st_mode) or found.st_nlink == 1:
                    os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def may_read(self, found: os.stat_result) -> bool:
        """Whether the user itself may read a file: else it may be a second name of a file that is not the user's."""
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IRUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IRGRP)
        return bool(found.st_mode & stat.S_IROTH)


class Users:
    """Users to run tasks as: each has one task at a time."""

    def __init__(self, users: Sequence[User]) -> None:
        self._free = list(users)
        self._is_used = bool(users)

    @contextmanager
    def one(self) -> Iterator[User | None]:
        """A user for the time of a task; None when tasks run as the worker's own. There must be one for each task."""
        if not self._is_used:
            yield None
            return
        user = self._free.pop()
        try:
            yield user
        finally:
            self._free.append(user)
