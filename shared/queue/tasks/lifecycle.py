"""Calls that move one task: schedule, cancel, rerun, report (contract 2.4, 4)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from shared.auth.audit import Entry, note_change
from shared.base.frozen import dataclass, replace
from shared.base.priority import Priority
from shared.queue.groups.store import NumberPassed
from shared.queue.tasks import transitions
from shared.queue.tasks.definition import Json
from shared.queue.tasks.effects import Decision, PutResolved
from shared.queue.tasks.executor import Decide, Executor, Stores
from shared.queue.tasks.rows import Loaded
from shared.queue.tasks.rules import Resolved, Task


@dataclass(eq=False, repr=False)
class Lifecycle:
    """Calls that move one task. Each returns the task as it is after the call. All raise ResourceNotFound,
    RequestConflict, ServiceUnavailable, StorageUnavailable."""

    _stores: Stores
    _executor: Executor

    async def status(self, task_id: str) -> Task:
        """Returns the status of a task."""
        return await self._stores.tasks.existing_status(task_id)

    async def definition(self, task_id: str) -> Json:
        """Returns the definition, with the task's present priority."""
        return (await self._stores.tasks.existing(task_id)).body

    async def existing(self, task_id: str) -> Loaded:
        """Returns a task so that a call on it can be authorised, by properties that never change, and then move it. The
        task is as this process has committed it last (design 2.8), else it is read. Raises ResourceNotFound."""
        return self._executor.last_committed(task_id) or await self._stores.tasks.existing(task_id)

    async def schedule(self, read: Loaded, entry: Entry | None = None) -> Task:
        """Implements scheduleTask."""
        hint_id = self._stores.runtime.slugid()
        return await self._audited(read, lambda read, now: transitions.schedule(read.task, now, hint_id), entry)

    async def cancel(self, read: Loaded, entry: Entry | None = None) -> Task:
        """Implements cancelTask."""
        return await self._audited(read, lambda read, now: transitions.cancel(read.task, now), entry)

    async def rerun(self, read: Loaded, entry: Entry | None = None) -> Task:
        """Implements rerunTask. It comes after calls on the group that were answered before, also for an open task."""

        def as_of(number: int, hint_id: str, *, is_read: bool) -> Decide:
            return lambda read, now: transitions.rerun(read.task, now, hint_id, number, is_confirmed=is_read)

        return await self._in_order(read, as_of, entry)

    async def change_priority(self, read: Loaded, priority: Priority, entry: Entry | None = None) -> Task:
        """Implements changeTaskPriority. It comes after the calls on the whole group that were answered before."""
        last = Decision(task=None)

        def as_of(number: int, hint_id: str, *, is_read: bool) -> Decide:
            def decide(read: Loaded, now: datetime) -> Decision:
                nonlocal last
                task, is_changed = read.task, is_read and last.refusal is None
                if is_changed and (task.is_resolved or task.generation > 0 or task.deadline <= now):
                    return Decision(task=None)
                later = max(number, task.opened_as_of)
                decision = transitions.change_priority(task, priority, now, hint_id, later, is_confirmed=is_read)
                if is_changed:
                    return replace(decision, refusal=None)
                last = decision
                return decision

            return decide

        moved = await self._in_order(read, as_of, entry)
        note_change(entry, True)
        return moved

    async def _in_order(self, read: Loaded, as_of: Callable[..., Decide], entry: Entry | None) -> Task:
        """Moves a task by a call that is ordered with those on its whole group, which are told by the number that the
        commit names. Once committed, that has to be the group's number still. Otherwise the present one is read, and
        the task committed as of that: whatever was answered before this call began is told by that number, so it needs
        no second confirmation (design 5). `as_of` returns the transition for a number; `is_read`: the number was read
        in this call."""
        known = self._stores.groups.known(read.task.task_group_id)
        number, new_id = 0 if known is None else known.number, self._stores.runtime.slugid
        try:
            return await self._audited(read, as_of(number, new_id(), is_read=False), entry)
        except NumberPassed as passed:
            again = as_of(passed.number, new_id(), is_read=True)
            return await self._audited(await self.existing(read.task.task_id), again, entry)

    async def _audited(self, read: Loaded, decide: Decide, entry: Entry | None) -> Task:
        def deciding(read: Loaded, now: datetime) -> Decision:
            note_change(entry, False)
            before, decision = read.task, decide(read, now)
            after = decision.task or before
            note_change(entry, (after.runs, after.priority) != (before.runs, before.priority))
            return decision

        moved = await self._executor.carry_out(read, deciding, self._executor.write_ahead(read))
        return moved.task

    async def report(self, task_id: str, run_id: int, resolution: Resolved) -> Task:
        """Implements reportCompleted and reportFailed. The resolved message is put while the task is read, if it is."""
        loaded = await self._executor.run_unread(
            task_id,
            lambda read, now: transitions.report(read.task, run_id, resolution, now),
            beside_read=(PutResolved(task_id=task_id, run_id=run_id),),
        )
        return loaded.task

    async def report_exception(self, task_id: str, run_id: int, reason: Resolved) -> Task:
        """Implements reportException."""
        spare_hint_id = self._stores.runtime.slugid()
        loaded = await self._executor.run_unread(
            task_id, lambda read, now: transitions.report_exception(read.task, run_id, reason, now, spare_hint_id)
        )
        return loaded.task
