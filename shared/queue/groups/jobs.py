"""Calls on every unresolved task of a group: cancel, change priority (design 2.6, 5; contract 2.4). A job message
carries on when the call dies or runs out of time; it goes when nothing is left."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import field
from datetime import datetime, timedelta
from itertools import compress
from typing import Literal

from shared.auth.audit import Entry, note_change
from shared.base import bounds
from shared.base.concurrency import both, together
from shared.base.errors import ApiError, RequestConflict, ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass
from shared.base.priority import Priority
from shared.base.protocol import ORPHAN_AFTER
from shared.queue.groups.rows import Active
from shared.queue.groups.store import GroupChanged
from shared.queue.tasks import transitions
from shared.queue.tasks.effects import Decision, NoDecision
from shared.queue.tasks.executor import Executor, Stores
from shared.queue.tasks.internal_messages import GroupJobBody
from shared.queue.tasks.rows import Loaded
from shared.runtime import attempts
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


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupJob:
    """The change to make to each unresolved task of a group."""

    task_group_id: str
    kind: Literal["cancel", "priority"]
    new_priority: Priority | None = None


@dataclass(kw_only=True, slots=True)
class _Progress:
    """The tasks that were changed, and the seconds until the rest is due; None if nothing is left."""

    changed: list[str] = field(default_factory=list)
    again: float | None = None
    failure: Exception | None = None
    """The reason why one of the tasks could not be changed."""


@dataclass(eq=False, repr=False)
class GroupJobs:
    """Runs jobs, both in the call itself and in the queue-triggered function.

    The function continues the jobs of calls that died or ran out of time. Other calls may have been answered in the
    meantime, and a job must not undo them. So each call raises the group's number, and a job changes only tasks that
    were opened, or have their priority, as of a lower number (design 5)."""

    _stores: Stores
    _executor: Executor

    async def call(self, job: GroupJob, entry: Entry | None = None) -> list[str]:
        """Does the job as far as a call's time allows; returns the tasks that were changed. The number is raised before
        anything else: a call that dies in between has done nothing. Raises ResourceNotFound; StorageUnavailable,
        ServiceUnavailable: the job may go on without the call."""
        body = await self._counted(job)
        note_change(entry, None)
        handle, first = await both(
            self._stores.messages.put_body(body, JOB_DELAY), self._stores.groups.active_page(job.task_group_id, None)
        )
        progress = await self._work(body, CALL_SECONDS, first)
        if progress.failure is not None:
            raise progress.failure
        note_change(entry, bool(progress.changed) or progress.again is not None)
        if progress.again is None:
            await self._stores.messages.remove_message(handle)
        return progress.changed

    async def _counted(self, job: GroupJob) -> GroupJobBody:
        """Raises the group's number for this call, and returns the job's message."""
        groups = self._stores.groups
        async for _ in attempts(self._stores.runtime):
            group = groups.known(job.task_group_id) or await groups.header(job.task_group_id)
            if group is None:
                raise ResourceNotFound(f"task group {job.task_group_id} does not exist")
            with suppress(GroupChanged):
                group = await groups.count_call(group, job.kind)
                return GroupJobBody(
                    task_group_id=job.task_group_id,
                    kind=job.kind,
                    new_priority=job.new_priority,
                    number=group.number,
                    listed=group.listed,
                )
        raise ServiceUnavailable("the task group is contended; send the call again")

    async def job_due(self, body: GroupJobBody) -> None:
        """Handles a job message: does the rest of a call, unless its group has been deleted, and perhaps created anew.
        Raises what has kept one of the tasks from being changed, once all others were tried."""
        groups = self._stores.groups
        group, first = await both(groups.header(body.task_group_id), groups.active_page(body.task_group_id, None))
        if group is None or group.listed != body.listed:
            return
        progress = await self._work(body, JOB_SECONDS, first)
        if progress.again is not None:
            await self._stores.messages.put_body(body, progress.again)
        elif progress.failure is not None:
            raise progress.failure

    async def size(self, task_group_id: str) -> int:
        """Returns the number of tasks of the group: one request for each thousand."""
        return sum([len(page) async for page in self._stores.groups.all_members(task_group_id)])

    async def _work(self, job: GroupJobBody, seconds: float, first: tuple[list[Active], str | None]) -> _Progress:
        until, progress = self._stores.runtime.now() + timedelta(seconds=seconds), _Progress()

        async def read_active(start: str | None) -> tuple[list[Active], str | None]:
            return first if start is None else await self._stores.groups.active_page(job.task_group_id, start)

        async for rows in PageReader(read_active):
            for at in range(0, len(rows), bounds.TASKS_AT_A_TIME):
                if self._stores.runtime.now() >= until:
                    progress.again = 0
                    return progress
                some = rows[at : at + bounds.TASKS_AT_A_TIME]
                are_changed = await together(*(self._one(job, row, progress) for row in some))
                progress.changed += compress([row.task_id for row in some], are_changed)
        return progress

    async def _one(self, job: GroupJobBody, row: Active, progress: _Progress) -> bool:
        """Applies the job to one task. Returns whether this has changed the task; else notes what is left to do."""
        age = self._stores.runtime.now() - row.written
        try:
            return await self._change_task(job, row)
        except ResourceNotFound:
            if age < ORPHAN_AFTER:
                progress.again = YOUNG_AGAIN
        except (RequestConflict, NoDecision):
            pass
        except (StorageUnavailable, ApiError) as failure:
            progress.failure = progress.failure or failure
        except Exception as defect:
            log.exception("task %s of a group was not changed", row.task_id, extra={"taskId": row.task_id})
            progress.failure = progress.failure or defect
        return False

    async def _change_task(self, job: GroupJobBody, row: Active) -> bool:
        """Changes the task of a row if its status row is of this group: a refused createTask can leave one of any task,
        and the caller is authorised for this group. Raises RequestConflict, ResourceNotFound, NoDecision."""
        changed = False
        hint_id = self._stores.runtime.slugid()

        def decide(read: Loaded, now: datetime) -> Decision:
            nonlocal changed
            task = read.task
            if task.task_group_id != job.task_group_id:
                raise NoDecision(f"task {task.task_id} is of another group")
            if task.generation < row.generation:
                raise ResourceNotFound(f"task {task.task_id} has not been opened again")
            if task.generation > row.generation:
                raise NoDecision(f"task {task.task_id} was opened again, which has a row of its own")
            if job.new_priority is None:
                decision = transitions.cancel_by_group(task, now, job.number)
            else:
                decision = transitions.set_priority(task, job.new_priority, now, hint_id, job.number)
            after = decision.task
            changed = after is not None and (after.is_resolved or after.priority != task.priority)
            return decision

        await self._executor.run(row.task_id, decide)
        return changed
