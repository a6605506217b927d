"""Runs a task's command in a process group of its own, and kills that group as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

GUARD = Path(__file__).with_name("guard.py")

_TASKS_FAULT = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG, errno.EISDIR})
_SHORTAGE = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC})


class SpawnError(Exception):
    """The command could not be started. `reason` is the one to report (contract 4.3)."""

    def __init__(self, number: int | None) -> None:
        super().__init__(os.strerror(number) if number else "no reason given")
        if number in _TASKS_FAULT:
            self.reason = "malformed-payload"
        elif number in _SHORTAGE:
            self.reason = "resource-unavailable"
        else:
            self.reason = "internal-error"


class TimedOut(Exception):
    """The command ran for longer than it may."""


async def execute(
    command: Sequence[str], *, folder: Path, env: Mapping[str, str], log: Path, seconds: float | None
) -> int:
    """Runs the command in the folder, its output added to the log; returns its exit code, negative for a signal.

    When this returns, raises or is cancelled, no process of the group is left.
    Raises SpawnError; TimedOut after so many seconds.
    """
    arguments = [sys.executable, "-I", "-S", str(GUARD), *command]
    with log.open("ab") as output:
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                cwd=folder,
                env=dict(env),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise SpawnError(error.errno) from None
    try:
        async with asyncio.timeout(seconds):
            assert process.stdout is not None, "it was asked for"
            line = await process.stdout.readline()
    except TimeoutError:
        raise TimedOut from None
    finally:
        await asyncio.shield(_end(process))
    outcome = json.loads(line or b"{}")  # nothing: the command has killed its own group
    if "errno" in outcome:
        raise SpawnError(outcome["errno"])
    return int(outcome.get("exitCode", -signal.SIGKILL))


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:  # the guard lives on until it is killed, so its id is still the group's
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
