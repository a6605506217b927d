"""Who tasks are: the user that they run as where the worker is root, and the limits that the system sets them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import pwd
import re
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_CAPABILITIES = {"chown": 0, "dac_override": 1, "fowner": 3, "kill": 5, "setgid": 6, "setuid": 7}
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38

PROCESSES = 4096
"""Processes and threads of the task's user."""
_SHORTAGES = {errno.EAGAIN, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EROFS}


def is_shortage(problem: BaseException) -> bool:
    """Returns whether an error says that memory, processes, files or the disk have run out (contract 4.3)."""
    return isinstance(problem, OSError) and problem.errno in _SHORTAGES


@dataclass(frozen=True)
class User:
    """A user of the system that tasks run as."""

    name: str
    uid: int
    gid: int

    @classmethod
    def of(cls, name: str) -> User:
        """Returns the user of this name or number. A number need not be known to the system: its group has the same
        number then. Raises ValueError for a name that is not known, and for root."""
        try:
            found = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
        except (KeyError, OverflowError):
            if not name.isdecimal() or not 0 < int(name) < (1 << 32) - 1:
                raise ValueError(f"there is no user {name!r}") from None
            return cls(name, int(name), int(name))
        if found.pw_uid == 0:
            raise ValueError("root is what tasks must not be")
        return cls(found.pw_name, found.pw_uid, found.pw_gid)


def check_rights(status: Path = Path("/proc/self/status")) -> None:
    """Raises PermissionError if root lacks the rights to run tasks as another user. `status`: where they are listed."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(encoding="utf-8"), re.MULTILINE)
    has = int(found[1], 16) if found else 0
    if lacking := [name for name, number in _CAPABILITIES.items() if not has >> number & 1]:
        raise PermissionError(f"tasks cannot run as another user without the capabilities {', '.join(lacking)}")


def hide() -> None:
    """Keeps other processes of the same user, such as tasks, from this one's memory, environment and descriptors
    (Linux). A process with the capability CAP_SYS_PTRACE can still read them."""
    prctl(PR_SET_DUMPABLE, 0)


def become(user: User | None) -> None:
    """Gives up all rights of this process but those of the task's user, for good, and sets the limits of a task. None:
    it stays what it is. The process ends with the one that has started it."""
    os.umask(0o022)
    os.nice(10)  # however many processes a task has, the worker gets some of the processor
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, 65536)
    prctl(PR_SET_DUMPABLE, 1)  # or else this file is root's; no command of the task runs yet
    with contextlib.suppress(OSError):  # where memory runs out, a task is ended before its worker: 1000 goes first
        adjustment = Path("/proc/self/oom_score_adj")
        adjustment.write_text(str(min(int(adjustment.read_text(encoding="ascii")) + 500, 1000)), encoding="ascii")
    if user is not None:
        limit(resource.RLIMIT_NPROC, PROCESSES)
        if not os.path.ismount("/dev/mqueue"):  # nobody could find, and remove, what is left
            limit(resource.RLIMIT_MSGQUEUE, 0)
        # No sudo, no cron or at jobs, no mounts of its own: by these a task could leave processes that are not ended.
        prctl(PR_SET_NO_NEW_PRIVS, 1)
    _drop_rights(user)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of user, which would undo it
    hide()


def as_user(user: User | None, do: Callable[[], object], seconds: float = math.inf) -> None:
    """Does something in a process that has the rights of the task's user alone, and waits for it. Raises OSError."""
    pid, give_up = os.fork(), time.monotonic() + seconds
    if pid == 0:
        try:
            _drop_rights(user)
            do()
        finally:
            os._exit(0)
    with contextlib.suppress(ChildProcessError):  # it has been waited for where all children are
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < give_up:
            time.sleep(0.001)


def _drop_rights(user: User | None) -> None:
    if user is not None:
        os.setgroups(os.getgrouplist(user.name, user.gid))
        os.setregid(user.gid, user.gid)
        os.setreuid(user.uid, user.uid)


def limit(kind: int, most: int) -> None:
    """Sets a limit of this process, and of those that it starts, if it has no lower one."""
    soft, hard = (most if now == resource.RLIM_INFINITY else min(now, most) for now in resource.getrlimit(kind))
    with contextlib.suppress(ValueError, OSError):  # not known everywhere
        resource.setrlimit(kind, (soft, hard))


def prctl(option: int, value: int) -> None:
    """Sets something of this process that only Linux has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
