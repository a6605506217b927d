"""Timer triggers.

Schedules are read in UTC, as deployed Functions do unless configured otherwise. Of all hosts with one host id, the one
that holds the timer's lock runs it. When it was last run is stored beside: the next host that has the lock makes up for
an occurrence that was missed, once, as past due.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from azure.core.exceptions import AzureError
from azure.functions.meta import Datum

from tools.local.host.backoff import Backoff
from tools.local.host.blobs import Lock, ScheduleStatus, TimerBlobs
from tools.local.host.connections import is_server_side, name_of
from tools.local.host.functions import IndexedFunction, TimerTrigger
from tools.local.host.invocation import InvocationFailed, Invokes
from tools.local.host.ncrontab import Schedule

_NEVER = datetime.min.replace(tzinfo=UTC)
_LONGEST_SLEEP = 30.0
"""The longest sleep in seconds: it bounds how late a timer is after the clock was set."""
_START_RETRIES = (2.0, 120.0)
"""Seconds between tries to start a listener: the first pause, and the longest."""
_LEAST_RENEWAL_SECONDS = 1.0

_log = logging.getLogger(__name__)


class TimerListener:
    """Runs one function on its schedule. Occurrences never overlap: one that comes during a run follows it."""

    def __init__(
        self,
        function: IndexedFunction,
        schedule: Schedule,
        invoker: Invokes,
        blobs: TimerBlobs,
        *,
        lease: int,
        jitter: Callable[[], float],
        stop: Callable[[str], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Takes a function with a timer trigger, and in `lease` the length of its lock in seconds; `stop` is called
        when the host must end, with the reason; `now` gives aware times."""
        assert isinstance(function.trigger, TimerTrigger), "only timer functions have a timer listener"
        self._function = function
        self._schedule = schedule
        self._invoker = invoker
        self._blobs = blobs
        self._lease = lease
        self._stop = stop
        self._now = now
        self._run_on_startup = function.trigger.run_on_startup
        self._monitored = function.trigger.use_monitor
        self._backoff = Backoff(_START_RETRIES[1], jitter, minimum=_START_RETRIES[0])
        self._lock: Lock | None = None
        self.tried = asyncio.Event()
        """Set when the first try to take the lock is over: the host opens its port then."""
        self.running: set[asyncio.Task[None]] = set()
        """The run of its function, if there is one."""

    async def run(self) -> None:
        """Invokes the function whenever it is due and the lock is held, until cancelled."""
        try:
            await self._take_lock()
            assert self._lock is not None, "it was taken"
            await asyncio.gather(self._keep(self._lock), self._tick())
        finally:
            self.tried.set()

    async def release(self) -> None:
        """Lets another host have the lock, after `run` was cancelled."""
        if self._lock is not None:
            try:
                await self._lock.release()
            except AzureError as error:
                _log.warning("The lock of function %s ends by itself: %s", self._function.name, name_of(error))

    async def _take_lock(self) -> None:
        while True:
            try:
                self._lock = await self._blobs.try_lock(self._function.name, self._lease)
                if self._lock is not None:
                    self._status = await self._last_status()
                    return
                pause: float = self._lease
            except AzureError as error:
                name = self._function.name
                _log.error("The listener for function '%s' was unable to start: %s", name, name_of(error))
                await self.release()
                self._lock = None
                pause = self._backoff.next_delay(found=False)
            self.tried.set()
            await asyncio.sleep(pause)

    async def _last_status(self) -> ScheduleStatus:
        """Returns the status that was stored, or stores and returns a first one."""
        now = self._now()
        status = await self._blobs.read_status(self._function.name) if self._monitored else None
        if status is not None:
            before = status.updated if status.last == _NEVER else status.last
            if status.next == self._schedule.next(before):  # the schedule has not been changed
                return status
        status = ScheduleStatus(_NEVER, self._schedule.next(now), now)
        if self._monitored:
            await self._blobs.write_status(self._function.name, status)
        return status

    async def _keep(self, lock: Lock) -> None:
        """Renews the lock. If that is refused, another host has the lock and runs the timer, so this host ends."""
        pause = self._lease / 2
        while True:
            await asyncio.sleep(pause)
            try:
                await lock.renew()
                pause = self._lease / 2
            except AzureError as error:
                if not is_server_side(error):
                    self._stop(f"the lock of function {self._function.name} cannot be renewed: {name_of(error)}")
                    return
                pause = max(pause / 2, _LEAST_RENEWAL_SECONDS)

    async def _tick(self) -> None:
        if self._now() > self._status.next:
            _log.warning("Function %s: its timer is past due", self._function.name)
            first = self._invoke(past_due=True)
        elif self._run_on_startup:
            first = self._invoke(past_due=False)
        else:
            first = None
        self.tried.set()
        if first is not None:
            await first
        while True:
            left = (self._status.next - self._now()).total_seconds()
            if left > 0:
                await asyncio.sleep(min(left, _LONGEST_SLEEP))
            else:
                await self._invoke(past_due=False)

    def _invoke(self, *, past_due: bool) -> asyncio.Future[None]:
        task = asyncio.create_task(self._run_once(past_due=past_due))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return asyncio.shield(task)

    async def _run_once(self, *, past_due: bool) -> None:
        started = self._now()
        try:
            payload = timer_payload(self._status if self._monitored else None, past_due=past_due)
            await self._invoker.invoke(self._function, payload)
        except InvocationFailed:
            pass  # logged; the schedule goes on
        self._status = ScheduleStatus(started, self._schedule.next(started), started)
        if self._monitored:
            try:
                await self._blobs.write_status(self._function.name, self._status)
            except AzureError as error:
                _log.error("The status of timer %s was not stored: %s", self._function.name, name_of(error))


def timer_payload(status: ScheduleStatus | None, *, past_due: bool) -> Datum:
    """Returns a timer's information as the host hands it to a worker; `status` is None for a timer that is not
    monitored."""
    known = status and {
        "Last": status.last.isoformat(),
        "LastUpdated": status.updated.isoformat(),
        "Next": status.next.isoformat(),
    }
    information = {"Schedule": {"AdjustForDST": True}, "ScheduleStatus": known, "IsPastDue": past_due}
    return Datum(json.dumps(information), "json")
