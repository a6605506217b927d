"""The worker's end of the guard (guard.py), which starts the processes that a task is worked on in (runner.py)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import socket
import sys
from collections.abc import Mapping
from multiprocessing import Pipe
from multiprocessing.reduction import send_handle
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any, Self

from worker.options import Options

_CODE = "import sys; sys.path.append(sys.argv[1]); from worker.guard import main; main()"
COMMAND = (sys.executable, "-I", "-W", "ignore", "-X", "utf8", "-c", _CODE, str(Path(__file__).parents[1]))
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "TASKCLUSTER_WORKER_LOCATION", "TASKCLUSTER_INSTANCE_TYPE")
"""What the guard, and so a command, sees of the worker's environment, which may have the token."""
PATIENCE = 10.0
"""Seconds for which the guard may say nothing after a task was to end."""
MOST_SECONDS = 600.0
"""How long the guard may take for anything: a task may have left millions of files."""
END_SECONDS = 4.0
"""How long the worker waits for it at its own end."""


class GuardLost(Exception):
    """The guard has ended, or does not answer: nobody knows what is left of a task."""


class Guard:
    """Orders to the guard. It is started once, and ends with the worker."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._control, its_end = Pipe()
        with its_end:
            pipes: dict[str, Any] = {"stdin": its_end.fileno(), "stdout": DEVNULL}
            known = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
            self._process = Popen(COMMAND, env=known, cwd="/", start_new_session=True, **pipes)  # noqa: S603

    @property
    def is_lost(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    async def __aenter__(self) -> Self:
        """Raises OSError where the work directory cannot be used, or tasks cannot have their user; GuardLost."""
        await self._order("start", dataclasses.replace(self._options, credentials={}))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Has it end. It goes on alone if it takes longer."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._control.fileno())) as control:
            control.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for an answer
        self._control.close()
        with contextlib.suppress(TimeoutExpired):
            await asyncio.to_thread(self._process.wait, END_SECONDS)

    async def begin(self, run: str, caches: Mapping[str, str]) -> socket.socket:
        """Starts a process for a part of a run, with caches at their places; a connection to it. Raises OSError,
        GuardLost."""
        mine, its = socket.socketpair()
        try:
            with its:
                await self._order("begin", run, caches, connection=its)
        except BaseException:
            mine.close()
            raise
        return mine

    async def stop(self, seconds: float) -> int | None:
        """Ends all processes of the task; how the one that works on it has ended. Raises GuardLost."""
        how: int | None = await self._order("stop", seconds, within=seconds + PATIENCE)
        return how

    async def end(self, *, filled: bool, purged: bool) -> list[str]:
        """Puts everything back, caches as WorkDirectory.put_back says; what is not as it was. Raises GuardLost."""
        left: list[str] = await self._order("end", filled, purged)
        return left

    async def _order(self, *order: Any, connection: socket.socket | None = None, within: float = MOST_SECONDS) -> Any:
        """The answer. Raises OSError for what the guard lacks; GuardLost, also where it takes longer: a task of the
        worker's own user may have suspended it."""

        def ask() -> dict[str, Any]:
            self._control.send(order)
            if connection is not None:
                send_handle(self._control, connection.fileno(), None)
            answer: dict[str, Any] = json.loads(self._control.recv_bytes())
            return answer

        try:
            async with asyncio.timeout(within):
                answer = await asyncio.to_thread(ask)
        except (OSError, EOFError):
            self._process.kill()
            raise GuardLost("its guard has ended, or does not answer") from None
        if "problem" in answer:
            raise OSError(answer["problem"])
        return answer["done"]
