"""Turns received pending messages into claims (design 4): each on its own, so that none costs another its claim."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.concurrency import both, in_waves
from shared.domain import claims
from shared.domain.claim_ends import UndeliveredClaim
from shared.domain.claims import NotClaimed, Verdict, Worker
from shared.domain.effects import Decision, NoDecision, PutClaim, TakeLease
from shared.domain.task import MessageHandle, Task
from shared.errors import RequestConflict, ResourceNotFound, ServiceUnavailable
from shared.storage.definitions import MOST_IN_ANSWER, Share
from shared.storage.interface import ReceiptLost, StorageUnavailable
from shared.storage.messages import PendingMessage
from shared.storage.tasks import Loaded
from shared.storage.workers import WorkerRecord
from shared.usecases.ahead import WriteAhead
from shared.usecases.executor import Decide, Executor, Stores
from shared.usecases.giving_back import AFTER_DEFECT, AT_ONCE, GivingBack
from shared.usecases.handing_out import Claimed, HandingOut, checked, note_defect
from shared.usecases.workers import WorkRequest

log = logging.getLogger("taskcluster.claims")

LONGEST_RETURN = 300.0
"""Longest delay, in seconds, before a message that was put back is visible again."""


@dataclass(kw_only=True, slots=True)
class _Attempt:
    """A message that may become a claim, and the handle by which it is held as far as is known."""

    message: PendingMessage
    task_queue_id: str
    worker: Worker
    held: MessageHandle


class Claiming:
    """Claims what pending messages name."""

    def __init__(
        self,
        stores: Stores,
        executor: Executor,
        handing_out: HandingOut,
        giving_back: GivingBack,
        first_claim: timedelta,
    ) -> None:
        """`first_claim` is how long a claim lasts until it is renewed."""
        self._stores = stores
        self._executor = executor
        self._handing_out = handing_out
        self._giving_back = giving_back
        self._first_claim = first_claim
        self._runtime = stores.runtime

    async def claim(
        self,
        task_queue_id: str,
        messages: Sequence[PendingMessage],
        worker: Worker,
        record: WorkerRecord,
        work_request: WorkRequest,
    ) -> list[Loaded]:
        """Claims for the worker the runs of the messages received; the claimed run is the last one of each task.

        An attempt that fails, for whatever reason, lets its message go and leaves the others alone; so does one whose
        definition does not fit into the answer any more. Nothing is claimed
        when the worker may not be given a run in this request any more. Raises StorageUnavailable or ServiceUnavailable
        when that is why nothing was claimed; a defect is logged and counted.
        """
        unavailable: list[Exception] = []
        share = self._stores.tasks.definitions.share(MOST_IN_ANSWER)

        async def attempt(message: PendingMessage) -> Claimed | None:
            at = _Attempt(message=message, task_queue_id=task_queue_id, worker=worker, held=message.handle)
            try:
                return await self._attempt(at, share)
            except (StorageUnavailable, ServiceUnavailable) as failure:
                unavailable.append(failure)
                await self._let_go(at, 0)
            except Exception:
                note_defect(self._runtime, "claim", message.task_id, task_queue_id)
                await self._let_go(at, _back_off(message))
            return None

        outcomes = await in_waves(max(len(messages), 1), attempt, messages)
        claimed = [outcome for outcome in outcomes if outcome is not None]
        delivered: list[Claimed] = []
        if claimed:
            delivered = await self._handing_out.hand_out(task_queue_id, claimed, record, work_request, unavailable)
        if unavailable and not delivered:
            raise unavailable[0]
        return [each.loaded for each in delivered]

    async def _attempt(self, at: _Attempt, share: Share) -> Claimed | None:
        """One message, by the table of design 4; None when it does not lead to a claim."""
        message = at.message
        taken_until = self._runtime.now() + self._first_claim
        timer = PutClaim(task_id=message.task_id, run_id=message.run_id, taken_until=taken_until)
        lease = TakeLease(
            handle=message.handle,
            task_queue_id=at.task_queue_id,
            task_id=message.task_id,
            run_id=message.run_id + 1,
            hint_id=message.hint_id,
            visible=taken_until,
        )
        ahead = self._stores.write_ahead()
        try:
            read, _ = await both(self._stores.tasks.load(message.task_id, share), ahead.ensure((timer, lease)))
        except ReceiptLost:
            await ahead.withdraw()
            return None
        except Exception:
            at.held = ahead.handle(lease) or at.held
            await ahead.withdraw()
            raise
        at.held = ahead.handle(lease) or at.held
        if read is None or read.task.task_queue_id != at.task_queue_id:
            await ahead.withdraw()
            verdict = claims.judge(None, message.hint_id, self._age(message), self._runtime.now())
            await self._dispose(at, None, verdict)
            return None

        def decide(loaded: Loaded, now: datetime) -> Decision:
            return claims.decide(loaded.task, message.hint_id, self._age(message), at.worker, at.held, taken_until, now)

        try:
            committed, decision = await self._commit(read, decide, ahead)
        except NotClaimed as refused:
            await self._dispose(at, refused.task, refused.verdict)
            return None
        except (ReceiptLost, ResourceNotFound):
            return None
        if committed.task.is_resolved:
            await self._executor.follow_up(committed, decision)
            return None
        return Claimed(loaded=committed, decision=decision)

    async def _commit(self, read: Loaded, decide: Decide, ahead: WriteAhead) -> tuple[Loaded, Decision]:
        """Commits a claim. One of which it is not known whether it was, or will be, committed is given back: nobody
        gets it. Raises what `Executor.commit` raises.
        """
        tried: Decision | None = None

        def deciding(loaded: Loaded, now: datetime) -> Decision:
            nonlocal tried
            tried = checked(decide(loaded, now))
            return tried

        try:
            return await self._executor.commit(read, deciding, ahead)
        except (NoDecision, RequestConflict, ResourceNotFound, ReceiptLost):
            raise
        except Exception as failure:
            if tried is not None and tried.task is not None and tried.after and not tried.task.is_resolved:
                in_doubt = replace(tried.task, sequence=tried.task.sequence + 1)
                is_outage = isinstance(failure, (StorageUnavailable, ServiceUnavailable))
                await self._giving_back.give_back(UndeliveredClaim.of(in_doubt), AT_ONCE if is_outage else AFTER_DEFECT)
            raise

    async def _let_go(self, at: _Attempt, seconds: float) -> None:
        """The attempt failed: the message says again what it said, and the next poller may try.

        If the attempt did commit, the next poller will see that, and hide the message.
        """
        try:
            await self._put_back(at, seconds)
        except StorageUnavailable:
            log.warning("a message of task %s could not be let go", at.message.task_id, extra={"action": "not_let_go"})

    async def _put_back(self, at: _Attempt, seconds: float) -> None:
        """Shows a message again after so many seconds as it was polled, unless somebody else has it by now."""
        message = at.message
        visible = self._runtime.now() + timedelta(seconds=seconds) if seconds else None
        try:
            await self._stores.messages.move_pending(
                at.held, at.task_queue_id, message.task_id, message.run_id, message.hint_id, visible
            )
        except ReceiptLost:
            return

    def _age(self, message: PendingMessage) -> float:
        return (self._runtime.now() - message.inserted).total_seconds()

    async def _dispose(self, at: _Attempt, task: Task | None, verdict: Verdict) -> None:
        """A message that leads to no claim is removed, hidden or put back (design 4)."""
        if verdict is Verdict.REMOVE:
            await self._stores.messages.remove(at.held)
        elif verdict is Verdict.HIDE and task is not None:
            try:
                await self._stores.messages.move_pending(
                    at.held,
                    task.task_queue_id,
                    task.task_id,
                    task.last_run_id + 1,
                    at.message.hint_id,
                    task.last_run.taken_until,
                )
            except ReceiptLost:
                return
        else:
            await self._put_back(at, _back_off(at.message))

    async def claim_by_task(
        self,
        read: Loaded,
        run_id: int,
        worker: Worker,
        taken_until: datetime,
        record: WorkerRecord,
        work_request: WorkRequest,
    ) -> Loaded:
        """claimTask's claim. Raises ResourceNotFound, RequestConflict, ServiceUnavailable, StorageUnavailable."""
        hint_id = self._runtime.slugid()
        committed, decision = await self._commit(
            read,
            lambda read, at: claims.claim_by_task(read.task, run_id, worker, taken_until, at, hint_id),
            self._stores.write_ahead(),
        )
        if not decision.after:  # a repeat: the index rows are with the call that has made the claim
            await self._executor.follow_up(committed, decision)
            return committed
        unavailable: list[Exception] = []
        claimed = [Claimed(loaded=committed, decision=decision)]
        if not await self._handing_out.hand_out(
            committed.task.task_queue_id, claimed, record, work_request, unavailable
        ):
            who = f"worker {worker.worker_group}/{worker.worker_id}"
            raise unavailable[0] if unavailable else ServiceUnavailable(f"{who} gets no work at present")
        return committed


def _back_off(message: PendingMessage) -> float:
    """Seconds until a message is shown again: doubling with each time that it was polled."""
    return float(min(2.0 ** min(message.dequeue_count - 1, 20), LONGEST_RETURN))
