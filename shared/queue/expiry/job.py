"""The expiry job: deletes what has expired, hour by hour (contract 14.3, design 3). Every step may be repeated."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import Enum, auto

from shared.auth.audit import Audit, Subject
from shared.auth.clients.rows import ClientStore
from shared.base import bounds
from shared.base.concurrency import in_waves
from shared.base.errors import ServiceError
from shared.base.frozen import dataclass
from shared.base.protocol import ROWS_COMPLETE_AFTER
from shared.queue.tasks.internal_messages import EVENTS_QUEUE
from shared.runtime import Runtime
from shared.store import keys
from shared.store.expiring import FIRST_RETRY, LAST_RETRY, Expiring, ExpiryStore
from shared.store.interface import MAX_OPERATIONS, Queues, StorageUnavailable
from shared.store.partitions import OutOfTime
from shared.telemetry.instruments import EXPIRATIONS_FAILED, UNANNOUNCED_EXPIRATIONS
from shared.telemetry.meter import Meter

log = logging.getLogger("taskcluster.expiration")
LONGEST = timedelta(minutes=1)
"""Time budget for one item while others wait. What is left of the item is due again in a later hour."""
OF_EVENTS = frozenset({"task", keys.SWEPT_GROUP})
"""Kinds of items whose deletion waits while events that may be about them are unsent."""
EXPIRY_JOB = "static/taskcluster/auth"
"""The clientId that the audit log names for the deletion of an expired client, as upstream does."""
LISTED = "listed"
"""Kind of rows about the list of groups. They are due with their group and stay as long, so they come after it."""
_HOUR = timedelta(hours=1)
LONGEST_HOLD = timedelta(days=7)
"""The time for which a task stays after its expiration while events are unsent. Longer than any outage that somebody
repairs, and short enough that one broken topic does not fill the account."""


class UnsentEvents:
    """Puts off deletions while there are unsent events: a pointer to an event names its task, and cannot be rendered
    without the task's rows. While the queue of pointers is not empty, each of them may belong to any expired task."""

    def __init__(self, queues: Queues, runtime: Runtime) -> None:
        self._queues = queues
        self._now = runtime.now
        self._meter = runtime.meter
        self._are_some = False

    async def are_unsent(self) -> None:
        """Checks whether there are unsent events: one request, before a run of the expiry job deletes the first task.
        The result holds for the whole run. A call that may still put a pointer has changed its task so recently that
        the task stays anyway (`ROWS_COMPLETE_AFTER`). Raises StorageUnavailable."""
        self._are_some = await self._queues.length(EVENTS_QUEUE) > 0

    def held_until(self, expires: datetime) -> datetime | None:
        """Returns when to try again to delete a task or group that expired at `expires`; None if it may be deleted. The
        pauses grow up to a day, so that an outage of a week costs each task a dozen tries."""
        held = self._now() - expires
        if not self._are_some or held >= LONGEST_HOLD:
            return None
        return self._now() + min(max(held, FIRST_RETRY), LAST_RETRY)

    def note_deleted(self, task_id: str) -> None:
        """Notes that an expired task was deleted. If there are unsent events, some may have been about it."""
        if not self._are_some:
            return
        self._meter.add(UNANNOUNCED_EXPIRATIONS)
        text = "task %s was deleted although events are unsent for %d days: those of it are lost"
        fields = {"action": "expired_unannounced", "taskId": task_id}
        log.error(text, task_id, LONGEST_HOLD.days, extra=fields)


STUCK_AFTER = 5
"""Failures in a row, over a day or more, after which a deletion needs a person."""


class ProcessDied(ServiceError):
    """The process died while it tried to delete something."""


def note_failure(meter: Meter, kind: str, key: str, failures: int, error: Exception) -> None:
    """Logs and counts that the item of this row of the Expiry table could not be deleted, `failures` times in a row."""
    is_stuck = failures >= STUCK_AFTER
    meter.add(EXPIRATIONS_FAILED, kind, "yes" if is_stuck else "no")
    passing = isinstance(error, StorageUnavailable | ProcessDied)
    log.log(
        logging.ERROR if is_stuck or not passing else logging.WARNING,
        "cannot delete %s (failed %d times in a row): %s",
        key,
        failures,
        error,
        extra={"action": "expiration_stuck" if is_stuck else "expiration_failed", "failures": failures},
        exc_info=None if passing else error,
    )


@dataclass(frozen=True, slots=True)
class _Failed:
    error: Exception


_Result = datetime | _Failed | None
"""The outcome for one item: see `Expiration`."""
Expire = Callable[[Expiring, datetime], Awaitable[datetime | None]]
"""Deletes an item within a time limit. Returns when it is due again, if ever. Raises OutOfTime: a later run goes on."""


class _Outcome(Enum):
    DONE = auto()
    """The item was deleted, or is due later."""
    FAILED = auto()
    """The deletion failed, and is due again after a back-off."""
    UNTOUCHED = auto()
    """The item is still in its bucket, to be tried again by the next run."""


class Expiration:
    """Works through the buckets of the Expiry table whose hour is over.

    A failed item is due again after a back-off, in a later bucket, so that it never holds up other items. The death of
    the process counts as a failure, too: a run notes what it is about to delete, and items that have killed a process
    are tried last, one at a time. What takes long is deleted in parts, each of which is due in a later hour."""

    def __init__(
        self, expiry: ExpiryStore, unsent_events: UnsentEvents, by_kind: Mapping[str, Expire], runtime: Runtime
    ) -> None:
        self._expiry = expiry
        self._unsent_events = unsent_events
        self._by_kind = by_kind
        self._meter = runtime.meter
        self._now = runtime.now

    async def run(self, seconds: float) -> int:
        """Deletes what is due, for about `seconds`. Returns how many items were handled. Raises StorageUnavailable when
        nothing could be done: all that was due failed, or the Expiry table cannot be read or written."""
        until = self._now() + timedelta(seconds=seconds)
        position = await self._expiry.position()
        hour, is_noted = position.hour, bool(position.bucket)
        looked_at = failed = 0
        is_over = has_looked_for_events = False
        try:
            while hour + _HOUR + ROWS_COMPLETE_AFTER <= self._now() and not is_over:
                due = await self._expiry.due(keys.hour(hour))
                if not has_looked_for_events and any(each.kind in OF_EVENTS for each in due):
                    await self._unsent_events.are_unsent()
                    has_looked_for_events = True
                await self._count_deaths([each for each in due if position.was_begun(each)])
                for batch in _batches([each for each in due if not position.was_begun(each)]):
                    await self._expiry.note_run(hour, batch)
                    is_noted = True
                    outcomes = await self._expire_all(batch, until)
                    looked_at += len(outcomes) - outcomes.count(_Outcome.UNTOUCHED)
                    failed += outcomes.count(_Outcome.FAILED)
                    is_over = _Outcome.UNTOUCHED in outcomes or self._now() >= until
                    if is_over:
                        break
                if not due:
                    hour += _HOUR
        except Exception:
            if is_noted:
                with suppress(StorageUnavailable):  # otherwise the next run counts a failure too many
                    await self._expiry.finished_before(hour)
            raise
        if is_noted or hour != position.hour:
            await self._expiry.finished_before(hour)
        if looked_at and failed == looked_at:
            raise StorageUnavailable(f"none of {looked_at} expired things could be deleted")
        return looked_at

    async def _count_deaths(self, died: Sequence[Expiring]) -> None:
        """Schedules another try, for later, of what a run was deleting when its process died."""

        async def count(expiring: Expiring) -> None:
            death = ProcessDied("the process that tried it has died")
            self._note_failure(expiring, await self._expiry.retry_later(expiring, has_died=True), death)

        await in_waves(bounds.BACKGROUND, count, died)
        await self._expiry.done(died)

    async def _expire_all(self, batch: Sequence[Expiring], until: datetime) -> list[_Outcome]:
        """Deletes some things of one bucket, and removes from it what is done with or due later."""

        async def begin(expiring: Expiring) -> _Result:
            if self._now() >= until:
                return _Failed(OutOfTime())
            try:
                return await self._by_kind[expiring.kind](expiring, min(until, self._now() + LONGEST))
            except Exception as error:
                return _Failed(error)

        results: dict[str, _Result] = {}
        for some in ([each for each in batch if each.kind != LISTED], [each for each in batch if each.kind == LISTED]):
            results |= zip([each.key for each in some], await in_waves(bounds.BACKGROUND, begin, some), strict=True)
        unavailable: list[StorageUnavailable] = []

        async def conclude(expiring: Expiring) -> _Outcome:
            try:
                return await self._conclude(expiring, results[expiring.key], until)
            except StorageUnavailable as error:
                unavailable.append(error)
                return _Outcome.UNTOUCHED

        outcomes = await in_waves(bounds.BACKGROUND, conclude, batch)
        handled = [each for each, outcome in zip(batch, outcomes, strict=True) if outcome is not _Outcome.UNTOUCHED]
        await self._expiry.done(handled)
        if unavailable:
            raise unavailable[0]
        return outcomes

    async def _conclude(self, expiring: Expiring, result: _Result, until: datetime) -> _Outcome:
        """Schedules an item again, if it is due later or failed. Returns its outcome. Raises StorageUnavailable."""
        if isinstance(result, _Failed):
            if isinstance(result.error, OutOfTime):
                return await self._leave_rest(expiring, result.error.resume, until)
            failures = await self._expiry.retry_later(expiring)
            self._note_failure(expiring, failures, result.error)
            return _Outcome.FAILED
        if result is not None:
            await self._expiry.reschedule(expiring, result)
        return _Outcome.DONE

    async def _leave_rest(self, expiring: Expiring, resume: str | None, until: datetime) -> _Outcome:
        """Leaves the rest of an item for later: to the next run if this one is out of time, else to a later hour, so
        that other items have their turn."""
        if self._now() < until:
            await self._expiry.reschedule(expiring, self._now(), resume)
            return _Outcome.DONE
        if resume is not None:
            await self._expiry.note_progress(expiring, resume)
        return _Outcome.UNTOUCHED

    def _note_failure(self, expiring: Expiring, failures: int, error: Exception) -> None:
        kind = expiring.kind if expiring.kind in self._by_kind else "unknown"
        note_failure(self._meter, kind, expiring.key, failures, error)


async def nothing_else(expiring: Expiring, until: datetime) -> None:
    """Deletes nothing but the row of the Expiry table itself."""


def expire_client(clients: ClientStore, audit_log: Audit, now: Callable[[], datetime]) -> Expire:
    """Deletes a client that is marked for deletion on expiration. A client that was prolonged has a later row."""

    async def expire(expiring: Expiring, until: datetime) -> None:
        client_id = str(expiring.values["clientId"])
        async with audit_log.entry(Subject("client", client_id), "expired", EXPIRY_JOB) as entry:

            async def ahead() -> None:
                await entry.begin_entry()
                entry.happens = None

            is_gone = await clients.delete_expired(client_id, now(), ahead)
            entry.happens = is_gone and entry.has_begun

    return expire


def _batches(due: Sequence[Expiring]) -> Iterator[Sequence[Expiring]]:
    """Yields as many items at a time as one request removes from their bucket. Items during whose deletion a process
    has died come last, one by one."""
    others = [each for each in due if not each.deaths]
    for start in range(0, len(others), MAX_OPERATIONS):
        yield others[start : start + MAX_OPERATIONS]
    for each in due:
        if each.deaths:
            yield [each]
