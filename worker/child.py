"""The worker's end of the guard (guard.py), which starts the process that a task is worked on in (runner.py)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import socket
import sys
from pathlib import Path
from typing import Self

from worker.messages import LONGEST_OF_TASK, Channel, Message
from worker.options import Options

_CODE = "import sys; sys.path.append(sys.argv[1]); from worker.guard import main; main()"
COMMAND = (sys.executable, "-I", "-W", "ignore", "-X", "utf8", "-c", _CODE, str(Path(__file__).parents[1]))
PATIENCE = 10.0
"""Seconds for which a process may say nothing after it was to end."""
MOST_SECONDS = 600.0
"""How long the guard may take for anything: a task may have left millions of files."""


class GuardLost(Exception):
    """The guard has ended, or does not answer: nobody knows what is left of a task."""


class Guard:
    """Orders to the guard. It is started once, and ends with the worker."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket, channel: Channel) -> None:
        self._process = process
        self._control = control
        self._answers: asyncio.Queue[Message | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read(channel))
        self._turn = asyncio.Lock()
        self.ended: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        """How the process ended that works on the task; None: the guard is lost."""

    @property
    def is_lost(self) -> bool:
        """Whether it has ended."""
        return self._reading.done()

    @classmethod
    async def start(cls, options: Options) -> Self:
        """Raises OSError where the work directory cannot be used, or tasks cannot have their user."""
        mine, its = socket.socketpair()
        with its:  # its environment is empty: the worker's has the token
            process = await asyncio.create_subprocess_exec(
                *COMMAND, stdin=its.fileno(), stdout=asyncio.subprocess.DEVNULL, env={}, cwd="/", start_new_session=True
            )
        mine.setblocking(False)
        guard = cls(process, mine, await Channel.over(mine.dup(), LONGEST_OF_TASK))
        user = None if options.task_user is None else dataclasses.asdict(options.task_user)
        try:
            answer = await guard._order({"work": str(options.work_dir), "user": user, "keepFree": options.keep_free})
        except GuardLost:
            raise OSError("its guard cannot be started") from None
        if "refused" in answer:
            raise OSError(answer["refused"])
        return guard

    async def begin(self, order: Message) -> tuple[Channel, Message]:
        """Starts the process that works on a task, or one that goes on with the log of the last task (guard.py).

        A connection to it, and what the guard has answered. Raises OSError, GuardLost.
        """
        self.ended = asyncio.get_running_loop().create_future()
        mine, its = socket.socketpair()
        channel = await Channel.over(mine, LONGEST_OF_TASK)
        try:
            with its:
                answer = await self._order(order, its)
            if "errno" in answer:
                raise OSError(answer["errno"], answer["problem"])
        except BaseException:
            channel.close()
            raise
        return channel, answer

    def tell(self, what: str) -> None:
        """That caches are `filled`, or to `purge`. Raises GuardLost."""
        self._send({what: True})

    async def stop(self, seconds: float) -> None:
        """Ends all processes of the task, by force after so many seconds. Raises GuardLost."""
        try:
            await asyncio.wait_for(self._order({"stop": seconds}), seconds + PATIENCE)
        except TimeoutError:  # a task of the worker's own user may have suspended it
            self._process.kill()
            raise GuardLost from None

    async def end(self) -> list[str]:
        """Ends all processes of the task, and puts everything back; what is not as it was before. Raises GuardLost."""
        left: list[str] = (await self._order({"end": True}))["left"]
        return left

    async def close(self) -> None:
        """Has the guard end."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 5)
        self._reading.cancel()

    async def _order(self, order: Message, connection: socket.socket | None = None) -> Message:
        """The answer to an order. It is waited for though the caller is cancelled, since answers have no names."""
        return await asyncio.shield(asyncio.create_task(self._ordered(order, connection)))

    async def _ordered(self, order: Message, connection: socket.socket | None) -> Message:
        async with self._turn:
            self._send(order, connection)
            try:
                answer = await asyncio.wait_for(self._answers.get(), MOST_SECONDS)
            except TimeoutError:
                raise GuardLost from None
        if answer is None:
            raise GuardLost
        return answer

    def _send(self, order: Message, connection: socket.socket | None = None) -> None:
        line = json.dumps(order).encode() + b"\n"
        try:
            # Orders are short and few: a guard that takes no more of them hangs.
            sent = socket.send_fds(self._control, [line], [] if connection is None else [connection.fileno()])
        except OSError:
            sent = 0
        if sent != len(line):
            raise GuardLost

    async def _read(self, channel: Channel) -> None:
        while (message := await channel.receive()) is not None:
            if "ended" in message:
                self._end(message["ended"])
            else:
                self._answers.put_nowait(message)
        self._end(None)
        self._answers.put_nowait(None)

    def _end(self, how: int | None) -> None:
        if not self.ended.done():
            self.ended.set_result(how)
