"""What all needs that is done for a task, in a process of its own (runner.py): its folder, its log, calls to the queue.

That process and the worker talk over a socket, by a line of JSON each. It has no credentials: it makes each call
itself, and the worker signs it (claim.py).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from taskcluster.aio import Queue
from taskcluster.exceptions import TaskclusterAuthFailure, TaskclusterConnectionError, TaskclusterRestFailure

from worker.options import Options
from worker.text import log, shown

Json = dict[str, Any]
T = TypeVar("T")

TROUBLE = (TaskclusterConnectionError, aiohttp.ClientError, TimeoutError)
"""The service or the storage could not be reached, or has failed: it may pass."""
REFUSED = (TaskclusterRestFailure, TaskclusterAuthFailure)
"""The service has answered 4xx, or the worker does not sign the call: the same one will not succeed."""
CACHE_SCOPE = "generic-worker:cache:"
NEVER = datetime.min.replace(tzinfo=UTC)
FRESH = 0.75
"""Share of their life for which URLs are used."""
TRIES = 9
"""Of what a task needs: some two minutes."""


class TaskException(Exception):
    """The run cannot be brought to an end: the outcome to report (contract 4.3), and what to write to the log."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Asking:
    """The end of a task's process. The worker answers at once, so nothing else is done meanwhile."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = connection.makefile("rwb")

    def receive(self) -> Any:
        """Returns the next message. Raises EOFError where the worker is gone: nothing that is done then counts."""
        if not (line := self._stream.readline()):
            raise EOFError
        return json.loads(line)

    def tell(self, message: Json) -> None:
        """Tells the worker something (run.py)."""
        self._stream.write(json.dumps(message).encode() + b"\n")
        self._stream.flush()

    def ask(self, do: str, **what: str) -> str:
        """Asks the worker to sign (`sign`, `bewit`), and returns its answer. Raises REFUSED."""
        self.tell({"do": do, **what})
        answer = self.receive()
        if "refused" in answer:
            raise TaskclusterRestFailure(answer["refused"], None, HTTPStatus.BAD_REQUEST)
        return str(answer["done"])

    async def sign(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Signs each call of a session, as its middleware."""
        content_type = request.headers.get("Content-Type", "")
        signed = {"method": request.method, "url": str(request.url), "contentType": content_type}
        request.headers["Authorization"] = self.ask("sign", **signed)
        return await handler(request)


@dataclass(frozen=True)
class Context:
    """A task, and what is there for it."""

    begin: Json
    """What the worker has said of the run (run.py)."""
    folder: Path
    caches: Mapping[str, bool | str]
    """Of each whether it is new, or why it is not there."""
    options: Options
    """The worker's, without its credentials."""
    worker: Asking
    calls: aiohttp.ClientSession
    """Has calls signed, for the task's scopes."""
    session: aiohttp.ClientSession
    """For content, by URLs that are signed already, or need not be."""
    say: Callable[[str], None]
    """Adds lines to the task's log."""

    def client(self, service: Callable[..., Any]) -> Any:
        """Returns a client of a service, which tries each call once."""
        return service({"rootUrl": self.options.root_url, "maxRetries": 0}, session=self.calls)

    async def create(self, name: str, **request: Any) -> Any:
        """Calls createArtifact (contract 7), to expire with the task by default. Raises REFUSED, TROUBLE."""
        begin, request = self.begin, {"expires": self.begin["task"]["expires"], **request}
        return await self.client(Queue).createArtifact(begin["taskId"], str(begin["runId"]), name, request)


def may_mount(scopes: Sequence[str], cache: str) -> bool:
    """Returns whether a task with these scopes may have a cache."""
    needed = CACHE_SCOPE + cache
    return any(needed.startswith(scope[:-1]) if scope.endswith("*") else scope == needed for scope in scopes)


def use_until(expires: str) -> datetime:
    """Returns until when to use URLs that end then: new ones are asked for while the old ones still work."""
    now = datetime.now(UTC)
    return now + (datetime.fromisoformat(expires) - now) * FRESH


def pauses(longest: float) -> Iterator[float]:
    """Yields seconds that double from 1 up to `longest`, with jitter so that workers do not come all at once."""
    pause = min(1.0, longest)
    while True:
        yield pause * random.uniform(0.5, 1)  # noqa: S311 - jitter
        pause = min(2 * pause, longest)


async def insist(what: str, call: Callable[[], Awaitable[T]], tries: int = sys.maxsize) -> T:
    """Returns the result of a call, repeated while it meets TROUBLE, by default for ever: the caller bounds the time by
    cancelling. Raises what the last try does, and REFUSED."""
    for pause in itertools.islice(pauses(longest=30), tries - 1):
        try:
            return await call()
        except TROUBLE as trouble:
            log.warning("%s has failed, trying again: %s", what, shown(trouble))
        await asyncio.sleep(pause)
    return await call()
