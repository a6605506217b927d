"""Where claims come from: signed URLs of Azure queues, or claimWork alone.

By signed URLs (the poll draft) the worker looks into the queues itself, so that an idle one costs the service nothing:
GET the poll URL of one priority after the other, look for `<MessageId>` in the answer, and hand the answer as it is to
claimWork, which knows what to make of it. Nothing is parsed or deleted here.

By claimWork the queue looks for work, and returns after 20 s if there is none; earlier, without a claim, when there is
work: that goes to those who call then.
"""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime

import aiohttp
from taskcluster.aio import Queue
from yarl import URL

from worker.context import NEVER, Json, insist, pauses, use_until
from worker.options import Options
from worker.text import log

SHORT = 1.0
"""Seconds from one claimWork to the next at least, where the queue asks for no longer pause."""


class ClaimWork:
    """Waits in claimWork."""

    def __init__(self, queue: Queue, session: aiohttp.ClientSession, options: Options) -> None:
        """`session`: the client's, which does not hand headers out itself."""
        self._queue = queue
        self._options = options
        self._called = self._advised = 0.0
        """When, and the pause for which the service has asked with Retry-After since; both in seconds."""
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(self._heed)
        trace.freeze()
        session.trace_configs.append(trace)

    async def _heed(self, session: object, context: object, end: aiohttp.TraceRequestEndParams) -> None:
        if "/claim-work/" in end.url.raw_path:
            advised = end.response.headers.get("Retry-After", "0")
            self._advised = float(advised) if advised.isdecimal() else 0.0

    async def claim(self) -> Json | None:
        """Looks for work once, and returns None if there is none now. Raises what the client raises."""
        self._called = time.monotonic()
        return await self._claim_work()

    def pause(self) -> float:
        """Returns the seconds to wait after a call without work: 0 after a long one; what the queue advises; jitter."""
        waited = time.monotonic() - self._called
        return max(SHORT - waited, self._advised) * random.uniform(0.5, 1)  # noqa: S311 - jitter

    async def _claim_work(self, **more: str) -> Json | None:
        request = {"workerGroup": self._options.worker_group, "workerId": self._options.worker_id, "tasks": 1, **more}
        found = (await self._queue.claimWork(self._options.task_queue_id, request))["tasks"]
        return found[0] if found else None


class SignedUrls(ClaimWork):
    """Polls the queues: a look at every priority, the highest first, until there is a message."""

    def __init__(self, queue: Queue, session: aiohttp.ClientSession, options: Options) -> None:
        super().__init__(queue, session, options)
        self._session = session
        self._idle = pauses(options.idle_seconds)
        self._urls: list[str] = []
        self._use_until = NEVER

    async def claim(self) -> Json | None:
        self._advised = 0.0
        if datetime.now(UTC) >= self._use_until:
            path = f"poll-task-url/{self._options.task_queue_id}"  # today's client does not know it (contract 15.3)
            answer = await self._queue._makeHttpRequest("get", path, None)  # noqa: SLF001 - so no method of it makes it
            self._urls = [queue["signedPollUrl"] for queue in answer["queues"]]
            self._use_until = use_until(answer["expires"])
        for url in self._urls:
            async with self._session.get(URL(f"{url}&numofmessages=1", encoded=True)) as answer:
                if answer.status in (401, 403):
                    log.info("a poll URL is not taken any more (%s)", answer.status)
                    self._use_until = NEVER
                    break
                answer.raise_for_status()
                found = await answer.text()
            if "<MessageId>" in found:
                async with asyncio.timeout(30):  # for which the message stays hidden from others at least
                    claim = await insist("claiming", lambda: self._claim_work(xmlMessage=found))  # noqa: B023
                if claim is not None:
                    self._idle = pauses(self._options.idle_seconds)
                    return claim
        return None

    def pause(self) -> float:
        """Returns more and more seconds while there is nothing to do."""
        return max(next(self._idle), self._advised)
