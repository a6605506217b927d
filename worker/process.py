"""Runs a task's commands, with a guard that ends whatever they have started."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from worker.patience import to_the_end
from worker.shortage import SHORTAGES
from worker.users import User

GUARD_COMMAND = (sys.executable, "-I", "-S", "-W", "ignore", "-X", "utf8", str(Path(__file__).with_name("guard.py")))
CHUNK = 256 * 1024
END_SECONDS = 5.0
"""How long the guard may take to end the task's processes, and their last output to arrive."""

_TASKS_FAULT = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG, errno.EISDIR})


class SpawnError(Exception):
    """The command could not be started. `reason` is the one to report (contract 4.3)."""

    def __init__(self, number: int | None) -> None:
        super().__init__(os.strerror(number) if number else "no reason given")
        if number in _TASKS_FAULT:
            self.reason = "malformed-payload"
        elif number in SHORTAGES:
            self.reason = "resource-unavailable"
        else:
            self.reason = "internal-error"


class Processes:
    """The processes of one task, as a context: none is left when it has been exited."""

    def __init__(
        self,
        *,
        folder: Path,
        env: Mapping[str, str],
        output: Callable[[bytes], object],
        grace: float,
        user: User | None = None,
        locks: Sequence[int] = (),
    ) -> None:
        """`output` is given all that the commands print. `grace`: seconds from SIGTERM to SIGKILL at an early end.

        `locks`: descriptors that the guard holds as well, until no process of the task is left.
        """
        self._folder = folder
        self._env = env
        self._output = output
        self._grace = grace
        self._user = user
        self._locks = locks
        self._is_running = False

    async def __aenter__(self) -> Self:
        """Raises SpawnError."""
        receiving, sending = os.pipe()
        try:
            self._guard = await asyncio.create_subprocess_exec(
                *GUARD_COMMAND,
                cwd="/",
                env={},  # the task's may name libraries to load, and the guard may be root
                pass_fds=self._locks,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=sending,
                start_new_session=True,
            )
        except BaseException as error:
            os.close(receiving)
            if isinstance(error, OSError):
                raise SpawnError(error.errno) from None
            raise
        finally:
            os.close(sending)
        self._reading = asyncio.create_task(_read(receiving, self._output))
        return self

    async def run(self, command: Sequence[str]) -> int:
        """Runs one command; returns its exit code, negative for a signal.

        Raises SpawnError; OSError when its output cannot be kept.
        """
        assert self._guard.stdout is not None, "it was asked for"
        self._is_running = True
        order = {"run": list(command), "env": dict(self._env), "folder": str(self._folder)}
        await self._order(order if self._user is None else {**order, "user": self._user.of_process()})
        answering = asyncio.create_task(self._guard.stdout.readline())
        try:
            await asyncio.wait((answering, self._reading), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                self._reading.result()
            line = await answering
        finally:
            answering.cancel()
        self._is_running = False
        outcome = json.loads(line or b"{}")  # nothing: the command has killed its guard
        if "errno" in outcome:
            raise SpawnError(outcome["errno"])
        return int(outcome.get("exitCode", -signal.SIGKILL))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends all processes, however often this is cancelled: the next task gets their user and their folders.

        Raises OSError when the last output could not be kept.
        """
        await to_the_end(self._end())
        if error is None and not self._reading.cancelled() and (problem := self._reading.exception()) is not None:
            raise problem

    async def _order(self, order: Mapping[str, Any]) -> None:
        assert self._guard.stdin is not None, "it was asked for"
        with contextlib.suppress(ConnectionError):
            self._guard.stdin.write(json.dumps(order).encode() + b"\n")
            await self._guard.stdin.drain()

    async def _end(self) -> None:
        """SIGTERM and a grace period for a command that still runs; then everything is killed."""
        assert self._guard.stdin is not None and self._guard.stdout is not None, "they were asked for"
        if self._is_running:
            await self._order({"signal": int(signal.SIGTERM)})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._guard.stdout.readline(), self._grace)
        self._guard.stdin.close()
        if self._user is None:  # a task of the same user may have suspended the guard
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._guard.wait(), END_SECONDS)
            if self._guard.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._guard.pid, signal.SIGKILL)
        await self._guard.wait()
        # The output ends when no process is left that could write to it. Processes that have escaped are not waited
        # for.
        await asyncio.wait([self._reading], timeout=END_SECONDS)
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


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
