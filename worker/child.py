"""The worker's end of the guard (guard.py), which starts the process that a task is worked on in (runner.py)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from pathlib import Path
from typing import Self

from worker.messages import LONGEST_OF_TASK, LONGEST_OF_WORKER, Channel, Message
from worker.options import Options

_CODE = "import sys; sys.path.append(sys.argv[1]); from worker.guard import main; main(sys.argv[2])"
COMMAND = (sys.executable, "-I", "-W", "ignore", "-X", "utf8", "-c", _CODE, str(Path(__file__).parents[1]))
PATIENCE = 10.0
"""Seconds for which the guard may say nothing after a task was to end."""
MOST_SECONDS = 600.0
"""How long the guard may take for anything: a task may have left millions of files."""


class GuardLost(Exception):
    """The guard has ended, or does not answer: nobody knows what is left of a task."""


class Guard:
    """Orders to the guard. It is started once, and ends with the worker."""

    def __init__(self, process: Process, control: socket.socket, answers: Channel) -> None:
        self._process = process
        self._control = control
        self._answers = answers
        self._turn = asyncio.Lock()

    @property
    def is_lost(self) -> bool:
        """Whether it has ended."""
        return self._process.returncode is not None

    @classmethod
    async def start(cls, options: Options) -> Self:
        """Raises OSError where the work directory cannot be used, or tasks cannot have their user."""
        mine, its = socket.socketpair()
        mine.setblocking(False)
        user = None if options.task_user is None else options.task_user.name
        given = json.dumps({"work": str(options.work_dir), "user": user, "keepFree": options.keep_free})
        with its:  # its environment is empty: the worker's has the token
            pipes: Message = {"stdin": its.fileno(), "stdout": DEVNULL}
            process = await create_subprocess_exec(*COMMAND, given, env={}, cwd="/", start_new_session=True, **pipes)
        guard = cls(process, mine, await Channel.over(mine.dup(), LONGEST_OF_WORKER))
        try:
            first = await guard._answers.receive()
        except EOFError:
            raise OSError("its guard cannot be started") from None
        if "refused" in first:
            raise OSError(first["refused"])
        return guard

    async def begin(self, order: Message) -> tuple[Channel, Message]:
        """Starts the process that works on a task, or one that goes on with the log of the last task (guard.py).

        A connection to it, and what the guard has answered. Raises OSError, GuardLost.
        """
        mine, its = socket.socketpair()
        channel = await Channel.over(mine, LONGEST_OF_TASK)
        try:
            with its:
                answer = await self.order(order, its)
            if "errno" in answer:
                raise OSError(answer["errno"], answer["problem"])
        except BaseException:
            channel.close()
            raise
        return channel, answer

    async def stop(self, seconds: float) -> int | None:
        """Ends all processes of the task, by force after so many seconds.

        How the one ended that works on it, as an exit code; None: there was none. Raises GuardLost.
        """
        how: int | None = (await self.order({"stop": seconds}, seconds=seconds + PATIENCE))["how"]
        return how

    async def end(self) -> list[str]:
        """Ends all processes of the task, and puts everything back; what is not as it was before. Raises GuardLost."""
        left: list[str] = (await self.order({"end": True}))["left"]
        return left

    async def close(self) -> None:
        """Has the guard end."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        self._answers.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 5)

    async def order(
        self, order: Message, connection: socket.socket | None = None, *, seconds: float = MOST_SECONDS
    ) -> Message:
        """The answer to an order. It is waited for though the caller is cancelled, since answers have no names.

        Raises GuardLost, also where the guard takes longer: a task of the worker's own user may have suspended it.
        """
        return await asyncio.shield(self._ordered(order, connection, seconds))

    async def _ordered(self, order: Message, connection: socket.socket | None, seconds: float) -> Message:
        line, files = json.dumps(order).encode() + b"\n", [] if connection is None else [connection.fileno()]
        async with self._turn:
            try:
                async with asyncio.timeout(seconds):
                    sent = socket.send_fds(self._control, [line], files)
                    await asyncio.get_running_loop().sock_sendall(self._control, line[sent:])
                    return await self._answers.receive()
            except (OSError, EOFError):
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                raise GuardLost from None
