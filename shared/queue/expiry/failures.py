"""What keeps the expiry job from deleting: tasks with unsent events (design 2.5), and deletions that failed."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from shared.base.errors import ServiceError
from shared.queue.tasks.internal_messages import EVENTS_QUEUE
from shared.runtime import Runtime
from shared.store.expiring import FIRST_RETRY, LAST_RETRY
from shared.store.interface import Queues, StorageUnavailable
from shared.telemetry.instruments import EXPIRATIONS_FAILED, UNANNOUNCED_EXPIRATIONS
from shared.telemetry.meter import Meter

log = logging.getLogger("taskcluster.expiration")

LONGEST_HOLD = timedelta(days=7)
"""The time for which a task stays after its expiration while events are unsent. Longer than any outage that somebody
repairs, and short enough that one broken topic does not fill the account."""


class UnsentEvents:
    """Puts off deletions while there are unsent events: a pointer to an event names its task, and cannot be rendered
    without the task's rows.

    While the queue of pointers is not empty, each of them may belong to any expired task."""

    def __init__(self, queues: Queues, runtime: Runtime) -> None:
        self._queues = queues
        self._now = runtime.now
        self._meter = runtime.meter
        self._are_some = False

    async def look(self) -> None:
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
    """Logs and counts for operators that the item of this row of the Expiry table could not be deleted, `failures`
    times in a row."""
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
