"""Where claims come from: signed URLs of Azure queues, or claimWork alone.

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
from datetime import UTC, datetime, timedelta
from typing import Protocol

import aiohttp
from yarl import URL

from worker.options import Options
from worker.queue import Advice, BackOff, Json, Queue, insist

log = logging.getLogger("worker")

MARKER = "<MessageId>"
HOLD_SECONDS = 30
"""How long a message is handed in again when the service does not answer: it stays hidden from others meanwhile."""
FRESH = 0.75
"""Share of their life for which the URLs are used: new ones are asked for while the old ones still work."""
SHORT = 1.0
"""Seconds from one claimWork to the next at least, where the queue asks for no longer pause."""


class Source(Protocol):
    """Where claims come from."""

    async def claim(self) -> Json | None:
        """A claim; None when there is no work now. Raises what the client raises."""

    def pause(self) -> float:
        """Seconds to wait before asking again, after there was no work."""


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
        """One look at every priority, the highest first, until there is a message."""
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
        """Longer and longer while there is nothing to do."""
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
        """One long poll."""
        self._called = time.monotonic()
        return await _claim_work(self._queue, self._options)

    def pause(self) -> float:
        """0 after a long wait, or as many seconds as the queue advises. With jitter, so that workers do not call all at
        once."""
        waited = time.monotonic() - self._called
        return max(SHORT - waited, self._advice.take()) * random.uniform(0.5, 1)  # noqa: S311 - jitter
