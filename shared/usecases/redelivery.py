"""Events that could not be sent when they happened (design 2.5)."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from shared.domain.events import Event, Exchange, TaskEvent
from shared.events.publisher import EventsUnavailable
from shared.usecases.executor import Stores

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=4)
"""The pause after a failed attempt doubles up to this: so long an event may wait after Service Bus is back."""
SPREAD = 5.0
"""Seconds over which the pointers of one pause come back."""


class Postponed(Exception):
    """The event's topic cannot be reached: not tried, or tried in vain. To be tried again after `delay` seconds."""

    def __init__(self, delay: float) -> None:
        super().__init__(f"for {delay:.0f} s")
        self.delay = delay


class _Outage:
    """A topic that could not be reached, as this process has seen it."""

    def __init__(self) -> None:
        self.pause = timedelta(0)
        self.until: datetime | None = None
        self.attempt = asyncio.Lock()

    def failed(self, now: datetime) -> None:
        """An attempt failed; those that were under way beside one that failed before count as one with it."""
        if self.until is not None and now < self.until:
            return
        self.pause = min(self.pause * 2 or FIRST_PAUSE, LONGEST_PAUSE)
        self.until = now + self.pause


class Redelivery:
    """Sends what pointers in the `events` queue stand for.

    While a topic cannot be reached all its pointers back off as one: after a pause a single one of them is tried, and
    its outcome decides for the others. A pointer that meets the pause costs no request but the one that puts it back.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._outages: dict[Exchange, _Outage] = {}

    async def event_due(self, event: Event) -> None:
        """Renders and publishes the event as of then; one of a task that has expired is dropped.

        Raises Postponed, StorageUnavailable; ValueError for an event that cannot have happened to its task.
        """
        outage = self._outages.get(event.exchange)
        if outage is None:
            await self._attempt(event)
            return
        self._refuse_during_pause(outage)
        async with outage.attempt:
            self._refuse_during_pause(outage)
            await self._attempt(event)

    def _refuse_during_pause(self, outage: _Outage) -> None:
        now = self._stores.runtime.now()
        if outage.until is not None and now < outage.until:
            raise Postponed(self._delay(outage.until - now))

    async def _attempt(self, event: Event) -> None:
        loaded = await self._stores.tasks.load(event.task_id) if isinstance(event, TaskEvent) else None
        try:
            await self._stores.announcer.publish(event, loaded)
        except EventsUnavailable as failure:
            outage = self._outages.setdefault(event.exchange, _Outage())
            outage.failed(self._stores.runtime.now())
            raise Postponed(self._delay(outage.pause)) from failure
        self._outages.pop(event.exchange, None)

    def _delay(self, left: timedelta) -> float:
        return left.total_seconds() + self._stores.runtime.jitter() * SPREAD
