"""The worker: asks for as many tasks as it can take, and runs them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Mapping
from typing import Protocol

from worker.caches import Caches
from worker.claim import Claim
from worker.claimwork import ClaimWork
from worker.execution import Site
from worker.folders import Folders
from worker.hiding import shown
from worker.options import Options
from worker.queue import TROUBLE, Advice, BackOff, Json, Queue, connect, open_session
from worker.run import Run
from worker.signed import SignedUrls
from worker.users import Users, check_rights

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
        self._left: float = math.inf if options.max_tasks is None else options.max_tasks
        self._idle_since = time.monotonic()

    def shut_down(self) -> None:
        """Take no more work, and give back what is running."""
        self._shutdown.set()

    async def run(self) -> None:
        """Works until it is to end. Raises REFUSED when the queue does not let this worker ask for work, OSError when
        the work directory cannot be used, or tasks cannot be other users."""
        if self._options.task_users:
            check_rights()
        advice = Advice()
        folders = Folders(self._options.work_dir)
        await asyncio.to_thread(folders.sweep, is_root_for_others=bool(self._options.task_users))
        async with open_session(advice) as session:
            self._site = Site(
                options=self._options,
                session=session,
                folders=folders,
                caches=Caches(self._options.work_dir, self._options.keep_free),
                users=Users(self._options.task_users),
            )
            self._queue = connect(self._options.root_url, self._options.credentials, session)
            source: Source
            if self._options.poll_mode == "signed":
                source = SignedUrls(self._queue, session, advice, self._options)
            else:
                source = ClaimWork(self._queue, advice, self._options)
            try:
                await self._take_work(source)
            finally:
                if self._runs:
                    await asyncio.wait(self._runs)

    async def _take_work(self, source: Source) -> None:
        """Asks and starts, until shut down, idle for too long, or the last task that it may take has started."""
        trouble_pause = BackOff(longest=60)
        while self._left > 0 and not self._shutdown.is_set():
            free = min(self._options.capacity - len(self._runs), self._left)
            if free == 0:
                await asyncio.wait(self._runs, return_when=asyncio.FIRST_COMPLETED)
                continue
            # A shutdown waits for the answer: it may bring claims, which can then be given back at once.
            try:
                claims = await source.claims(int(free))
            except TROUBLE as trouble:
                log.warning("no work can be asked for at %s, trying again: %s", self._options.root_url, shown(trouble))
                claims, pause = [], trouble_pause.next()
            else:
                trouble_pause.reset()
                pause = source.pause() if not claims else 0.0
            for claimed in claims:
                self._start(claimed)
            if claims:
                continue
            patience = self._patience()
            if patience <= 0:
                log.info("no task for %g seconds: the worker ends", self._options.idle_timeout)
                return
            await self._rest(min(pause, patience))

    def _patience(self) -> float:
        """Seconds for which the worker may still be idle. Time in which the service cannot be reached is idle time."""
        if self._runs or self._options.idle_timeout is None:
            return math.inf
        return self._options.idle_timeout - (time.monotonic() - self._idle_since)

    def _start(self, claimed: Json) -> None:
        def client(credentials: Mapping[str, str]) -> Queue:
            return connect(self._options.root_url, credentials, self._site.session)

        claim = Claim(claimed, client, watching=self._queue, watch_seconds=self._options.watch_seconds)
        task = asyncio.create_task(Run(claim, self._site).run(self._shutdown))
        self._left -= 1
        self._runs.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._runs.discard(task)
        self._idle_since = time.monotonic()

    async def _rest(self, seconds: float) -> None:
        """Waits, or until the shutdown."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._shutdown.wait(), seconds)
