"""Messages between the worker, its guard, and the process that works on a task: a line of JSON each, over a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import aiohttp

from worker.text import shown

log = logging.getLogger("worker")

Message = dict[str, Any]
T = TypeVar("T")

LONGEST_OF_TASK = 128 << 10
"""Bytes of a message that the worker takes from a task's process."""
LONGEST_OF_WORKER = 64 << 20
"""Bytes of one that the worker sends: the first one has the task's definition."""
TRIES = 5


class Channel:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.close = writer.close

    @classmethod
    async def over(cls, connection: socket.socket, longest: int) -> Self:
        """A channel over a connected socket, which is closed with it. `longest`: bytes of a message that is taken."""
        return cls(*await asyncio.open_connection(sock=connection, limit=longest))

    async def receive(self) -> Message:
        """The next message. Raises EOFError; ValueError, RecursionError for what is none, or too long."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            line = b""
        if not line.endswith(b"\n"):
            raise EOFError
        if not isinstance(message := json.loads(line), dict):
            raise ValueError("no object")
        return message

    async def send(self, message: Message) -> None:
        """Sends a message, or nothing where the other end is gone."""
        self._writer.write(json.dumps(message).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()


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
        self._channel = channel
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._count = 0

    async def begin(self) -> Message:
        """The first message."""
        first = await self._channel.receive()
        self._receiving = asyncio.create_task(self._receive())
        return first

    async def tell(self, do: str, **what: Any) -> None:
        """Tells the worker something (run.py)."""
        await self._channel.send({"do": do, **what})

    async def ask(self, do: str, **what: Any) -> Any:
        """The worker's answer. Raises Refused, Unreached."""
        self._count += 1
        number = self._count
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self.tell(do, id=number, **what)
        try:
            found = await answer
        finally:
            del self._waiting[number]
        if "refused" in found:
            raise Refused(*found["refused"])
        if "unreached" in found:
            raise Unreached(found["unreached"])
        return found["done"]

    async def _receive(self) -> None:
        try:
            while message := await self._channel.receive():
                if (waiting := self._waiting.get(message["id"])) is not None and not waiting.done():
                    waiting.set_result(message)
        finally:
            os._exit(1)  # the worker is gone: nothing that is done from now on would count


@dataclass(frozen=True)
class Context:
    """What all needs that is done for a task."""

    folder: Path
    expires: str
    """When the task does."""
    worker: Asking
    session: aiohttp.ClientSession
    say: Callable[[str], None]
    """Adds lines to the task's log."""


async def persist(what: str, call: Callable[[], Awaitable[T]], tries: int = TRIES) -> T:
    """The result of a call that is repeated while the queue or the storage cannot be reached.

    Raises Unreached when that does not pass; what else the call raises.
    """
    problem = ""
    for attempt in range(tries):
        if attempt:
            await asyncio.sleep(2**attempt / 4)
        try:
            return await call()
        except (Unreached, aiohttp.ClientError, TimeoutError) as trouble:
            problem = shown(trouble)
            log.warning("%s failed: %s", what, problem)
    raise Unreached(f"{what} failed: {problem}")
