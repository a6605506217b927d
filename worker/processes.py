"""Runs a task's commands; finds and ends the processes of a task: those that descend from a process, and, where tasks
have a user, its own.

On Linux processes that leave their group and session are found as well; elsewhere a daemon is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from worker.messages import TaskException
from worker.users import User, is_shortage

PR_SET_CHILD_SUBREAPER = 36
LONGEST_PAUSE = 0.1
"""Seconds between two looks for processes at the end: killing one may take the system a moment."""
CHUNK = 256 * 1024
END_SECONDS = 5.0
"""How long processes may take to be gone once they are killed, and their last output to arrive."""
PAUSE = 0.01
_TASKS_FAULT = frozenset(
    {
        errno.E2BIG,
        errno.EACCES,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOEXEC,
        errno.ENOTDIR,
    }
)


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


class Commands:
    """The commands of one task, as a context: when it has been exited, nothing that they have started is left."""

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str],
        output: Callable[[bytes], object],
        *,
        ancestor: int,
        user: User | None,
    ) -> None:
        """`output` is given all that the commands print.

        `ancestor`: the process that all of the task descend from, this one included, and no others. `user`: the one
        that this process runs as, if nobody else does.
        """
        self._folder = folder
        self._env = env
        self._output = output
        self._ancestor = ancestor
        self._user = None if user is None else user.uid

    async def __aenter__(self) -> Self:
        """Raises OSError."""
        receiving, self._sending = os.pipe()
        self._reading = asyncio.create_task(_read(receiving, self._output))
        return self

    async def run(self, command: Sequence[str]) -> int:
        """Runs one command in a session of its own; returns its exit code, negative for a signal.

        Raises TaskException; OSError when its output cannot be kept.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=self._sending,
                stderr=self._sending,
                cwd=self._folder,
                env=self._env,
                start_new_session=True,
            )
        except OSError as problem:
            other = "resource-unavailable" if is_shortage(problem) else "internal-error"
            reason = "malformed-payload" if problem.errno in _TASKS_FAULT else other
            raise TaskException(reason, f"{command[0]} could not be started: {problem.strerror}") from None
        ending = asyncio.create_task(process.wait())
        await asyncio.wait((ending, self._reading), return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            self._reading.result()
        return await ending

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Raises OSError when the last output could not be kept."""
        os.close(self._sending)
        for _ in range(int(END_SECONDS / PAUSE)):
            if self._kill() == 0:
                break
            await asyncio.sleep(PAUSE)
        # The output ends when no process is left that could write to it.
        await asyncio.wait([self._reading], timeout=END_SECONDS)
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading

    def _kill(self) -> int:
        """Kills all processes of the task but this one; how many there were."""
        if self._user is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # at once, so that none can start another one meanwhile
        return send(signal.SIGKILL, self._ancestor, self._user, spared=os.getpid())


async def _read(pipe: int, output: Callable[[bytes], object]) -> None:
    """Passes on all that comes through a pipe."""
    reader = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", buffering=0)
    )
    try:
        while chunk := await reader.read(CHUNK):
            output(chunk)
    finally:
        transport.close()
