"""The public client with what workers need besides, and where claims come from: signed URLs of Azure queues, or
claimWork alone.

By signed URLs (the poll draft) the worker looks into the queues itself, so that an idle one costs the service nothing:
GET the poll URL of one priority after the other, look for `<MessageId>` in the answer, and hand the answer as it is to
claimWork, which knows what to make of it. Nothing is parsed or deleted here.

By claimWork the queue looks for work, and returns after 20 s if there is none; earlier, without a claim, when there is
work: that goes to those who call then.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import aiohttp
import taskcluster.aio
from taskcluster.exceptions import TaskclusterAuthFailure, TaskclusterConnectionError, TaskclusterRestFailure
from yarl import URL

from worker.options import Options
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
MARKER = "<MessageId>"
HOLD_SECONDS = 30
"""How long a message is handed in again when the service does not answer: it stays hidden from others meanwhile."""
FRESH = 0.75
"""Share of their life for which the URLs are used: new ones are asked for while the old ones still work."""
SHORT = 1.0
"""Seconds from one claimWork to the next at least, where the queue asks for no longer pause."""


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


async def _claim_work(queue: Queue, options: Options, **more: str) -> Json | None:
    request = {"workerGroup": options.worker_group, "workerId": options.worker_id, "tasks": 1, **more}
    claims: list[Json] = (await queue.claimWork(options.task_queue_id, request))["tasks"]
    return claims[0] if claims else None


class SignedUrls:
    """Polls the queues."""

    def __init__(self, queue: Queue, session: aiohttp.ClientSession, advice: Advice, options: Options) -> None:
        self._queue = queue
        self._session = session
        self._advice = advice
        self._options = options
        self._idle = BackOff(longest=options.idle_seconds)
        self._urls: list[str] = []
        self._fresh_until = datetime.min.replace(tzinfo=UTC)

    async def claim(self) -> Json | None:
        """One look at every priority, the highest first, until there is a message.

        None when there is no work now. Raises what the client raises.
        """
        if datetime.now(UTC) >= self._fresh_until:
            await self._renew_urls()
        for url in self._urls:
            async with self._session.get(URL(f"{url}&numofmessages=1", encoded=True)) as answer:
                if answer.status in (401, 403):
                    log.info("a poll URL is not taken any more (%s)", answer.status)
                    self._fresh_until = datetime.min.replace(tzinfo=UTC)
                    break
                answer.raise_for_status()
                found = await answer.text()
            if MARKER in found:
                async with asyncio.timeout(HOLD_SECONDS):
                    claim = await insist(lambda: _claim_work(self._queue, self._options, xmlMessage=found))  # noqa: B023
                if claim is not None:
                    self._idle.reset()
                    return claim
        return None

    def pause(self) -> float:
        """Seconds to wait before asking again, after there was no work: more and more while there is nothing to do."""
        return max(self._idle.next(), self._advice.take())

    async def _renew_urls(self) -> None:
        asked = datetime.now(UTC)
        answer = await self._queue.pollTaskUrls(*self._options.task_queue_id.split("/"))
        self._urls = [queue["signedPollUrl"] for queue in answer["queues"]]
        self._advice.take()  # drop it: that advice is about the next renewal, which is minutes away
        life = datetime.fromisoformat(answer["expires"]) - asked
        self._fresh_until = asked + max(life * FRESH, timedelta(seconds=1))


class ClaimWork:
    """Waits in claimWork."""

    def __init__(self, queue: Queue, advice: Advice, options: Options) -> None:
        self._queue = queue
        self._advice = advice
        self._options = options
        self._called = 0.0

    async def claim(self) -> Json | None:
        """One long poll; None when there is no work now. Raises what the client raises."""
        self._called = time.monotonic()
        return await _claim_work(self._queue, self._options)

    def pause(self) -> float:
        """0 after a long wait, or as many seconds as the queue advises. With jitter, so that workers do not call all at
        once."""
        waited = time.monotonic() - self._called
        return max(SHORT - waited, self._advice.take()) * random.uniform(0.5, 1)  # noqa: S311 - jitter


Source = SignedUrls | ClaimWork
"""Where claims come from."""
