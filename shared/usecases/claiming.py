"""Turns pending messages in hand into claims (design 4): each on its own, so that none costs another its claim."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.concurrency import both, in_waves, together
from shared.domain import claims
from shared.domain.claims import NotClaimed, Verdict, Worker
from shared.domain.effects import ChangePoolRows, Decision, NoDecision, PutClaim, TakeLease, row_of
from shared.domain.events import Exchange
from shared.domain.task import Task, Ticket
from shared.errors import ApiError, ResourceNotFound, ServiceUnavailable
from shared.storage.definitions import MOST_IN_ANSWER, Share
from shared.storage.interface import ReceiptLost, StorageUnavailable
from shared.storage.messages import PendingMessage
from shared.storage.tasks import Loaded
from shared.storage.workers import WorkerRecord
from shared.telemetry.instruments import FAILED_CLAIMS
from shared.usecases.executor import Executor, Stores
from shared.usecases.workers import Presence, Visit

log = logging.getLogger("taskcluster.claims")

LONGEST_RETURN = 300.0
"""Seconds that a message is put back for, at the most, whose commit may come or whose claim failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Claimed:
    """A claim that is committed; what follows the commit has not been done yet."""

    loaded: Loaded
    decision: Decision

    @property
    def run(self) -> tuple[str, int]:
        return self.loaded.task.task_id, self.loaded.task.last_run_id

    def before_running(self) -> _Claimed:
        """The same, to be announced as if the run had not been claimed, but had become pending if it has."""
        events = tuple(event for event in self.decision.events if event.exchange is not Exchange.TASK_RUNNING)
        return replace(self, decision=replace(self.decision, events=events))

    def rows_before_running(self) -> ChangePoolRows:
        """The index rows as if the run had not been claimed: before it is handed back, then no call knows them."""
        task, run_id = self.loaded.task, self.loaded.task.last_run_id
        pending = claims.unclaimed(task, run_id)
        gone = [row for change in self.rows for row in change.remove]
        return ChangePoolRows(
            task_queue_id=task.task_queue_id, remove=(*gone, row_of(task, run_id)), add=(row_of(pending, run_id),)
        )

    @property
    def rows(self) -> list[ChangePoolRows]:
        """The index rows, which are written for all claims of a call together."""
        return _rows_of(self.decision)


def _rows_of(decision: Decision) -> list[ChangePoolRows]:
    """The first stage of a claim, which is carried out here and not by the executor.

    Raises TypeError for an effect of another kind, which would be dropped.
    """
    rows: list[ChangePoolRows] = []
    for effect in decision.after[0]:
        if not isinstance(effect, ChangePoolRows):
            raise TypeError(f"the first stage of a claim changes index rows alone: {effect}")
        rows.append(effect)
    return rows


def _checked(decision: Decision) -> Decision:
    """A decision about a claim, once it is certain that all of it will be carried out. Raises TypeError."""
    if decision.task is not None and not decision.task.is_resolved:
        _rows_of(decision)
    return decision


@dataclass(kw_only=True, slots=True)
class _Attempt:
    """A message that may become a claim, and the ticket by which it is held as far as is known."""

    message: PendingMessage
    task_queue_id: str
    worker: Worker
    held: Ticket


class Claiming:
    """Claims what pending messages name."""

    def __init__(self, stores: Stores, executor: Executor, presence: Presence, first_claim: timedelta) -> None:
        """`first_claim` is how long a claim lasts until it is renewed."""
        self._stores = stores
        self._executor = executor
        self._presence = presence
        self._first_claim = first_claim
        self._runtime = stores.runtime

    async def claim(
        self,
        task_queue_id: str,
        messages: Sequence[PendingMessage],
        worker: Worker,
        record: WorkerRecord,
        visit: Visit,
    ) -> list[Loaded]:
        """Claims for the worker what the messages in hand stand for; the claimed run is the last one of each task.

        An attempt that fails, for whatever reason, lets its message go and leaves the others alone; so does one whose
        definition does not fit into the answer any more. Nothing is claimed
        when the worker may not be given a run in this visit any more. Raises StorageUnavailable or ServiceUnavailable
        when that is why nothing was claimed; a defect is logged and counted.
        """
        unavailable: list[Exception] = []
        share = self._stores.tasks.share(MOST_IN_ANSWER)

        async def attempt(message: PendingMessage) -> _Claimed | None:
            at = _Attempt(message=message, task_queue_id=task_queue_id, worker=worker, held=message.ticket)
            try:
                return await self._attempt(at, share)
            except (StorageUnavailable, ServiceUnavailable) as failure:
                unavailable.append(failure)
                await self._let_go(at, 0)
            except Exception:
                self._note_defect("claim", message.task_id, task_queue_id)
                await self._let_go(at, _back_off(message))
            return None

        outcomes = await in_waves(max(len(messages), 1), attempt, messages)
        claimed = [outcome for outcome in outcomes if outcome is not None]
        delivered = await self._hand_out(task_queue_id, claimed, record, visit, unavailable) if claimed else []
        if unavailable and not delivered:
            raise unavailable[0]
        return [each.loaded for each in delivered]

    async def _attempt(self, at: _Attempt, share: Share) -> _Claimed | None:
        """One message, by the table of design 4; None when it does not lead to a claim."""
        message = at.message
        taken_until = self._runtime.now() + self._first_claim
        timer = PutClaim(task_id=message.task_id, run_id=message.run_id, taken_until=taken_until)
        lease = TakeLease(
            ticket=message.ticket,
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
            at.held = ahead.ticket(lease) or at.held
            await ahead.withdraw()
            raise
        at.held = ahead.ticket(lease) or at.held
        if read is None or read.task.task_queue_id != at.task_queue_id:
            await ahead.withdraw()
            verdict = claims.judge(None, message.hint_id, self._age(message), self._runtime.now())
            await self._dispose(at, None, verdict)
            return None

        def decide(loaded: Loaded, now: datetime) -> Decision:
            return _checked(
                claims.decide(loaded.task, message.hint_id, self._age(message), at.worker, at.held, taken_until, now)
            )

        try:
            committed, decision = await self._executor.commit(read, decide, ahead)
        except NotClaimed as refused:
            await self._dispose(at, refused.task, refused.verdict)
            return None
        except (ReceiptLost, ResourceNotFound):
            return None
        if committed.task.is_resolved:
            await self._executor.follow_up(committed, decision)
            return None
        return _Claimed(loaded=committed, decision=decision)

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
        self, read: Loaded, run_id: int, worker: Worker, taken_until: datetime, record: WorkerRecord, visit: Visit
    ) -> Loaded:
        """claimTask's claim. Raises ResourceNotFound, RequestConflict, ServiceUnavailable, StorageUnavailable."""
        hint_id = self._runtime.slugid()
        committed, decision = await self._executor.commit(
            read,
            lambda read, at: _checked(claims.claim_by_task(read.task, run_id, worker, taken_until, at, hint_id)),
            self._stores.write_ahead(),
        )
        if decision.task is None:
            await self._executor.follow_up(committed, decision)
            return committed
        unavailable: list[Exception] = []
        claimed = [_Claimed(loaded=committed, decision=decision)]
        if not await self._hand_out(committed.task.task_queue_id, claimed, record, visit, unavailable):
            who = f"worker {worker.worker_group}/{worker.worker_id}"
            raise unavailable[0] if unavailable else ServiceUnavailable(f"{who} gets no work at present")
        return committed

    async def _hand_out(
        self,
        task_queue_id: str,
        claimed: list[_Claimed],
        record: WorkerRecord,
        visit: Visit,
        unavailable: list[Exception],
    ) -> list[_Claimed]:
        """What follows the commits; returns the claims that may be delivered: those that are announced.

        Index rows of all claims and the worker's row go in one transaction, which shows whether the worker may be given
        runs at all: only then is it announced that they run; else the visit ends. Rows are projections that later
        visitors repair, so that their failure costs no worker a claim.
        """
        indexed = await self._write_rows(task_queue_id, claimed, record, visit)
        is_welcome = indexed is not None and not visit.ended.is_set()
        if not is_welcome:
            claimed = [each.before_running() for each in claimed]
        outcomes = await together(*(self._announce(each, unavailable) for each in claimed))
        # A message that is removed in a later stage is the timer that repairs missing rows.
        await together(*(self._finish(each) for each in indexed or () if len(each.decision.after) > 1))
        if not is_welcome:
            visit.ended.set()
            await together(*map(self._hand_back, claimed))
            return []
        return [each for each, is_announced in zip(claimed, outcomes, strict=True) if is_announced]

    async def _hand_back(self, claimed: _Claimed) -> None:
        """Undoes a claim that no worker has received: its run is pending again, at takenUntil where that fails."""
        task_id, run_id = claimed.run
        run = claimed.loaded.task.last_run
        worker = Worker(worker_group=run.worker_group or "", worker_id=run.worker_id or "")
        taken_until = run.taken_until or self._runtime.now()
        try:
            await self._stores.pools.change([claimed.rows_before_running()], claimed.loaded.task.task_queue_id)
            if len(claimed.decision.after) > 1:
                await self._finish(claimed)
            await self._executor.run(task_id, lambda read, _: claims.hand_back(read.task, run_id, worker, taken_until))
        except (StorageUnavailable, ApiError, NoDecision):
            log.warning("the claim of task %s was not handed back", task_id, extra={"action": "not_handed_back"})
        except Exception:
            self._note_defect("hand back", task_id, claimed.loaded.task.task_queue_id)

    async def _announce(self, claimed: _Claimed, unavailable: list[Exception]) -> bool:
        try:
            await self._stores.announcer.announce(claimed.decision.events, claimed.loaded)
        except StorageUnavailable as failure:
            unavailable.append(failure)
            return False
        except Exception:
            self._note_defect("announce the claim of", claimed.run[0], claimed.loaded.task.task_queue_id)
            return False
        return True

    async def _write_rows(
        self, task_queue_id: str, claimed: list[_Claimed], record: WorkerRecord, visit: Visit
    ) -> list[_Claimed] | None:
        """Returns the claims whose rows are written; None when the worker may not be given them."""
        rows = [change for each in claimed for change in each.rows]
        try:
            if not await self._presence.claimed(record, visit, [each.run for each in claimed], rows):
                return None
        except StorageUnavailable:
            log.warning("index rows of claims are missing", extra={"action": "rows_missing", "count": len(rows)})
            return []
        except Exception:
            self._note_defect("index", claimed[0].run[0], task_queue_id)
            return await self._write_each(claimed)
        return claimed

    async def _write_each(self, claimed: list[_Claimed]) -> list[_Claimed]:
        """Index rows of each claim on its own, without the worker's; returns those that are written."""
        outcomes = await together(*map(self._write_rows_of, claimed))
        return [each for each, is_written in zip(claimed, outcomes, strict=True) if is_written]

    async def _write_rows_of(self, claimed: _Claimed) -> bool:
        try:
            await self._stores.pools.change(claimed.rows, claimed.loaded.task.task_queue_id)
        except Exception:
            self._note_defect("index", claimed.run[0], claimed.loaded.task.task_queue_id)
            return False
        return True

    async def _finish(self, claimed: _Claimed) -> None:
        """The later stages: they only remove orphans."""
        _, *later = claimed.decision.after
        try:
            await self._executor.follow_up(claimed.loaded, Decision(task=None, after=((), *later)))
        except StorageUnavailable:
            return  # what is left are orphans, which their readers recognise
        except Exception:
            self._note_defect("clean up after the claim of", claimed.run[0], claimed.loaded.task.task_queue_id)

    def _note_defect(self, what: str, task_id: str, task_queue_id: str) -> None:
        """To be called while the exception is handled."""
        log.exception("could not %s task %s", what, task_id, extra={"action": "claim_failed", "taskId": task_id})
        self._runtime.meter.add(FAILED_CLAIMS, *task_queue_id.split("/", 1))


def _back_off(message: PendingMessage) -> float:
    """Seconds until a message is shown again: doubling with each time that it was polled."""
    return float(min(2.0 ** min(message.dequeue_count - 1, 20), LONGEST_RETURN))
