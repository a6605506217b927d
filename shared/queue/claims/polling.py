"""Long polls of one pool in one process share one poller (design 4, contract 5.1).

A call is given the messages of a poll that begins after the call arrived. If there are none, the call waits until there
is work. Then it is told so, and its client, if still connected, calls again.

Bands are polled strictly by priority. A setting can put those first whose runs have waited too long (design 4)."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import timedelta
from typing import Any

from shared.base import bounds, remembered
from shared.base.concurrency import comes_within
from shared.base.frozen import dataclass
from shared.base.memo import Memo
from shared.base.priority import Priority
from shared.base.protocol import HIDDEN_WHILE_CLAIMING
from shared.queue.claims.telling import PAUSES, Wait
from shared.queue.pools.rows import PoolStore
from shared.queue.tasks.messages import Messages, PendingMessage
from shared.runtime import Runtime
from shared.store.limits import MAX_MESSAGES

BUSY_INTERVAL = 1.0
"""Seconds between two polls of a pool that had work lately. A task that another process made pending waits for it."""
IDLE_AFTER = 30.0
"""Seconds without work after which a pool is polled less often."""
CALLS_AGAIN = 1.0
"""Seconds within which clients whose waits end should call again. If none has, the next poll ends twice as many."""
STILL_THERE = 5.0
"""Seconds after its arrival for which a call may take messages again, if none of its first messages led to a claim."""


@dataclass(eq=False)
class _Waiter:
    count: int
    looks_once: bool
    came: float
    served: asyncio.Future[None]
    wait: Wait
    messages: list[PendingMessage] = field(default_factory=list)
    is_new: bool = True
    """Whether no poll that included it has ended yet."""

    @property
    def lacks(self) -> int:
        return self.count - len(self.messages)


@dataclass(eq=False)
class _Pool:
    waiters: list[_Waiter] = field(default_factory=list)
    """Waiting calls in the order in which they came."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    joined: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that is set if a call has come since the last one left: that call will wait for the poll under way."""
    loop: asyncio.Task[None] | None = None
    last_found: float = 0.0
    expected: int = 0
    """Number of messages for which waits were ended, and whose clients have not called again yet."""
    visible: frozenset[str] = frozenset()
    """Ids of the messages that the last poll left in the queue. One that is gone was received by another process."""
    asked: float = 0.0
    """Time at which waits were last ended because there were messages."""
    urgency: int = 1
    """Number of waits that are ended for each message."""

    @property
    def new(self) -> list[_Waiter]:
        return [waiter for waiter in self.waiters if waiter.is_new]

    @property
    def waiting(self) -> int:
        """Number of calls that only wait: they are given no messages any more."""
        return sum(not waiter.is_new for waiter in self.waiters)


@dataclass(eq=False, repr=False)
class Poller:
    """Takes pending messages for those who call, highest band first, and tells those who wait that there are some. The
    service cannot see that a client has disconnected (contract 5.1). So calls that wait are given no messages: only the
    first poll of a call is, since its client was there a moment ago."""

    _messages: Messages
    _stores: PoolStore
    _idle: float
    """Seconds between two polls of a pool while somebody waits. After work it is polled twice as often, or more."""
    _starves_after: timedelta
    """How long a band's oldest run waits until the band comes first; zero: never."""
    _there_is_work: Callable[[str], None]
    """Called with the task queue for whose work waits are ended."""
    _runtime: Runtime

    def __post_init__(self) -> None:
        self._pools: dict[str, _Pool] = {}
        self._starving: Memo[str, list[Priority]] = Memo(remembered.STARVING, self._runtime.now)
        self._quiet: Memo[str, float] = Memo(remembered.QUIET, self._runtime.now)

    async def take(
        self, task_queue_id: str, count: int, seconds: float, ended: asyncio.Event, wait: Wait, *, is_new: bool = True
    ) -> list[PendingMessage]:
        """Returns up to `count` messages that are there now. If there are none, waits, and returns none as soon as
        there is work: the client then has to call again, and `wait` says that it is told.

        Also returns none after some seconds, when `ended` is set, and when the wait is over. A call that is not
        `is_new` gets no messages at all, since its client may have disconnected. Without seconds to wait, a new call
        polls the pool once, and another one returns at once.

        Nothing is left running when it returns but what others wait for: the last caller to leave waits for the poll
        under way. If it is cancelled, it releases the messages that it was given. Raises StorageUnavailable."""
        if seconds <= 0 and not is_new:
            return []
        pool = self._pools.get(task_queue_id)
        if pool is None:  # it is quiet for as long as it was when its last caller left
            quiet = self._quiet.get(task_queue_id)
            pool = self._pools[task_queue_id] = _Pool(last_found=_monotonic() if quiet is None else quiet)
        served = asyncio.get_running_loop().create_future()
        waiter = _Waiter(
            count=count, looks_once=seconds <= 0, came=_monotonic(), served=served, wait=wait, is_new=is_new
        )
        pool.waiters.append(waiter)
        pool.joined.set()
        pool.wake.set()
        if pool.loop is None:
            pool.loop = asyncio.create_task(self._poll_while_awaited(task_queue_id, pool))
        ending = [asyncio.ensure_future(each.wait()) for each in (ended, wait.is_over)]
        either: list[asyncio.Future[Any]] = [waiter.served, *ending]
        try:
            timeout = None if waiter.looks_once else seconds
            await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if wait.is_over.is_set() and waiter.is_new:
                waiter.looks_once = True
                await asyncio.wait(either[:2], return_when=asyncio.FIRST_COMPLETED)
            await self._leave(pool, waiter)
        except asyncio.CancelledError:
            await self._leave(pool, waiter)
            await self._messages.release(waiter.messages)
            raise
        finally:
            for each in ending:
                each.cancel()
        if waiter.served.done():
            waiter.served.result()
        return waiter.messages

    def waiting(self) -> Counter[str]:
        """Returns for each task queue how many calls in this process have polled once and now wait for work."""
        return Counter({task_queue_id: pool.waiting for task_queue_id, pool in self._pools.items() if pool.waiting})

    async def _leave(self, pool: _Pool, waiter: _Waiter) -> None:
        """Removes the waiter, so that it is given no messages any more. The last one waits until the poll under way has
        ended, or is another call's to wait for."""
        if waiter in pool.waiters:
            pool.waiters.remove(waiter)
        loop = pool.loop
        if not pool.waiters and loop is not None:
            pool.wake.set()
            pool.joined.clear()
            joined = asyncio.ensure_future(pool.joined.wait())
            try:
                await asyncio.wait([loop, joined], return_when=asyncio.FIRST_COMPLETED)
            finally:
                joined.cancel()

    def wake(self, task_queue_id: str) -> None:
        """Looks at the pool at once: this process has just made a run of it pending."""
        self._quiet.pop(task_queue_id)
        pool = self._pools.get(task_queue_id)
        if pool is not None:
            pool.last_found = _monotonic()
            pool.wake.set()

    def end_waits(self) -> None:
        """Ends all waits now, since this process is overloaded; a wait that has just begun still looks once."""
        for pool in self._pools.values():
            for waiter in pool.new:
                waiter.looks_once = True
            self._serve(pool, [waiter for waiter in pool.waiters if not waiter.is_new])
            pool.wake.set()

    async def _poll_while_awaited(self, task_queue_id: str, pool: _Pool) -> None:
        try:
            while pool.waiters:
                pool.wake.clear()
                if looking := pool.new:
                    found = await self._look(task_queue_id, pool)
                    for waiter in looking:
                        waiter.is_new = False
                    self._serve(pool, [waiter for waiter in looking if waiter.looks_once])
                else:
                    await self._tell(task_queue_id, pool)
                    found = False
                if not found and pool.waiters:
                    is_idle = _monotonic() - pool.last_found > IDLE_AFTER
                    seconds = self._idle if is_idle else min(BUSY_INTERVAL, self._idle / 2)
                    await comes_within(pool.wake, min(seconds, CALLS_AGAIN) if pool.expected else seconds)
        except Exception as error:  # raised in the waiting calls: nobody would see it in this background task
            self._serve_begun(pool)
            for waiter in pool.waiters:
                waiter.served.set_exception(error)
            pool.waiters.clear()
        finally:
            pool.loop = None
            if not pool.waiters:
                self._quiet[task_queue_id] = pool.last_found
                self._pools.pop(task_queue_id, None)

    async def _look(self, task_queue_id: str, pool: _Pool) -> bool:
        """Polls the bands in use once, in order, for calls that were in no poll yet. Returns whether there was any."""
        found = 0
        for band in await self._bands(task_queue_id):
            while wanted := min(sum(waiter.lacks for waiter in pool.new), MAX_MESSAGES):
                hidden_for = HIDDEN_WHILE_CLAIMING.total_seconds()
                messages = await self._messages.poll(task_queue_id, band, count=wanted, hidden_for=hidden_for)
                if messages:
                    found += len(messages)
                    pool.last_found = _monotonic()
                await self._hand_out(pool, messages)
                if len(messages) < wanted:  # else poll it again: it may hold more, and goes before the next band
                    break
        self._serve_begun(pool)
        if found:
            pool.expected, pool.urgency = max(pool.expected - found, 0), 1
        return found > 0

    async def _bands(self, task_queue_id: str) -> Sequence[Priority]:
        """Returns the bands in use in the order in which to poll them: the starving ones, the longest waiting first,
        then the others. Which bands starve is remembered for 10 s. Raises StorageUnavailable."""
        bands = await self._stores.queues.bands(task_queue_id)
        if not self._starves_after or len(bands) < 2:
            return bands
        known = await self._starving.read(task_queue_id, lambda: self._find_starving(task_queue_id))
        starving = [band for band in known if band in bands]
        return [*starving, *(band for band in bands if band not in starving)]

    async def _find_starving(self, task_queue_id: str) -> list[Priority]:
        rows, _ = await self._stores.runs(task_queue_id, bounds.STARVATION_ROWS)
        now = self._runtime.now()
        return list(dict.fromkeys(row.priority for row in rows if now - row.since > self._starves_after))

    async def _hand_out(self, pool: _Pool, messages: list[PendingMessage]) -> None:
        remaining = deque(messages)
        for waiter in pool.new:
            waiter.messages.extend(remaining.popleft() for _ in range(min(waiter.lacks, len(remaining))))
            if not waiter.lacks:
                self._serve(pool, [waiter])
        await self._messages.release(remaining)

    @staticmethod
    def _serve(pool: _Pool, waiters: Sequence[_Waiter]) -> None:
        """Ends the waits of these calls with the messages that they have, unless they were cancelled."""
        for waiter in waiters:
            if waiter in pool.waiters:
                pool.waiters.remove(waiter)
                waiter.served.set_result(None)

    def _serve_begun(self, pool: _Pool) -> None:
        """Ends the waits that have some messages and still wait for more."""
        self._serve(pool, [waiter for waiter in pool.waiters if waiter.messages])

    async def _tell(self, task_queue_id: str, pool: _Pool) -> None:
        """Ends as many waits as there is work for. If nobody has called again for the work, ends twice as many."""
        visible = await self._visible(task_queue_id, pool)
        now, gone, pool.visible = _monotonic(), pool.visible - visible, visible
        if not visible:
            pool.expected, pool.urgency = 0, 1
            return
        pool.last_found = now
        pool.expected = max(pool.expected - len(gone), 0)
        if pool.expected and now - pool.asked >= CALLS_AGAIN:
            pool.expected, pool.urgency = 0, pool.urgency * 2
        lacking = (len(visible) - sum(waiter.lacks for waiter in pool.new)) * pool.urgency - pool.expected
        told: list[_Waiter] = []
        for waiter in _who_calls_soonest(pool.waiters, now, pool.urgency):
            if lacking <= 0:
                break
            lacking -= waiter.count
            told.append(waiter)
        for waiter in told:
            waiter.wait.is_told = True
        if told:
            pool.asked = now
            pool.expected += sum(waiter.count for waiter in told)
            self._there_is_work(task_queue_id)
            self._serve(pool, told)

    async def _visible(self, task_queue_id: str, pool: _Pool) -> frozenset[str]:
        """Returns the ids of the visible messages, as many as the waiting calls ask for. Others see the same ones."""
        visible: list[str] = []
        for band in await self._stores.queues.bands(task_queue_id):
            lacking = sum(waiter.count for waiter in pool.waiters) - len(visible)
            if lacking <= 0:
                break
            visible += await self._messages.visible(task_queue_id, band, min(lacking, MAX_MESSAGES))
        return frozenset(visible)


def _who_calls_soonest(waiters: Sequence[_Waiter], now: float, urgency: int) -> list[_Waiter]:
    """Returns the waiting calls; first those whose clients repeat the call, then those whose workers call again at once
    after an empty answer, then those that pause. Of the former, those come first that have had no task for longest. If
    nobody came, the latest do: of older ones more clients are gone."""
    waiting = [waiter for waiter in reversed(waiters) if not waiter.is_new]
    repeating = [waiter for waiter in waiting if waiter.wait.series.is_told_by_503]
    if urgency == 1:
        repeating.sort(key=lambda waiter: waiter.wait.had_work)
    others = [waiter for waiter in waiting if not waiter.wait.series.is_told_by_503]
    at_once = [waiter for waiter in others if now - waiter.came >= PAUSES.total_seconds()]
    return [*repeating, *at_once, *(waiter for waiter in others if waiter not in at_once)]


def _monotonic() -> float:
    return asyncio.get_running_loop().time()
