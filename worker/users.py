"""Users that tasks run as, where the worker is root: so that a task reaches neither the worker nor other tasks."""

from __future__ import annotations

import grp
import pwd
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NUMBERS = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?")
_CAPABILITIES = {"chown": 0, "dac_override": 1, "fowner": 3, "kill": 5, "setgid": 6, "setuid": 7}
MOST = 1000
"""Users that a range may name."""


@dataclass(frozen=True)
class User:
    """A user of the system that tasks run as, one at a time."""

    name: str
    uid: int
    gid: int

    @classmethod
    def of(cls, name: str) -> User:
        """The user of this name or number. A number need not be known to the system; its group then has the same
        number.

        Raises KeyError; ValueError for root.
        """
        try:
            found = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
        except KeyError:
            if not name.isdecimal():
                raise
            user = cls(name, int(name), int(name))
        else:
            user = cls(found.pw_name, found.pw_uid, found.pw_gid)
        if user.uid == 0:
            raise ValueError("root is what tasks must not be")
        return user

    def of_process(self) -> dict[str, Any]:
        """Arguments for `subprocess` that make a process run as this user."""
        groups = [group.gr_gid for group in grp.getgrall() if self.name in group.gr_mem]
        return {"user": self.uid, "group": self.gid, "extra_groups": groups}


def listed(text: str) -> tuple[User, ...]:
    """Users by their names and numbers, with commas between them, or by ranges of numbers as `10001-10032`.

    Raises KeyError, ValueError.
    """
    names = dict[str, None]()
    for part in text.split(","):
        numbers = _NUMBERS.fullmatch(part)
        if numbers is None:
            names[part] = None
            continue
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if not first <= last < first + MOST:
            raise ValueError(f"{part} is no range of up to {MOST} users")
        names |= {str(number): None for number in range(first, last + 1)}
    return tuple(dict.fromkeys(User.of(name) for name in names))


def check_rights(status: Path = Path("/proc/self/status")) -> None:
    """Raises PermissionError if root lacks the rights that are needed to run tasks as other users, as in some
    containers.

    `status`: the file in which Linux lists the rights of this process.
    """
    if not status.exists():
        return
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(encoding="utf-8"), re.MULTILINE)
    has = int(found[1], 16) if found else 0
    lacking = [name for name, number in _CAPABILITIES.items() if not has >> number & 1]
    if lacking:
        raise PermissionError(f"tasks cannot run as other users without the capabilities {', '.join(lacking)}")


class Users:
    """Users to run tasks as: each has one task at a time."""

    def __init__(self, users: Sequence[User]) -> None:
        self._free = list(reversed(users))
        self._is_used = bool(users)

    @contextmanager
    def one(self) -> Iterator[User | None]:
        """A user for the time of a task; None when tasks run as the worker's own. There must be one for each task.

        The user that became free last is taken first, since its caches were used last.
        """
        if not self._is_used:
            yield None
            return
        user = self._free.pop()
        try:
            yield user
        finally:
            self._free.append(user)
