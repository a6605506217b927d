"""Long polls of one pool in one process share one poller (design 4, contract 5.1).

Bands go strictly by priority, unless a setting lets those first that have waited too long (design 4).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from shared.concurrency import together
from shared.domain.priority import Priority
from shared.domain.protocol import HIDDEN_WHILE_CLAIMING
from shared.frozen import dataclass
from shared.recent import Recent
from shared.runtime import Runtime
from shared.storage.messages import Messages, PendingMessage
from shared.storage.pool_queues import BANDS_STALE
from shared.storage.pools import PoolStore

ROWS = 100
"""The oldest pending runs of a pool that are looked at."""
_REMEMBERED = 10_000
"""Pools."""


class Starvation:
    """Orders a pool's bands so that none waits for ever, if a setting asks for it."""

    def __init__(self, pools: PoolStore, runtime: Runtime, patience: timedelta) -> None:
        """`patience`: how long a band's oldest run may wait until the band goes first; zero for ever."""
        self._pools = pools
        self._now = runtime.now
        self._patience = patience
        self._starving: Recent[str, tuple[datetime, list[Priority]]] = Recent(_REMEMBERED)

    async def order(self, task_queue_id: str, bands: Sequence[Priority]) -> Sequence[Priority]:
        """The bands (highest first), those that starve before the others, the one that has waited longest first.

        What starves is known for 10 s. Raises StorageUnavailable.
        """
        if not self._patience or len(bands) < 2:
            return bands
        known = self._starving.get(task_queue_id)
        if known is None or self._now() - known[0] >= BANDS_STALE:
            known = self._starving[task_queue_id] = self._now(), await self._read(task_queue_id)
        starving = [band for band in known[1] if band in bands]
        return [*starving, *(band for band in bands if band not in starving)]

    async def _read(self, task_queue_id: str) -> list[Priority]:
        rows, _ = await self._pools.pending(task_queue_id, ROWS)
        now = self._now()
        return list(dict.fromkeys(row.priority for row in rows if now - row.scheduled > self._patience))


MOST_AT_ONCE = 32
"""Messages that one Get may take."""
IDLE_AFTER = 30.0
"""Seconds without work after which a pool is polled less often."""
FRESH = 5.0
"""Seconds without a new wait after which one of several workers that wait is asked to call again.

A client may have gone without a word. So somebody was there this lately, whom the next work goes to. It costs a call in
that time for each task queue at the most, and none where so many workers wait that they call as often anyway.
"""
CALLS_AGAIN = 1.0
"""Seconds in which a client calls again; if none has, the next one is asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PollIntervals:
    """Seconds between two looks at a pool while somebody waits."""

    busy: float
    idle: float


@dataclass(eq=False)
class _Waiter:
    count: int
    looks_once: bool
    came: float
    served: asyncio.Future[None]
    messages: list[PendingMessage] = field(default_factory=list)

    @property
    def lacks(self) -> int:
        return self.count - len(self.messages)


@dataclass(eq=False)
class _Pool:
    waiters: deque[_Waiter] = field(default_factory=deque)
    """In the order in which they came."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.Task[None] | None = None
    last_found: float = 0.0
    last_ended: float = 0.0
    """When a wait was ended so that its client calls again."""


class Poller:
    """Takes pending messages for those who wait, highest band first.

    Who came last is served first: a client that has gone is not seen to have gone (contract 5.1), and who came last is
    the most likely to be there. Where several wait, they are asked in turn to call again (`FRESH`).
    """

    def __init__(
        self,
        messages: Messages,
        pools: PoolStore,
        runtime: Runtime,
        intervals: PollIntervals,
        starvation: Starvation,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self._messages = messages
        self._stores = pools
        self._runtime = runtime
        self._intervals = intervals
        self._starvation = starvation
        self._monotonic = monotonic or (lambda: asyncio.get_running_loop().time())
        self._pools: dict[str, _Pool] = {}

    async def take(self, task_queue_id: str, count: int, wait: float, ended: asyncio.Event) -> list[PendingMessage]:
        """Up to `count` messages as soon as there are any, or none after `wait` seconds or when `ended` is set.

        With no seconds to wait, it is one look at the pool. Nothing is left running when it returns: the last one to
        leave waits for the poll under way. Cancelled, it releases what it was given. Raises StorageUnavailable.
        """
        pool = self._pools.setdefault(task_queue_id, _Pool(last_found=self._monotonic()))
        served = asyncio.get_running_loop().create_future()
        waiter = _Waiter(count=count, looks_once=wait <= 0, came=self._monotonic(), served=served)
        pool.waiters.append(waiter)
        pool.wake.set()
        if pool.loop is None:
            pool.loop = asyncio.create_task(self._poll_while_awaited(task_queue_id, pool))
        ending = asyncio.ensure_future(ended.wait())
        either: list[asyncio.Future[Any]] = [waiter.served, ending]
        try:
            timeout = None if waiter.looks_once else wait
            await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._leave(pool, waiter)
            await together(*(self._messages.delay_pending(message.handle, 0) for message in waiter.messages))
            raise
        finally:
            ending.cancel()
        await self._leave(pool, waiter)
        if waiter.served.done():
            waiter.served.result()
        return waiter.messages

    async def _leave(self, pool: _Pool, waiter: _Waiter) -> None:
        """From now on the waiter is given nothing."""
        if waiter in pool.waiters:
            pool.waiters.remove(waiter)
            pool.wake.set()
        loop = pool.loop
        if not pool.waiters and loop is not None:
            await asyncio.wait([loop])

    def wake(self, task_queue_id: str) -> None:
        """Looks at the pool at once: this process has just made a run of it pending."""
        pool = self._pools.get(task_queue_id)
        if pool is not None:
            pool.wake.set()

    def end_waits(self) -> None:
        """Ends all waits now, as this process has more urgent things to do; who looks only once has that look."""
        for pool in self._pools.values():
            self._serve(pool, [waiter for waiter in pool.waiters if not waiter.looks_once])
            pool.wake.set()

    async def _poll_while_awaited(self, task_queue_id: str, pool: _Pool) -> None:
        try:
            while pool.waiters:
                pool.wake.clear()
                looking = [waiter for waiter in pool.waiters if waiter.looks_once]
                found = await self._look(task_queue_id, pool)
                self._serve(pool, looking)
                self._refresh(pool)
                if not found and pool.waiters:
                    await self._pause(pool)
        except Exception as error:  # every waiter gets it; no one would see it in this task
            self._serve_begun(pool)
            for waiter in pool.waiters:
                waiter.served.set_exception(error)
            pool.waiters.clear()
        finally:
            pool.loop = None
            if not pool.waiters:
                self._pools.pop(task_queue_id, None)

    async def _look(self, task_queue_id: str, pool: _Pool) -> bool:
        """One look at the bands in use, in order, until every waiter has its fill; who has less is served as well."""
        found = False
        for band in await self._starvation.order(task_queue_id, await self._stores.queues.bands(task_queue_id)):
            wanted = sum(waiter.lacks for waiter in pool.waiters)
            if not wanted:
                break
            messages = await self._get(task_queue_id, band, wanted)
            found = found or bool(messages)
            await self._hand_out(pool, messages)
        self._serve_begun(pool)
        if found:
            pool.last_found = self._monotonic()
        return found

    async def _get(self, task_queue_id: str, band: Priority, wanted: int) -> list[PendingMessage]:
        return await self._messages.poll(
            task_queue_id, band, count=min(wanted, MOST_AT_ONCE), hidden_for=HIDDEN_WHILE_CLAIMING.total_seconds()
        )

    async def _hand_out(self, pool: _Pool, messages: list[PendingMessage]) -> None:
        remaining = deque(messages)
        while remaining and pool.waiters:
            waiter = pool.waiters[-1]
            waiter.messages.extend(remaining.popleft() for _ in range(min(waiter.lacks, len(remaining))))
            if waiter.lacks:
                break
            pool.waiters.pop().served.set_result(None)
        await together(*(self._messages.delay_pending(message.handle, 0) for message in remaining))

    @staticmethod
    def _serve(pool: _Pool, waiters: Sequence[_Waiter]) -> None:
        """These get what they have, if they still wait."""
        for waiter in waiters:
            if waiter in pool.waiters:
                pool.waiters.remove(waiter)
                waiter.served.set_result(None)

    def _serve_begun(self, pool: _Pool) -> None:
        """Serves who has got messages, and waits for more."""
        self._serve(pool, [waiter for waiter in pool.waiters if waiter.messages])

    def _refresh(self, pool: _Pool) -> None:
        """Ends the oldest wait, if nobody has come lately: its client, if it is there, calls again and comes last."""
        now = self._monotonic()
        if len(pool.waiters) < 2 or now - pool.last_ended < CALLS_AGAIN:
            return
        if now - pool.waiters[-1].came >= FRESH:
            pool.last_ended = now
            self._serve(pool, [pool.waiters[0]])

    async def _pause(self, pool: _Pool) -> None:
        idle = self._monotonic() - pool.last_found > IDLE_AFTER
        seconds = self._intervals.idle if idle else self._intervals.busy
        try:
            await asyncio.wait_for(pool.wake.wait(), seconds)
        except TimeoutError:
            return
