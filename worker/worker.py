"""The worker: asks for as many tasks as it can take, and runs them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Protocol

import aiohttp

from worker.artifacts import Artifacts
from worker.claim import Claim
from worker.claimwork import ClaimWork
from worker.options import Options
from worker.queue import TROUBLE, Advice, BackOff, Json, Queue, connect, open_session
from worker.run import Run
from worker.signed import SignedUrls

log = logging.getLogger("worker")


class Source(Protocol):
    """Where claims come from."""

    async def claims(self, count: int) -> list[Json]:
        """Up to `count` claims; none when there is no work now. Raises what the client raises."""
        ...

    def pause(self) -> float:
        """Seconds to wait before asking again, after there was no work."""
        ...


class Worker:
    """Runs up to `capacity` tasks at a time."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._shutdown = asyncio.Event()
        self._runs: set[asyncio.Task[None]] = set()

    def shut_down(self) -> None:
        """Take no more work, and give back what is running."""
        self._shutdown.set()

    async def run(self) -> None:
        """Works until shut down. Raises REFUSED when the queue does not let this worker ask for work."""
        advice = Advice()
        async with open_session(advice) as session:
            queue = connect(self._options.root_url, self._options.credentials, session)
            source: Source
            if self._options.poll_mode == "signed":
                source = SignedUrls(queue, session, advice, self._options)
            else:
                source = ClaimWork(queue, advice, self._options)
            try:
                await self._take_work(source, session)
            finally:
                if self._runs:
                    await asyncio.wait(self._runs)

    async def _take_work(self, source: Source, session: aiohttp.ClientSession) -> None:
        trouble_pause = BackOff(longest=60)
        while not self._shutdown.is_set():
            free = self._options.capacity - len(self._runs)
            if free == 0:
                await asyncio.wait(self._runs, return_when=asyncio.FIRST_COMPLETED)
                continue
            # A shutdown waits for the answer: it may bring claims, which can then be given back at once.
            try:
                claims = await source.claims(free)
            except TROUBLE as trouble:
                log.warning("no work can be asked for at %s, trying again: %s", self._options.root_url, trouble)
                await self._rest(trouble_pause.next())
                continue
            trouble_pause.reset()
            for claimed in claims:
                self._start(claimed, session)
            if not claims:
                await self._rest(source.pause())

    def _start(self, claimed: Json, session: aiohttp.ClientSession) -> None:
        def client(credentials: Mapping[str, str]) -> Queue:
            return connect(self._options.root_url, credentials, session)

        claim = Claim(claimed, client)
        run = Run(claim, Artifacts(claim, session), self._options.root_url, self._options.work_dir)
        task = asyncio.create_task(run.run(self._shutdown))
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)

    async def _rest(self, seconds: float) -> None:
        """Waits, or until the shutdown."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._shutdown.wait(), seconds)
