"""What is due: claim and deadline messages (design 4, 5), and events that could not be sent (design 2.5). Each handler
may run twice; the second run finds it done."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from shared.base.errors import ResourceNotFound, ServiceError
from shared.base.frozen import dataclass
from shared.base.protocol import ORPHAN_AFTER
from shared.base.retrying import UNSENT_EVENTS
from shared.queue.claims import ends as claim_ends
from shared.queue.claims.ends import NotExpired
from shared.queue.events import rules as announcements
from shared.queue.events.announcer import Breaker, EventsUnavailable
from shared.queue.events.rules import Event, Exchange, TaskEvent
from shared.queue.groups.check import GroupCheck
from shared.queue.tasks import transitions
from shared.queue.tasks.effects import Decision, NoDecision, PutClaim, PutDeadline, PutResolved
from shared.queue.tasks.executor import Executor, Stores
from shared.queue.tasks.rows import Loaded
from shared.queue.tasks.rules import Resolved
from shared.telemetry.instruments import EVENTS_LOST

log = logging.getLogger("taskcluster.events")
LOOK_AGAIN = 30.0
"""Seconds until a deadline message that cannot be handled yet is handled again."""


@dataclass(eq=False, repr=False)
class DueMessages:
    """Handlers of the claim and deadline messages."""

    _stores: Stores
    _executor: Executor
    _group_check: GroupCheck
    _deadline_delay: timedelta

    async def claim_due(self, task_id: str, run_id: int, put: datetime, started: datetime) -> None:
        """Handles the claim message of a claim that was made at `started`: ends the claim, if the status row says that
        takenUntil has passed. If it was never committed, its index row is given back. Raises StorageUnavailable."""
        spare_hint_id = self._stores.runtime.slugid()
        try:
            await self._executor.run(
                task_id, lambda read, now: claim_ends.expire(read.task, run_id, put, now, spare_hint_id, started)
            )
        except ResourceNotFound:
            return
        except NotExpired as early:
            if early.again is not None:
                timer = PutClaim(task_id=task_id, run_id=run_id, taken_until=early.again, started=started)
                await self._stores.messages.put_claim(timer, put)

    async def deadline_due(self, task_id: str, task_group_id: str, scheduler_id: str, put: datetime) -> None:
        """Handles a deadline message: resolves the task, or puts the message again while the deadline is ahead, or
        while the commit may still come that it was put for: a creation, or a rerun of a task that is resolved. A
        message of a call that died, or was refused, may name a task that does not exist in that group. Then the group
        is checked, as it may have been waiting for that task. Raises StorageUnavailable."""
        now = self._stores.runtime.now()
        may_be_ahead = now - put < ORPHAN_AFTER
        again: datetime | None = None
        later = now + timedelta(seconds=LOOK_AGAIN) - self._deadline_delay

        def at_deadline(read: Loaded, now: datetime) -> Decision:
            nonlocal again
            task = read.task
            if task.task_group_id != task_group_id:
                raise ResourceNotFound(f"task {task_id} is not of group {task_group_id}")
            again = later if task.is_resolved and may_be_ahead else None
            if task.is_resolved:
                if task.last_run.reason_resolved is Resolved.DEADLINE_EXCEEDED:
                    return transitions.resolved_again(task, task.last_run_id, now)
                resolved = PutResolved(task_id=task.task_id, run_id=task.last_run_id, at_deadline=True)
                return Decision(task=None, ahead=(resolved,))
            if task.deadline + self._deadline_delay > now:
                again = task.deadline
                raise NoDecision(f"the deadline of task {task_id} is ahead")
            return transitions.end(task, Resolved.DEADLINE_EXCEEDED, now)

        try:
            await self._executor.run(task_id, at_deadline)
        except ResourceNotFound:
            if may_be_ahead:
                again = later
            else:
                await self._group_check.check(task_group_id)
        except NoDecision:
            pass  # it is put again
        if again is not None:
            timer = PutDeadline(task_id=task_id, task_group_id=task_group_id, scheduler_id=scheduler_id, deadline=again)
            await self._stores.messages.put_deadline(timer, put)


SPREAD = 5.0
"""Seconds over which the pointers that wait for one pause are spread."""


class Postponed(ServiceError):
    """The topic of an event cannot be reached, as far as is known. It is to be tried again in `delay` seconds."""

    def __init__(self, delay: float) -> None:
        super().__init__(f"for {delay:.0f} s")
        self.delay = delay


class Redelivery:
    """Sends the events that pointers in the `events` queue name. While a topic cannot be reached all its pointers back
    off as one: after a pause a single one of them is tried, and its outcome decides for the others. One that is
    received meanwhile costs only the request that puts it back."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        now = stores.runtime.now
        self._breakers = {each: Breaker(lambda: now().timestamp(), retries=UNSENT_EVENTS) for each in Exchange}

    async def event_due(self, event: Event) -> None:
        """Renders and publishes the event as of then. A pointer of a claim that was given back is dropped. A pointer of
        a deleted task is dropped, logged and counted as lost, also if the id is used again. Raises Postponed,
        StorageUnavailable; ValueError for an event that cannot have happened to its task."""
        breaker, loaded = self._breakers[event.exchange], None
        if breaker.blocks():
            raise self._postponed(breaker)
        with breaker.attempt():
            if isinstance(event, TaskEvent):
                loaded = await self._stores.tasks.load(event.task_id)
                if loaded is None or event.life not in ("", loaded.task.life):
                    text = "an event of %s is lost: its task was deleted while the topic could not be reached"
                    fields = {"action": "event_lost", "taskId": event.task_id, "runId": event.run_id}
                    self._stores.runtime.meter.add(EVENTS_LOST)
                    log.error(text, event.exchange.value, extra=fields)
                    return
                if announcements.is_undone(event, loaded.task):
                    return
            try:
                await self._stores.announcer.publish(event, loaded)
            except EventsUnavailable as failure:
                breaker.failed()
                raise self._postponed(breaker) from failure
            breaker.succeeded()

    def _postponed(self, breaker: Breaker) -> Postponed:
        return Postponed(breaker.pause_left + self._stores.runtime.jitter() * SPREAD)
