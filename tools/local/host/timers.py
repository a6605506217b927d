"""Timer triggers.

Schedules are read in UTC, as deployed Functions do unless configured otherwise. The schedule status lives in memory: it
starts anew with the process.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from azure.functions.meta import Datum

from tools.local.host.functions import IndexedFunction, TimerTrigger
from tools.local.host.invocation import InvocationFailed, Invoker
from tools.local.host.ncrontab import Schedule

_NEVER = datetime.min.replace(tzinfo=UTC)
_LONGEST_SLEEP = 30.0
"""Seconds; bounds how late a timer is after the machine slept or its clock was set."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScheduleStatus:
    """When a timer last ran and is next due."""

    last: datetime
    next: datetime
    updated: datetime


class TimerListener:
    """Runs one function on its schedule. Occurrences never overlap: one that comes during a run follows it."""

    def __init__(
        self,
        function: IndexedFunction,
        schedule: Schedule,
        invoker: Invoker,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`function` has a timer trigger; `now` gives aware times."""
        assert isinstance(function.trigger, TimerTrigger), "only timer functions have a timer listener"
        self._function = function
        self._schedule = schedule
        self._invoker = invoker
        self._now = now
        self._sleep = sleep
        self._run_on_startup = function.trigger.run_on_startup
        self._monitored = function.trigger.use_monitor
        self._status = ScheduleStatus(_NEVER, schedule.next(now()), _NEVER)
        self._invocation: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Invoke the function whenever it is due, until cancelled."""
        if self._run_on_startup:
            await self._invoke(past_due=False)
        while True:
            await self._sleep_until(self._status.next)
            # A whole occurrence passed by: the process was suspended, or the run before took that long.
            past_due = self._schedule.next(self._status.next) <= self._now()
            if past_due:
                _log.warning("Function %s: its timer is past due", self._function.name)
            await self._invoke(past_due=past_due)

    async def stop(self, grace: float) -> None:
        """After `run` was cancelled: give a running function `grace` seconds, then cancel it."""
        if self._invocation and not self._invocation.done():
            _, late = await asyncio.wait({self._invocation}, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _sleep_until(self, due: datetime) -> None:
        while (left := (due - self._now()).total_seconds()) > 0:
            await self._sleep(min(left, _LONGEST_SLEEP))

    async def _invoke(self, *, past_due: bool) -> None:
        started = self._now()
        status = self._status if self._monitored else None
        payload = timer_payload(status, past_due=past_due)
        self._invocation = asyncio.create_task(self._call(payload))
        await asyncio.shield(self._invocation)
        self._status = ScheduleStatus(started, self._schedule.next(started), started)

    async def _call(self, payload: Datum) -> None:
        try:
            await self._invoker.invoke(self._function, payload)
        except InvocationFailed:
            return  # logged; the schedule goes on


def timer_payload(status: ScheduleStatus | None, *, past_due: bool) -> Datum:
    """A timer's information as the host hands it to a worker; `status` is None for a timer that is not monitored."""
    return Datum(
        json.dumps(
            {
                "Schedule": {"AdjustForDST": True},
                "ScheduleStatus": status
                and {
                    "Last": status.last.isoformat(),
                    "LastUpdated": status.updated.isoformat(),
                    "Next": status.next.isoformat(),
                },
                "IsPastDue": past_due,
            }
        ),
        "json",
    )
