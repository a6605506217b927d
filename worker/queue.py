"""The public client, with what workers need besides: the poll draft's endpoint, patience, kinds of failure."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import aiohttp
import taskcluster.aio
from taskcluster.exceptions import TaskclusterAuthFailure, TaskclusterConnectionError, TaskclusterRestFailure

from worker.text import shown

log = logging.getLogger("worker")

Json = dict[str, Any]
T = TypeVar("T")

TROUBLE = (TaskclusterConnectionError, aiohttp.ClientError, TimeoutError)
"""The service could not be reached or returned 5xx, also after the client's own retries: it may pass."""
REFUSED = (TaskclusterRestFailure, TaskclusterAuthFailure)
"""The service returned 4xx: the same call will not succeed."""

CONNECTIONS = 32
REQUEST_SECONDS = 60
"""Longer than the 20 s that claimWork waits."""


class BackOff:
    """Pauses in seconds that double from 1 up to `longest`, with jitter so that workers do not come all at once."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self.reset()

    def reset(self) -> None:
        """The next pause is short again."""
        self._pause = min(1.0, self._longest)

    def next(self) -> float:
        """The next pause."""
        pause, self._pause = self._pause, min(2 * self._pause, self._longest)
        return pause * random.uniform(0.5, 1)  # noqa: S311 - jitter


class Queue(taskcluster.aio.Queue):  # type: ignore[misc]  # the public client has no type hints
    """The queue, and pollTaskUrls, which today's public client does not know."""

    async def pollTaskUrls(self, provisioner_id: str, worker_type: str) -> Json:  # noqa: N802 - as its neighbours
        """Signed URLs of a task queue's pending queues (contract 15.3)."""
        answer: Json = await self._makeApiCall(_POLL_TASK_URLS, provisioner_id, worker_type)
        return answer


_POLL_TASK_URLS = {
    "name": "pollTaskUrls",
    "method": "get",
    "route": "/poll-task-url/<provisionerId>/<workerType>",
    "args": ["provisionerId", "workerType"],
    "stability": "deprecated",
}


class Advice:
    """The pause for which the service asks with Retry-After, in its latest answer about work."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def take(self) -> float:
        """The pause in seconds; 0 if the service asked for none since the last call of this."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def trace(self) -> aiohttp.TraceConfig:
        """Reads the header off every answer, since the client does not hand headers out."""
        config = aiohttp.TraceConfig()
        config.on_request_end.append(self._read)
        return config

    async def _read(self, session: object, context: object, end: aiohttp.TraceRequestEndParams) -> None:
        if any(word in end.url.raw_path for word in ("/claim-work/", "/poll-task-url/")):
            text = end.response.headers.get("Retry-After", "0")
            self._seconds = float(text) if text.isdecimal() else 0.0


def open_session(advice: Advice | None = None) -> aiohttp.ClientSession:
    """A connection pool for all clients of the worker. What tasks transfer themselves is not among it."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS),
        timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        trace_configs=[] if advice is None else [advice.trace()],
    )


def connect(root_url: str, credentials: Mapping[str, str], session: aiohttp.ClientSession) -> Queue:
    """A client with these credentials."""
    return Queue({"rootUrl": root_url, "credentials": dict(credentials)}, session=session)


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Makes the call until the service takes or refuses it. The caller bounds the time by cancelling."""
    pause = BackOff(longest=30)
    while True:
        try:
            return await call()
        except TROUBLE as trouble:
            log.warning("the service is not available, trying again: %s", shown(trouble))
        await asyncio.sleep(pause.next())
