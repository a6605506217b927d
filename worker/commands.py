"""Runs a task's commands, and ends what they have started."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from worker import processes
from worker.users import User, is_shortage

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


class SpawnError(Exception):
    """The command could not be started. `reason` is the one to report (contract 4.3)."""

    def __init__(self, problem: OSError) -> None:
        super().__init__(problem.strerror)
        other = "resource-unavailable" if is_shortage(problem) else "internal-error"
        self.reason = "malformed-payload" if problem.errno in _TASKS_FAULT else other


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

        Raises SpawnError; OSError when its output cannot be kept.
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
            raise SpawnError(problem) from None
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
        return processes.send(signal.SIGKILL, self._ancestor, self._user, spared=os.getpid())


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
