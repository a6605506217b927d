"""Claims by signed URLs: the worker looks into the Azure queues itself, so that an idle one costs the service nothing.

The procedure of the poll draft: GET the poll URL of one priority after the other, look for `<MessageId>` in the answer,
and hand the answer as it is to claimWork, which knows what to make of it. Nothing is parsed or deleted here.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

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


class SignedUrls:
    """A source of claims."""

    def __init__(self, queue: Queue, session: aiohttp.ClientSession, advice: Advice, options: Options) -> None:
        self._queue = queue
        self._session = session
        self._advice = advice
        self._options = options
        self._idle = BackOff(longest=options.idle_seconds)
        self._urls: list[str] = []
        self._fresh_until = datetime.min.replace(tzinfo=UTC)

    async def claims(self, count: int) -> list[Json]:
        """One look at every priority, the highest first, until there is a message."""
        if datetime.now(UTC) >= self._fresh_until:
            await self._renew_urls()
        for url in self._urls:
            found = await self._poll(url, count)
            if found is None:
                self._fresh_until = datetime.min.replace(tzinfo=UTC)
                break
            if MARKER in found:
                claims = await self._claim(found, count)
                if claims:
                    self._idle.reset()
                    return claims
        return []

    def pause(self) -> float:
        """Longer and longer while there is nothing to do."""
        return max(self._idle.next(), self._advice.take())

    async def _poll(self, url: str, count: int) -> str | None:
        """What the queue returns; None when it does not take the URL (any more)."""
        async with self._session.get(URL(f"{url}&numofmessages={count}", encoded=True)) as answer:
            if answer.status in (401, 403):
                log.info("a poll URL is not taken any more (%s)", answer.status)
                return None
            answer.raise_for_status()
            return await answer.text()

    async def _claim(self, xml: str, count: int) -> list[Json]:
        request = {
            "workerGroup": self._options.worker_group,
            "workerId": self._options.worker_id,
            "tasks": count,
            "xmlMessage": xml,
        }
        async with asyncio.timeout(HOLD_SECONDS):
            answer = await insist(lambda: self._queue.claimWork(self._options.task_queue_id, request))
        claims: list[Json] = answer["tasks"]
        return claims

    async def _renew_urls(self) -> None:
        asked = datetime.now(UTC)
        answer = await self._queue.pollTaskUrls(*self._options.task_queue_id.split("/"))
        self._urls = [queue["signedPollUrl"] for queue in answer["queues"]]
        self._advice.take()  # drop it: that advice is about the next renewal, which is minutes away
        life = datetime.fromisoformat(answer["expires"]) - asked
        self._fresh_until = asked + max(life * FRESH, timedelta(seconds=1))
