"""Turns received pending messages into claims (design 4): each on its own, so that none costs another its claim."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.base import bounds
from shared.base.concurrency import both, in_waves, together
from shared.base.errors import ResourceNotFound, ServiceUnavailable
from shared.base.frozen import replace
from shared.base.retrying import UNCLAIMED_MESSAGE
from shared.queue.claims import rules as claims
from shared.queue.claims.handing_out import HandingOut, Prepared, note_defect
from shared.queue.claims.rules import NotClaimed, Verdict
from shared.queue.pools.worker_rows import WorkerRecord
from shared.queue.pools.workers import WorkRequest
from shared.queue.tasks.definitions import MemoryShare
from shared.queue.tasks.effects import Decision, NoDecision, PutClaim, PutPending, TakeLease
from shared.queue.tasks.executor import Executor, Stores
from shared.queue.tasks.messages import PendingMessage
from shared.queue.tasks.rows import CommitLost, Loaded
from shared.queue.tasks.rules import MessageHandle, Task
from shared.queue.tasks.transitions import renew_message
from shared.runtime import attempts
from shared.store.interface import ReceiptLost, StorageUnavailable

log = logging.getLogger("taskcluster.claims")


@dataclass(kw_only=True, slots=True)
class _Attempt:
    """A received message that may become a claim, and the latest known handle of it."""

    message: PendingMessage
    request: WorkRequest
    held: MessageHandle
    is_lost: bool = False
    """Whether the answer to the request that hides the message for this claim was lost."""


@dataclass(eq=False, repr=False)
class Claiming:
    """Claims the runs that pending messages name."""

    _stores: Stores
    _executor: Executor
    _handing_out: HandingOut
    _first_claim: timedelta
    """How long a claim lasts until it is renewed."""

    def __post_init__(self) -> None:
        self._runtime = self._stores.runtime

    async def claim(self, messages: list[PendingMessage], record: WorkerRecord, request: WorkRequest) -> list[Loaded]:
        """Claims the runs of the received messages for the worker; the claimed run is the last one of each task.

        If an attempt fails, for whatever reason, its message is released and the others go on. The same holds if a
        definition does not fit into the answer any more. Nothing is claimed when the worker may not be given a run.
        Raises StorageUnavailable or ServiceUnavailable if nothing was claimed for that; a defect is logged and
        counted."""
        share = self._stores.tasks.definitions.share(bounds.DEFINITIONS_IN_ANSWER)

        async def attempt(message: PendingMessage) -> Prepared | None:
            at = _Attempt(message=message, request=request, held=message.handle)
            try:
                return await self._attempt(at, share)
            except (StorageUnavailable, ServiceUnavailable) as failure:
                request.unavailable.append(failure)
                await self._let_go(at, 0)
            except Exception:
                note_defect(self._runtime, "claim", message.content.task_id, request.task_queue_id)
                await self._let_go(at, _back_off(message))
            return None

        outcomes = await in_waves(max(len(messages), 1), attempt, messages)
        prepared = [outcome for outcome in outcomes if outcome is not None]
        # A retried put may leave two messages of a run. One transaction cannot hold both claims, and if one were in
        # doubt, the other would be given back. The message of a dropped claim is shown again later.
        first = {each.task.task_id: each for each in reversed(prepared)}
        await together(*(each.drop() for each in prepared if first[each.task.task_id] is not each))
        prepared = [each for each in prepared if first[each.task.task_id] is each]
        delivered: list[Loaded] = []
        if prepared:
            delivered = await self._handing_out.hand_out(prepared, record, request)
        if request.unavailable and not delivered:
            raise request.unavailable[0]
        return delivered

    async def _attempt(self, at: _Attempt, share: MemoryShare) -> Prepared | None:
        """Prepares the claim of one message by the table of design 4, without its rows; None if there is none."""
        message, content = at.message, at.message.content
        now = self._runtime.now()
        age = _age(message, now)  # before the task is looked for: its commit may come while the answer is under way
        taken_until = now + self._first_claim
        timer = PutClaim(task_id=content.task_id, run_id=content.run_id, taken_until=taken_until, started=now)
        lease = TakeLease(
            handle=message.handle, content=replace(content, run_id=content.run_id + 1), visible=taken_until
        )
        ahead = self._stores.write_ahead()
        read: Loaded | None
        try:
            if (last := self._last_committed(at, now, share)) is not None:
                await ahead.ensure((timer, lease))
                read = last
            else:
                read, _ = await both(self._stores.tasks.load(content.task_id, share), ahead.ensure((timer, lease)))
        except ReceiptLost:
            await ahead.withdraw()
            await self._replace(at)
            return None
        except Exception:
            at.held = ahead.handle(lease) or at.held
            at.is_lost = at.held is message.handle
            await ahead.withdraw()
            raise
        at.held = ahead.handle(lease) or at.held
        if read is None or read.task.task_queue_id != at.request.task_queue_id:
            await ahead.withdraw()
            await self._dispose(at, None, claims.judge_message(None, content.hint_id, age, now))
            return None

        def decide(loaded: Loaded) -> Decision:
            return claims.decide(loaded.task, content.hint_id, age, at.request.worker, at.held, taken_until, now)

        def exhaust(loaded: Loaded, _: datetime) -> Decision:
            decision = decide(loaded)
            if decision.task is not None and decision.task.is_resolved:
                return decision
            raise NotClaimed(loaded.task, Verdict.LATER)

        try:
            decision = decide(read)
            if decision.task is not None and decision.task.is_resolved:
                await self._executor.carry_out(read, exhaust, ahead)
                return None
            await ahead.ensure(decision.ahead)
        except NotClaimed as refused:
            await ahead.withdraw()
            await self._dispose(at, refused.task, refused.verdict)
            return None
        except (ReceiptLost, ResourceNotFound):
            await ahead.withdraw()
            return None

        async def release(is_later: bool) -> None:
            await self._let_go(at, _back_off(message) if is_later else 0)

        claim_id = self._runtime.slugid()
        return Prepared(read=read, decision=decision, ahead=ahead, claim_id=claim_id, release=release)

    def _last_committed(self, at: _Attempt, now: datetime, share: MemoryShare) -> Loaded | None:
        """Returns the task as this process has committed it last, if that version shows the run of the message as
        pending. The claim is then committed on that version without a read. Others are read. Raises NoRoom."""
        content, tasks = at.message.content, self._stores.tasks
        last = tasks.last_committed(content.task_id)
        if last is None or last.task.task_queue_id != at.request.task_queue_id:
            return None
        verdict = claims.judge_message(last.task, content.hint_id, _age(at.message, now), now)
        if verdict is not Verdict.CLAIM or content.run_id != last.task.last_run_id:
            return None
        return tasks.last_committed(content.task_id, share)

    async def _replace(self, at: _Attempt) -> None:
        """Replaces a message that was moved, but whose new receipt is unknown, as the answer was lost. If only this
        call can have moved it, its run gets a new message, provided that the run is still pending. Otherwise the run
        would be hidden for as long as a claim lasts. Raises StorageUnavailable, ServiceUnavailable."""
        content, hint_id = at.message.content, self._runtime.slugid()

        def decide(read: Loaded, _: datetime) -> Decision:
            if read.task.hint_id != content.hint_id:
                raise NoDecision(f"the message of task {content.task_id} does not count any more")
            return renew_message(read.task, content.run_id, hint_id)

        with suppress(NoDecision, ResourceNotFound):
            if at.request.waits:  # this call has received the message itself, so nobody else can hold it yet
                await self._executor.run(content.task_id, decide)

    async def _let_go(self, at: _Attempt, seconds: float) -> None:
        """Called when an attempt fails. Restores the message's text and shows it, so that the next poller may try."""
        try:
            await self._put_back(at, seconds)
        except (StorageUnavailable, ServiceUnavailable):
            task_id = at.message.content.task_id
            log.warning("a message of task %s could not be let go", task_id, extra={"action": "not_let_go"})

    async def _put_back(self, at: _Attempt, seconds: float) -> None:
        """Shows a polled message again after `seconds`, unless another worker has received it meanwhile."""
        visible = self._runtime.now() + timedelta(seconds=seconds) if seconds else None
        try:
            await self._stores.messages.move_pending(at.held, at.message.content, visible)
        except ReceiptLost:
            if at.is_lost:
                await self._replace(at)

    async def _dispose(self, at: _Attempt, task: Task | None, verdict: Verdict) -> None:
        """Removes, hides or puts back a message that leads to no claim (design 4)."""
        if verdict is Verdict.REMOVE:
            await self._stores.messages.remove_message(at.held)
        elif verdict is Verdict.HIDE and task is not None:
            content = replace(at.message.content, run_id=task.last_run_id + 1)
            with suppress(ReceiptLost):
                await self._stores.messages.move_pending(at.held, content, task.last_run.taken_until)
        else:
            await self._put_back(at, _back_off(at.message))

    async def claim_by_task(
        self, read: Loaded, run_id: int, taken_until: datetime, record: WorkerRecord, request: WorkRequest
    ) -> Loaded:
        """Claims a run for claimTask. Raises ResourceNotFound, RequestConflict, ServiceUnavailable,
        StorageUnavailable."""
        hint_id, worker = self._runtime.slugid(), request.worker

        def decide(loaded: Loaded, now: datetime) -> Decision:
            return claims.claim_by_task(loaded.task, run_id, worker, taken_until, now, hint_id)

        async for attempt in attempts(self._runtime):
            if attempt:
                read = await self._stores.tasks.load_again(read)
            decision = decide(read, self._runtime.now())
            if not decision.ahead:  # a repeat, whose rows exist
                try:
                    committed = await self._executor.commit_once(read, decision, self._stores.write_ahead(read))
                except CommitLost:
                    continue
                await self._executor.follow_up(committed, decision)
                return committed
            prepared = await self._prepared(read, decision)
            claimed = await self._handing_out.hand_out([prepared], record, request)
            if claimed:
                return claimed[0]
            if request.unavailable:
                raise request.unavailable[0]
            if request.ended.is_set():
                break
        raise ServiceUnavailable(f"worker {worker.worker_group}/{worker.worker_id} gets no work at present")

    async def _prepared(self, read: Loaded, decision: Decision) -> Prepared:
        """Prepares a claim with messages of its own: writes them, and has its lease go if the claim fails."""
        ahead = self._stores.write_ahead(read)
        await ahead.ensure(decision.ahead)

        async def release(is_later: bool) -> None:
            await ahead.withdraw(keep=[effect for effect in decision.ahead if not isinstance(effect, PutPending)])

        claim_id = self._runtime.slugid()
        return Prepared(read=read, decision=decision, ahead=ahead, claim_id=claim_id, release=release)


def _back_off(message: PendingMessage) -> float:
    """Returns the seconds until a message is shown again: doubling with each time that it was polled."""
    return UNCLAIMED_MESSAGE.pause(message.dequeue_count - 1)


def _age(message: PendingMessage, now: datetime) -> float:
    return (now - message.inserted).total_seconds()
