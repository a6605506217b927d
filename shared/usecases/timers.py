"""Claim and deadline messages that are due (design 4, 5). Each handler may run twice; the second finds it done."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.domain import claims, transitions
from shared.domain.claims import NotExpired
from shared.domain.effects import Decision, NoDecision
from shared.domain.task import Resolved
from shared.errors import ResourceNotFound
from shared.storage.tasks import Loaded
from shared.usecases.executor import Executor, Stores
from shared.usecases.group_check import GroupCheck

COMMIT_MAY_COME = timedelta(minutes=5)
"""For so long a message without its task is taken for one whose commit is under way."""
LOOK_AGAIN = 30.0
"""Seconds until such a message is looked at again."""


class _NotDue(NoDecision):
    def __init__(self, deadline: datetime | None) -> None:
        super().__init__(str(deadline))
        self.deadline = deadline


class Timers:
    """What happens when a timer's message becomes visible."""

    def __init__(self, stores: Stores, executor: Executor, group_check: GroupCheck, deadline_delay: timedelta) -> None:
        self._stores = stores
        self._executor = executor
        self._group_check = group_check
        self._deadline_delay = deadline_delay

    async def claim_due(self, task_id: str, run_id: int, put: datetime) -> None:
        """takenUntil has passed, or so the message says: the status row decides. Raises StorageUnavailable."""
        spare_hint_id = self._stores.runtime.slugid()
        try:
            await self._executor.run(
                task_id, lambda read, now: claims.expire(read.task, run_id, put, now, spare_hint_id)
            )
        except ResourceNotFound:
            return
        except NotExpired as early:
            if early.again is not None:
                await self._stores.messages.put_claim(task_id, run_id, early.again, put)

    async def deadline_due(self, task_id: str, task_group_id: str, scheduler_id: str, put: datetime) -> None:
        """The deadline has passed, or it is a station on the way to one more than 7 days ahead.

        A message of a call that died, or was refused, may name a task that does not exist in that group: then the
        group may have been waiting for it. Raises StorageUnavailable.
        """
        messages = self._stores.messages
        now = self._stores.runtime.now()

        def at_deadline(read: Loaded, now: datetime) -> Decision:
            if read.task.task_group_id != task_group_id:
                raise ResourceNotFound(f"task {task_id} is not of group {task_group_id}")
            return self._at_deadline(read, now)

        try:
            await self._executor.run(task_id, at_deadline)
        except ResourceNotFound:
            if now - put < COMMIT_MAY_COME:
                again = now + timedelta(seconds=LOOK_AGAIN) - self._deadline_delay
                await messages.put_deadline(task_id, task_group_id, scheduler_id, again, put)
            else:
                await self._group_check.check(task_group_id)
        except _NotDue as early:
            if early.deadline is not None:
                await messages.put_deadline(task_id, task_group_id, scheduler_id, early.deadline, put)

    def _at_deadline(self, read: Loaded, now: datetime) -> Decision:
        task = read.task
        if task.is_resolved:
            decision = transitions.resolved_again(task, task.last_run_id)
            was_ours = task.last_run.reason_resolved is Resolved.DEADLINE_EXCEEDED
            return decision if was_ours else Decision(task=None, ahead=decision.ahead)
        if task.deadline + self._deadline_delay > now:
            raise _NotDue(task.deadline)
        return transitions.end(task, Resolved.DEADLINE_EXCEEDED, now)
