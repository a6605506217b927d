"""Runs a task's commands; finds and ends the processes of a task: those that descend from a process, and, where tasks
have a user, its own.

On Linux processes that leave their group and session are found as well; elsewhere a daemon is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # comes without types

from worker.log import LogStore
from worker.messages import TaskException
from worker.users import User, is_shortage

CHUNK = 256 * 1024
END_SECONDS = 5.0
"""How long processes may take to be gone once they are killed, and their last output to arrive."""
PAUSE = 0.01
_TASKS_FAULT = {errno.E2BIG, errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOEXEC}
_TASKS_FAULT |= {errno.ENOTDIR}


def send(number: int, ancestor: int, user: int | None, *, spared: int = 0) -> int:
    """Sends a signal to every process below one, parents first, and of a user, but not to one that is spared; how many
    there were."""
    children, own, below = defaultdict[int, list[int]](list), list[int](), [ancestor]
    for each in psutil.process_iter(["ppid", "status", "uids"]):
        if each.info["status"] not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            children[each.info["ppid"]].append(each.pid)
            own += [each.pid] if user in (each.info["uids"] or ()) else []
    for pid in below:  # which grows
        below += children[pid]
    found = [pid for pid in dict.fromkeys([*below, *own]) if pid not in (ancestor, spared)]
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return len(found)


async def run(
    commands: Sequence[Sequence[str]],
    folder: Path,
    env: Mapping[str, str],
    store: LogStore,
    *,
    ancestor: int,
    user: User | None,
) -> int:
    """Runs commands, one after the other until one fails; the last exit code, negative for a signal. Then nothing that
    they have started is left.

    `ancestor`: the process that all of the task descend from, this one included, and no others. `user`: the one that
    this process runs as, if nobody else does. Raises TaskException; OSError when the output cannot be kept.
    """
    receiving, sending = os.pipe()
    reading, code = asyncio.create_task(_read(receiving, store)), 0
    try:
        for number, command in enumerate(commands, start=1):
            if len(commands) > 1:
                store.say(f"Command {number} of {len(commands)}")
            ending = asyncio.create_task((await _start(command, folder, env, sending)).wait())
            await asyncio.wait((ending, reading), return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                reading.result()
            if (code := await ending) != 0:
                break
    finally:
        os.close(sending)
        for _ in range(int(END_SECONDS / PAUSE)):
            if user is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGKILL)  # at once, so that none can start another one meanwhile
            if send(signal.SIGKILL, ancestor, None if user is None else user.uid, spared=os.getpid()) == 0:
                break
            await asyncio.sleep(PAUSE)
        # The output ends when no process is left that could write to it.
        await asyncio.wait([reading], timeout=END_SECONDS)
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
    return code


async def _start(command: Sequence[str], folder: Path, env: Mapping[str, str], output: int) -> Process:
    """Starts a command in a session of its own. Raises TaskException."""
    outputs: dict[str, Any] = {"stdin": DEVNULL, "stdout": output, "stderr": output}
    try:
        return await create_subprocess_exec(*command, cwd=folder, env=env, start_new_session=True, **outputs)
    except OSError as problem:
        other = "resource-unavailable" if is_shortage(problem) else "internal-error"
        reason = "malformed-payload" if problem.errno in _TASKS_FAULT else other
        raise TaskException(reason, f"{command[0]} could not be started: {problem.strerror}") from None


async def _read(pipe: int, store: LogStore) -> None:
    """Writes down all that comes through a pipe."""
    reader = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", buffering=0)
    )
    try:
        while chunk := await reader.read(CHUNK):
            store.write(chunk)
    finally:
        transport.close()
