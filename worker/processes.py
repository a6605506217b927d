"""Finds and ends the processes of a task: those that descend from a process, and, where tasks have a user, its own.

On Linux processes that leave their group and session are found as well; elsewhere a daemon is not.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
LONGEST_PAUSE = 0.1
"""Seconds between two looks for processes at the end: killing one may take the system a moment."""


def adopt() -> None:
    """From now on processes whose parent has ended become children of this process, if they descend from it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def send(number: int, ancestor: int, user: int | None, *, spared: int = 0) -> int:
    """Sends a signal to every process below one, parents first, and of a user, but not to one that is spared; how many
    there were."""
    children, ended, others = dict[int, list[int]](), {ancestor, spared}, list[int]()
    for pid, parent, is_over, users in _all():
        children.setdefault(parent, []).append(pid)
        ended |= {pid} if is_over else set()
        others += [pid] if user in users else []
    below, level = list[int](), [ancestor]
    while level:
        level = [child for pid in level for child in children.get(pid, ())]
        below += level
    found = [pid for pid in dict.fromkeys([*below, *others]) if pid not in ended]
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return len(found)


def end_all(ancestor: int, user: int | None) -> None:
    """Kills every process of a task, and returns when none is left.

    `ancestor`: this process, which is root if there is a user. It collects children that have ended.
    """
    pause = 0.001
    while True:
        if user is not None:
            _kill_all_of(user)
        left = send(signal.SIGKILL, ancestor, user)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # there may be thousands
                pass
            left += 1  # a process that forks and ends all the time may have been missed, but there still is a child
        if not left:
            return
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _kill_all_of(user: int) -> None:
    """Kills all processes of the user by one call, so that none can start another one meanwhile.

    This fails if the task has used up all processes, or stops each new process of its user. Then they are killed one by
    one.
    """
    try:
        pid = os.fork()
    except OSError:
        return
    if pid == 0:
        try:
            os.setreuid(user, user)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    give_up = time.monotonic() + LONGEST_PAUSE
    while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < give_up:
        time.sleep(0.001)


def _all() -> Iterator[tuple[int, int, bool, list[int]]]:
    """All processes: id, parent, whether it has ended and waits to be collected, users."""
    if sys.platform != "linux":
        listed = subprocess.check_output(["/bin/ps", "-A", "-o", "pid=,ppid=,uid=,stat="], encoding="utf-8")
        for line in listed.splitlines():
            pid, parent, user, state = line.split()[:4]
            yield int(pid), int(parent), state.startswith("Z"), [int(user)]
        return
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - names are what is wanted
        with contextlib.suppress(OSError):
            # The real, effective, saved and file system user: the owner of the folder in /proc may be another one.
            lines = Path(f"/proc/{name}/status").read_bytes().splitlines()
            told = dict(line.split(b":\t", 1) for line in lines if b":\t" in line)
            yield (
                int(name),
                int(told[b"PPid"]),
                told[b"State"][:1] in b"ZX",
                [int(each) for each in told[b"Uid"].split()],
            )
