"""Carries decisions out in the one order that is crash-safe: ahead, commit, after, announce (design 2, 5). What was
written ahead is rolled back only when the commit is known not to have happened. A commit without an answer, or in
doubt, leaves it: if the commit did not happen, readers recognise the orphans."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import datetime, timedelta
from typing import assert_never

from shared.base.concurrency import both, together
from shared.base.errors import ApiError, ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass
from shared.base.protocol import ORPHAN_AFTER, RESOLVED_DELAY
from shared.queue.events.announcer import Announcer
from shared.queue.groups.store import GroupStore
from shared.queue.pools.rows import PoolStore
from shared.queue.tasks import effects
from shared.queue.tasks.ahead import AddRow, WriteAhead
from shared.queue.tasks.codec import PackedDefinition
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.edges import GroupEdges
from shared.queue.tasks.effects import After, Ahead, Decision, NoDecision
from shared.queue.tasks.known import KnownTasks
from shared.queue.tasks.messages import Messages
from shared.queue.tasks.rows import CommitInDoubt, CommitLost, Loaded, TaskStore
from shared.queue.tasks.rules import Resolved, Run, State, Task
from shared.runtime import Runtime, attempts
from shared.store.interface import ReceiptLost
from shared.telemetry.instruments import COMPLETED, EXCEPTION, FAILED, TIMER_LATENESS, WAITING
from shared.telemetry.meter import Meter

log = logging.getLogger("taskcluster.tasks")


def note_transition(meter: Meter, before: Task | None, after: Task) -> None:
    """Counts a transition; to be called once for each commit. `before` is the task that it was decided on, if any."""
    for run_id, run in enumerate(after.runs):
        known = before is not None and run_id <= before.last_run_id
        was = before.runs[run_id].state if before is not None and known else State.UNSCHEDULED
        if run.state is was:
            continue
        reason = run.reason_resolved.value if run.reason_resolved else run.reason_created.value
        log.info(
            "run %d of task %s is %s: %s",
            run_id,
            after.task_id,
            run.state.value,
            reason,
            extra={
                "action": f"run_{run.state.value}",
                "taskId": after.task_id,
                "runId": run_id,
                "taskQueueId": after.task_queue_id,
                "reason": reason,
            },
        )
        if run.state.is_resolved:
            _count(meter, after, run)
        elif run.state is State.RUNNING and run.started is not None:
            waited = (run.started - run.scheduled).total_seconds()
            meter.record(WAITING, waited, *after.task_queue_id.split("/", 1))


def _count(meter: Meter, task: Task, run: Run) -> None:
    assert run.reason_resolved is not None, "a resolved run has a reason"
    provisioner_id, worker_type = task.task_queue_id.split("/", 1)
    if run.state is State.COMPLETED:
        meter.add(COMPLETED, provisioner_id, worker_type)
        return
    counter = FAILED if run.state is State.FAILED else EXCEPTION
    meter.add(counter, provisioner_id, worker_type, run.reason_resolved.value)
    if run.resolved is None:
        return
    if run.reason_resolved is Resolved.CLAIM_EXPIRED and run.taken_until is not None:
        meter.record(TIMER_LATENESS, (run.resolved - run.taken_until).total_seconds(), "claim")
    elif run.reason_resolved is Resolved.DEADLINE_EXCEEDED:
        meter.record(TIMER_LATENESS, (run.resolved - task.deadline).total_seconds(), "deadline")


Decide = Callable[[Loaded, datetime], Decision]
"""A transition applied to a task as read. Raises ApiError to refuse."""


@dataclass(frozen=True, kw_only=True)
class Stores:
    """The stores that use-cases read and write."""

    tasks: TaskStore
    groups: GroupStore
    edges: GroupEdges
    """Edges between tasks of one group. Edges between groups are in `tasks`."""
    pools: PoolStore
    messages: Messages
    announcer: Announcer
    runtime: Runtime
    known: KnownTasks = field(default_factory=KnownTasks)

    def write_ahead(
        self, read: Loaded | None = None, *, add_row: AddRow | None = None, resolved_in: timedelta = RESOLVED_DELAY
    ) -> WriteAhead:
        """Returns a new record of what a call writes ahead of a commit that rests on what was `read`. `add_row`, if
        given, writes index rows together with those of other runs."""
        add_row, begun = add_row or self.pools.add_pending, None if read is None else read.read
        return WriteAhead(self.messages, self.pools, self.groups, self.runtime, add_row, resolved_in, begun)


_WEIGHT = 1 / 16
"""Weight of the latest first try in the moving average, which reflects the last few dozen."""
_ENOUGH = 0.75
"""Share of successes from which first tries are worth it: a failure costs up to three requests, a success saves one."""
BeginFollowing = Callable[[Task, Sequence[Ahead], WriteAhead], None]
"""Starts following up a committed resolution in the background; does nothing for other commits."""


class Executor:
    """Runs one transition of one task."""

    def __init__(
        self, stores: Stores, follow: BeginFollowing | None = None, delay: Callable[[], timedelta] | None = None
    ) -> None:
        """Makes the executor. Without `follow`, resolutions are left to their messages; `delay` says how long these are
        then hidden."""
        self._stores = stores
        self._follow = follow
        self._delay = delay
        self._runtime = stores.runtime
        self._succeeded = 1.0
        """The share of first tries that succeeded: nobody else had committed the task since. It is high while one
        process serves a task's worker from the claim on, and low where many processes share the calls."""

    def write_ahead(self, read: Loaded | None = None) -> WriteAhead:
        """Returns a new record of what a call writes ahead of a commit that rests on what was `read`."""
        return self._stores.write_ahead(read, resolved_in=self._delay() if self._delay else RESOLVED_DELAY)

    def last_committed(self, task_id: str) -> Loaded | None:
        """Returns the task as this process has committed it last, if a commit on that version is likely to hold, and
        while no other task can have its id."""
        last = self._stores.tasks.last_committed(task_id)
        return last if last is not None and self._is_worth_a_try(last) else None

    def _is_worth_a_try(self, last: Loaded) -> bool:
        return self._succeeded >= _ENOUGH and last.task.deadline > self._runtime.now()

    async def run(self, task_id: str, decide: Decide) -> Loaded:
        """Reads the task, decides, and carries the decision out; returns the task as it is then. Raises
        ResourceNotFound, what `decide` raises, ServiceUnavailable, StorageUnavailable."""
        read = await self._stores.tasks.existing(task_id)
        return await self.carry_out(read, decide, self.write_ahead(read))

    async def run_unread(
        self,
        task_id: str,
        decide: Decide,
        *,
        beside_read: Sequence[Ahead] = (),
        ahead: WriteAhead | None = None,
        at_least: timedelta = timedelta(0),
    ) -> Loaded:
        """Does what `run` does, but first tries to commit on the task as this process has committed it last (design
        2.8). `beside_read` is what every outcome but a refusal needs, put while the task is being read. Only for calls
        that are authorised by what never changes in a task, and whose repeats are recognised: if the outcome of the
        first try is in doubt, the call is decided again like a repeat."""
        ahead = ahead or self.write_ahead()
        last, read = self._stores.tasks.last_committed(task_id), None
        if last is not None and self._is_worth_a_try(last):
            try:
                done, read = await self._first_try(last, decide, ahead)
                if done is not None:
                    return done
            except CommitInDoubt:
                ahead.leave()
        if read is None:
            read, _ = await both(self._stores.tasks.load(task_id), ahead.ensure(beside_read))
        self._note_first_try(last, read)
        return await self._decide_on_read(task_id, read, decide, ahead, at_least)

    def _note_first_try(self, last: Loaded | None, read: Loaded | None) -> None:
        """Notes how a first try has ended, or would have ended, as a read shows."""
        if last is not None:
            self._succeeded += ((read is not None and read.etag == last.etag) - self._succeeded) * _WEIGHT

    async def _first_try(self, last: Loaded, decide: Decide, ahead: WriteAhead) -> tuple[Loaded | None, Loaded | None]:
        """Carries out what is decided on a task that may have changed. Returns the task as it is then, if it was
        committed, else the task as it is now, if known by then. Only a read tells what to answer to a refusal, no
        change, or a message that somebody else holds. Raises CommitInDoubt, ServiceUnavailable, StorageUnavailable."""
        try:
            decision = decide(last, self._runtime.now())
        except (ApiError, NoDecision):
            return None, None
        if decision.task is None:
            return None, None
        try:
            await ahead.ensure(decision.ahead, replaces_lost=False)
            committed = await self.commit_once(last, decision, ahead)
        except ReceiptLost:
            return None, None
        except CommitLost as lost:
            return None, lost.latest
        self._note_first_try(last, last)
        return await self._finish(committed, decision, ahead), None

    async def carry_out(self, read: Loaded, decide: Decide, ahead: WriteAhead) -> Loaded:
        """Does what `run` does, for a task that was read, or last committed by this process: a refusal needs a read."""
        latest: Loaded | None = read
        if read.read is None:
            done, latest = await self._first_try(read, decide, ahead)
            if done is not None:
                return done
            if latest is None:
                with suppress(ResourceNotFound):
                    latest = await self._stores.tasks.load_again(read)
            self._note_first_try(read, latest)
        return await self._decide_on_read(read.task.task_id, latest, decide, ahead)

    async def _finish(self, committed: Loaded, decision: Decision, ahead: WriteAhead) -> Loaded:
        await self.follow_up(committed, decision)
        if self._follow is not None:
            self._follow(committed.task, decision.ahead, ahead)
        if decision.refusal is not None:
            raise decision.refusal
        return committed

    async def _decide_on_read(
        self, task_id: str, read: Loaded | None, decide: Decide, ahead: WriteAhead, at_least: timedelta = timedelta(0)
    ) -> Loaded:
        """Decides on a task as read, and carries the decision out. A lost race is retried, for `at_least` that long;
        what is ahead of a refused call is rolled back. Raises what `decide` raises, ReceiptLost, ResourceNotFound,
        ServiceUnavailable, StorageUnavailable."""
        if read is None:
            await ahead.withdraw()
            raise ResourceNotFound(f"task {task_id} does not exist")
        async for attempt in attempts(self._runtime, at_least=at_least):
            try:
                if attempt:
                    read = await self._stores.tasks.load_again(read)
                decision = decide(read, self._runtime.now())
                await ahead.ensure(decision.ahead)
            except (ApiError, NoDecision, ReceiptLost):
                await ahead.withdraw()
                raise
            try:
                committed = await self.commit_once(read, decision, ahead)
            except CommitLost:
                continue
            return await self._finish(committed, decision, ahead)
        await ahead.withdraw()
        raise ServiceUnavailable(f"task {task_id} is contended; send the call again")

    async def commit_once(self, read: Loaded, decision: Decision, ahead: WriteAhead) -> Loaded:
        """Commits what was decided on a task as read, and counts it. If the race is lost, what was written ahead stays.
        Otherwise what only an earlier attempt needed is rolled back. Raises CommitLost, CommitInDoubt,
        ServiceUnavailable, StorageUnavailable."""
        committed = read
        if decision.task is not None:
            ahead.refuse_late()
            committed = await self._stores.tasks.commit(read, ahead.in_force(decision.task, decision.ahead))
            note_transition(self._runtime.meter, read.task, decision.task)
            if decision.task.is_resolved:
                self._stores.known.note_task(decision.task)
        await ahead.withdraw(keep=decision.ahead)
        return committed

    async def carry_out_creation(
        self, decision: Decision, definition: Definition, packed: PackedDefinition, ahead: WriteAhead
    ) -> Loaded:
        """Carries out the decision to create a task: there is nothing to read, and a lost race is for the caller. A
        commit that took effect when readers may have taken what it needs for orphans is undone. Raises CommitLost,
        CommitInDoubt, ServiceUnavailable, StorageUnavailable."""
        assert decision.task is not None, "a task is created"
        await ahead.ensure(decision.ahead)
        ahead.refuse_late()
        task = ahead.in_force(decision.task, decision.ahead)
        created = await self._stores.tasks.commit_new(definition, packed, task)
        if ahead.is_later_than(ORPHAN_AFTER):
            await self._stores.tasks.undo(created, packed)
            raise ServiceUnavailable("the call took too long; send it again")
        note_transition(self._runtime.meter, None, task)
        await self.follow_up(created, decision)
        return created

    async def follow_up(self, committed: Loaded, decision: Decision) -> None:
        """Does what comes after the commit. The events are sent beside the first step, and before any later one."""
        first, *later = decision.after or ((),)
        announced = self._stores.announcer.announce(decision.events, committed)
        await together(announced, *(self._carry_out(effect) for effect in first))
        for step in later:
            await together(*(self._carry_out(effect) for effect in step))

    async def _carry_out(self, effect: After) -> None:
        match effect:
            case effects.RemoveMessage():
                await self._stores.messages.remove_message(effect.handle)
            case effects.ShowPending():
                # The call that holds the lease releases it, or it becomes visible at takenUntil.
                with suppress(ReceiptLost):
                    await self._stores.messages.move_pending(effect.handle, effect.content, effect.visible)
                    if effect.visible is None:  # whoever was woken by its announcement may have looked before
                        self._stores.announcer.wake(effect.content.task_queue_id)
            case effects.ChangePoolRows():
                await self._stores.pools.change_pool_rows([effect])
            case effects.ReturnRow():
                await self._stores.pools.give_back(effect)
            case effects.RewriteMember():
                await self._stores.groups.rewrite_member(effect.task_group_id, effect.task_id, effect.number)
            case _:
                assert_never(effect)
