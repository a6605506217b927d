"""Events that could not be sent yet, and the expired tasks that they are still rendered from (design 2.5)."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from shared.runtime import Runtime
from shared.storage.expiry import FIRST_RETRY, LAST_RETRY
from shared.storage.interface import Queues
from shared.storage.internal_messages import EVENTS_QUEUE
from shared.telemetry.instruments import UNANNOUNCED_EXPIRATIONS

log = logging.getLogger("taskcluster.expiration")

LONGEST_HOLD = timedelta(days=7)
"""How long a task stays after its expiration while events are unsent.

Longer than an outage that nobody ends; shorter than it takes to fill an account where one topic never takes anything.
"""


class UnsentEvents:
    """Holds back the deletion of what events may still need: a pointer to an event names its task, and is nothing
    without the task's rows.

    While the queue of pointers is not empty any of them may be of any task that has expired.
    """

    def __init__(self, queues: Queues, runtime: Runtime) -> None:
        self._queues = queues
        self._now = runtime.now
        self._meter = runtime.meter
        self._are_some = False

    async def look(self) -> None:
        """Looks whether there are any: one request, before a run of the expiry job deletes the first task.

        It holds for the run: what could put a pointer later has changed the task so lately that it stays anyway
        (`ROWS_COMPLETE_AFTER`). Raises StorageUnavailable.
        """
        self._are_some = await self._queues.length(EVENTS_QUEUE) > 0

    def held_until(self, expires: datetime) -> datetime | None:
        """When to look again at a task, or a group, that has expired then; None if it may be deleted.

        The longer it was held already, the later, up to a day: an outage of a week costs each task a dozen looks.
        """
        held = self._now() - expires
        if not self._are_some or held >= LONGEST_HOLD:
            return None
        return self._now() + min(max(held, FIRST_RETRY), LAST_RETRY)

    def note_deleted(self, task_id: str) -> None:
        """A task was deleted that has expired: if there are unsent events they may have been of it."""
        if not self._are_some:
            return
        self._meter.add(UNANNOUNCED_EXPIRATIONS)
        text = "task %s was deleted although events are unsent for %d days: those of it are lost"
        fields = {"action": "expired_unannounced", "taskId": task_id}
        log.error(text, task_id, LONGEST_HOLD.days, extra=fields)
