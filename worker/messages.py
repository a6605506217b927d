"""Messages between the worker and the process that works on a task: a line of JSON each, over a socket."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any, Self

Message = dict[str, Any]

LONGEST_OF_TASK = 128 << 10
"""Bytes of a message that the worker takes from a task's process."""
LONGEST_OF_WORKER = 64 << 20
"""Bytes of one that the worker sends: the first one has the task's definition."""


class Channel:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, connection: socket.socket, longest: int) -> Self:
        """A channel over a connected socket, which is closed with it. `longest`: bytes of a message that is taken."""
        return cls(*await asyncio.open_connection(sock=connection, limit=longest))

    async def receive(self) -> Message | None:
        """The next message; None at the end. Raises ValueError, RecursionError for what is none, or too long."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        message = json.loads(line) if line.endswith(b"\n") else None
        if message is not None and not isinstance(message, dict):
            raise ValueError("no object")
        return message

    async def send(self, message: Message) -> None:
        """Sends a message, or nothing where the other end is gone."""
        try:
            self._writer.write(json.dumps(message).encode() + b"\n")
            await self._writer.drain()
        except ConnectionError:
            return

    def close(self) -> None:
        """Ends the connection."""
        self._writer.close()


class Refused(Exception):
    """The queue, or the worker, does not do what was asked for. `status`: that of the queue's answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unreached(Exception):
    """The queue or the storage could not be reached: it may be later."""


class TaskException(Exception):
    """The run cannot be brought to an end: the reason to report (contract 4.3), and what to write to the log."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Asking:
    """The end of a task's process: it asks the worker for what takes credentials (claim.py), and tells it how it is."""

    def __init__(self, channel: Channel) -> None:
        self.tell = channel.send
        self._channel = channel
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._count = 0

    async def begin(self) -> Message:
        """The first message."""
        first = await self._channel.receive()
        self._receiving = asyncio.create_task(self._receive())
        return first or {}

    async def ask(self, do: str, **what: Any) -> Any:
        """The worker's answer. Raises Refused, Unreached."""
        self._count += 1
        number, answer = self._count, asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        await self.tell({"do": do, "id": number, **what})
        try:
            found = await answer
        finally:
            del self._waiting[number]
        if "refused" in found:
            raise Refused(*found["refused"])
        if "unreached" in found:
            raise Unreached(found["unreached"])
        return found["done"]

    async def insist(self, do: str, **what: Any) -> Any:
        """As `ask`, again and again until the queue can be reached."""
        while True:
            try:
                return await self.ask(do, **what)
            except Unreached:
                await asyncio.sleep(2)

    async def _receive(self) -> None:
        while (message := await self._channel.receive()) is not None:
            if (waiting := self._waiting.get(message["id"])) is not None and not waiting.done():
                waiting.set_result(message)
        os._exit(1)  # the worker is gone: nothing that is done from now on would count
