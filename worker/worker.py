"""The worker: asks for a task, has it executed, and asks for the next one."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]  # comes without types

from worker.child import Guard
from worker.claim import Claim
from worker.options import Options
from worker.queue import CONNECTIONS, TROUBLE, ClaimWork, Json, SignedUrls, connect, open_session, pauses
from worker.run import Run
from worker.text import shown
from worker.users import check_rights

log = logging.getLogger("worker")

MEMORY = 128 << 20
"""Bytes that the worker may have more than before its first task: a definition has up to 10 MiB."""


class Changed(Exception):
    """After a task the worker is not as it was before: it must not take another one."""


Execute = Callable[[Json], Awaitable[list[str]]]
"""Has a claimed run executed; what is not as it was before."""


class Held(NamedTuple):
    """What this process holds of the machine."""

    descriptors: int
    memory: int
    """Resident bytes."""

    @classmethod
    def now(cls) -> Held:
        """What it holds now, but for garbage."""
        gc.collect()
        process = psutil.Process()
        return cls(process.num_fds(), process.memory_info().rss)

    def more_than(self, before: Held) -> list[str]:
        """What it is more than it may be, in words."""
        found = []
        if self.descriptors > before.descriptors + CONNECTIONS:
            found.append(f"the worker has {self.descriptors} descriptors, and had {before.descriptors}")
        if self.memory > before.memory + MEMORY:
            found.append(f"the worker has {self.memory >> 20} MiB of memory, and had {before.memory >> 20}")
        return found


class Worker:
    """Has one task executed after the other."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._shutdown = asyncio.Event()
        self._guard: Guard | None = None

    def shut_down(self) -> None:
        """Take no more work, and give back what is running."""
        self._shutdown.set()

    async def run(self) -> None:
        """Works until it is to end.

        Raises REFUSED when the queue does not let this worker ask for work; OSError when the work directory cannot be
        used, or tasks cannot be another user; Changed.
        """
        options = self._options
        if options.task_user is not None:
            check_rights()
        self._guard = guard = await Guard.start(options)
        try:
            async with open_session() as session:
                client = functools.partial(connect, options.root_url, session)
                queue = client(options.credentials)

                async def execute(claimed: Json) -> list[str]:
                    claim = Claim(claimed, client, watching=queue, watch_seconds=options.watch_seconds)
                    return await Run(claim, options, session, guard).run(self._shutdown)

                source = SignedUrls if options.poll_mode == "signed" else ClaimWork
                await self._take_work(source(queue, session, options), execute)
        finally:
            await guard.close()

    async def _take_work(self, source: ClaimWork, execute: Execute) -> None:
        """Asks and executes, until shut down, idle for too long, or after the last task that it may take."""
        options, trouble_pauses = self._options, pauses(longest=60)
        taken, idle_since, before = 0, time.monotonic(), Held.now()
        while taken != options.max_tasks and not self._shutdown.is_set():
            if self._guard is not None and self._guard.is_lost:  # by a process that an earlier task has left
                raise Changed("its guard has ended")
            # A shutdown waits for the answer: it may bring a claim, which can then be given back at once.
            try:
                claim = await source.claim()
            except TROUBLE as trouble:
                log.warning("no work can be asked for at %s, trying again: %s", options.root_url, shown(trouble))
                claim, pause = None, next(trouble_pauses)
            else:
                trouble_pauses = pauses(longest=60)
                pause = source.pause() if claim is None else 0.0
            if claim is not None:
                left = await execute(claim)
                taken, idle_since = taken + 1, time.monotonic()
                if left := [*left, *Held.now().more_than(before)]:
                    raise Changed("; ".join(left))
                continue
            if options.idle_timeout is not None:
                # Time in which the service cannot be reached is idle time.
                patience = options.idle_timeout - (time.monotonic() - idle_since)
                if patience <= 0:
                    log.info("no task for %g seconds: the worker ends", options.idle_timeout)
                    return
                pause = min(pause, patience)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._shutdown.wait(), pause)
