"""What all needs that is done for a task, in a process of its own (runner.py): its folder, its log, calls to the queue.

That process and the worker talk over a socket, by a line of JSON each. It has no credentials: it makes each call
itself, and the worker signs it (claim.py).
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
from yarl import URL

from worker.text import shown

log = logging.getLogger("worker")

Message = dict[str, Any]
T = TypeVar("T")

TRIES = 9
CALL = aiohttp.ClientTimeout(total=60)


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
    """The end of a task's process. The worker answers at once, so nothing else is done meanwhile."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = connection.makefile("rwb")

    def receive(self) -> Message:
        """The next message. Raises EOFError where the worker is gone: nothing that is done from now on counts."""
        if not (line := self._stream.readline()):
            raise EOFError
        message: Message = json.loads(line)
        return message

    def tell(self, message: Message) -> None:
        """Tells the worker something (run.py)."""
        self._stream.write(json.dumps(message).encode() + b"\n")
        self._stream.flush()

    def ask(self, do: str, **what: str) -> str:
        """What the worker signs. Raises Refused."""
        self.tell({"do": do, **what})
        answer = self.receive()
        if "refused" in answer:
            raise Refused(HTTPStatus.BAD_REQUEST, answer["refused"])
        return str(answer["done"])


@dataclass(frozen=True)
class Context:
    """A task, and what is there for it."""

    folder: Path
    run: str
    """<taskId>/runs/<runId>, as in the URLs of its calls."""
    expires: str
    """When the task does."""
    root_url: str
    worker: Asking
    session: aiohttp.ClientSession
    say: Callable[[str], None]
    """Adds lines to the task's log."""

    async def call(self, method: str, path: str, body: Message | None = None) -> Any:
        """What the deployment answers to a call with the task's scopes. Raises Refused; Unreached, and what aiohttp
        raises, where it could not be reached."""
        url, content_type = f"{self.root_url}/api/{path}", "application/json" if body is not None else ""
        headers = {"Authorization": self.worker.ask("sign", method=method, url=url, contentType=content_type)}
        async with self.session.request(
            method, URL(url, encoded=True), json=body, headers=headers, timeout=CALL
        ) as answer:
            if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise Unreached(f"the queue answers {answer.status}")
            try:
                found = await answer.json()
                refusal = "" if answer.ok else str(found["message"])
            except (ValueError, LookupError, TypeError):
                raise Unreached(f"{answer.status}, and no answer of the queue's") from None
            if not answer.ok:
                raise Refused(answer.status, refusal)
            return found

    async def create(self, name: str, **request: Any) -> Any:
        """createArtifact (contract 7), to expire with the task by default. Raises what `call` does."""
        path = f"queue/v1/task/{self.run}/artifacts/{quote(name, safe='')}"
        return await self.call("POST", path, {"expires": self.expires, **request})


async def persist(what: str, call: Callable[[], Awaitable[T]]) -> T:
    """The result of a call that is repeated while the queue or the storage cannot be reached.

    Raises Unreached when that does not pass; what else the call raises.
    """
    problem = ""
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(2**attempt / 4)
        try:
            return await call()
        except (Unreached, aiohttp.ClientError, TimeoutError) as trouble:
            problem = shown(trouble)
            log.warning("%s failed: %s", what, problem)
    raise Unreached(f"{what} failed: {problem}")
