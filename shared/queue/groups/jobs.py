"""Calls on every unresolved task of a group: cancel, change priority (design 2.6, 6; contract 2.4).

A job message that was put first carries on when the call dies or runs out of time; it goes when nothing is left.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Literal

from shared.auth.audit import Entry, note
from shared.base import bounds
from shared.base.concurrency import both, together
from shared.base.errors import ApiError, RequestConflict, ResourceNotFound
from shared.base.frozen import dataclass
from shared.base.priority import Priority
from shared.base.protocol import ORPHAN_AFTER, STORAGE_CLOCK_SKEW
from shared.queue.groups.rows import Active
from shared.queue.tasks import transitions
from shared.queue.tasks.effects import Decision, NoDecision
from shared.queue.tasks.executor import Decide, Executor, Stores
from shared.queue.tasks.internal_messages import GroupJobBody
from shared.queue.tasks.rows import Loaded
from shared.store.interface import StorageUnavailable
from shared.store.partitions import PageReader

log = logging.getLogger("taskcluster.groups")

CALL_SECONDS = 15.0
"""Time budget of the HTTP call itself; the job does the rest."""
JOB_SECONDS = 240.0
"""Time budget of one run of the job; then it puts its message again."""
JOB_DELAY = 60.0
"""Seconds until the job of a call starts: the call should have done it by then."""
YOUNG_AGAIN = 30.0


class _NotMeant(NoDecision):
    """The call is not about this task: it is of another group or a later generation, or was changed since the call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupJob:
    """What to do with each unresolved task of a group."""

    task_group_id: str
    kind: Literal["cancel", "priority"]
    new_priority: Priority | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """The tasks that were changed, and the seconds until the rest is due; None if nothing is left."""

    changed: list[str]
    again: float | None
    failure: Exception | None = None
    """Why one of them could not be changed."""


class GroupJobs:
    """Runs jobs, both in the call itself and in the queue-triggered function.

    The function continues the jobs of calls that died or ran out of time. Other calls may have been answered in the
    meantime, and a job must not undo them. So a later call of the same kind on the group replaces it. It changes only
    tasks that were opened before it was asked for, in the generation of that time. And it leaves tasks alone whose
    priority was changed since.
    """

    def __init__(self, stores: Stores, executor: Executor) -> None:
        self._stores = stores
        self._executor = executor

    async def call(self, job: GroupJob, entry: Entry | None = None) -> list[str]:
        """Does the job as far as a call's time allows; returns the tasks that were changed.

        Put the job's message before the note that cancels the jobs of earlier calls: it does their work too. Raises
        StorageUnavailable, ServiceUnavailable: the job goes on without the call.
        """
        asked = self._stores.runtime.now()
        groups = self._stores.groups
        note(entry, None)
        handle = await self._stores.messages.put(_body(job, asked), JOB_DELAY)
        _, first = await both(
            groups.note_job(job.task_group_id, job.kind, asked), groups.active_page(job.task_group_id, None)
        )
        progress = await self._work(job, asked, CALL_SECONDS, first, in_call=True)
        if progress.failure is not None:
            raise progress.failure
        note(entry, bool(progress.changed) or progress.again is not None)
        if progress.again is None:
            await self._stores.messages.remove(handle)
        return progress.changed

    async def job_due(self, job: GroupJob, asked: datetime) -> None:
        """Handles a job message: does the rest of a call that was made at `asked`.

        Raises what has kept one of the tasks from being changed, once all others were tried.
        """
        groups = self._stores.groups
        latest, first = await both(
            groups.latest_job(job.task_group_id, job.kind), groups.active_page(job.task_group_id, None)
        )
        if latest is not None and latest > asked:
            return
        progress = await self._work(job, asked, JOB_SECONDS, first, in_call=False)
        if progress.again is not None:
            await self._stores.messages.put(_body(job, asked), progress.again)
        elif progress.failure is not None:
            raise progress.failure

    async def size(self, task_group_id: str) -> int:
        """Number of tasks of the group: one request for each thousand."""
        return sum([len(page) async for page in self._stores.groups.all_members(task_group_id)])

    async def _work(
        self,
        job: GroupJob,
        asked: datetime,
        seconds: float,
        first: tuple[list[Active], str | None],
        *,
        in_call: bool,
    ) -> Progress:
        until = self._stores.runtime.now() + timedelta(seconds=seconds)
        changed: list[str] = []
        young = False
        failure: Exception | None = None

        async def read(start: str | None) -> tuple[list[Active], str | None]:
            return first if start is None else await self._stores.groups.active_page(job.task_group_id, start)

        async for rows in PageReader(read):
            meant = [row for row in rows if in_call or row.since <= asked + 2 * STORAGE_CLOCK_SKEW]
            for at in range(0, len(meant), bounds.TASKS_AT_A_TIME):
                if self._stores.runtime.now() >= until:
                    return Progress(changed=changed, again=0, failure=failure)
                some = meant[at : at + bounds.TASKS_AT_A_TIME]
                for outcome in await together(*(self._one(job, asked, row) for row in some)):
                    changed.extend(outcome.changed)
                    young = young or outcome.again is not None
                    failure = failure or outcome.failure
        return Progress(changed=changed, again=YOUNG_AGAIN if young else None, failure=failure)

    async def _one(self, job: GroupJob, asked: datetime, row: Active) -> Progress:
        age = self._stores.runtime.now() - row.written
        try:
            changed = await self._change(job, asked, row)
        except ResourceNotFound:
            return Progress(changed=[], again=YOUNG_AGAIN if age < ORPHAN_AFTER else None)
        except (RequestConflict, _NotMeant):
            return Progress(changed=[], again=None)
        except (StorageUnavailable, ApiError) as failure:
            return Progress(changed=[], again=None, failure=failure)
        except Exception as defect:
            log.exception("task %s of a group was not changed", row.task_id, extra={"taskId": row.task_id})
            return Progress(changed=[], again=None, failure=defect)
        return Progress(changed=[row.task_id] if changed else [], again=None)

    async def _change(self, job: GroupJob, asked: datetime, row: Active) -> bool:
        """Applies the job to one task. Returns whether this has changed the task.

        A refused createTask can leave a row that names any task. The caller is authorised for this group only, so the
        status row decides whether the task belongs to the group. A generation that was opened after the listing has an
        active row of its own. Raises RequestConflict, ResourceNotFound, _NotMeant.
        """
        changed = False
        hint_id = self._stores.runtime.slugid()
        decide = self._transition(job, asked, hint_id)

        def deciding(read: Loaded, now: datetime) -> Decision:
            nonlocal changed
            task = read.task
            if task.task_group_id != job.task_group_id or task.generation > row.generation:
                raise _NotMeant
            if task.generation < row.generation:
                raise ResourceNotFound(f"task {task.task_id} has not been opened again")
            decision = decide(read, now)
            after = decision.task
            changed = after is not None and (after.is_resolved or after.priority != task.priority)
            return decision

        await self._executor.run(row.task_id, deciding)
        return changed

    @staticmethod
    def _transition(job: GroupJob, asked: datetime, hint_id: str) -> Decide:
        if job.kind == "cancel":
            return lambda read, now: transitions.cancel(read.task, now)
        priority = job.new_priority
        assert priority is not None, "a priority job names its priority"

        def change(read: Loaded, now: datetime) -> Decision:
            if read.task.prioritised is not None and read.task.prioritised > asked:
                raise _NotMeant
            return transitions.set_priority(read.task, priority, asked, now, hint_id)

        return change


def _body(job: GroupJob, asked: datetime) -> GroupJobBody:
    return GroupJobBody(task_group_id=job.task_group_id, kind=job.kind, new_priority=job.new_priority, asked=asked)
