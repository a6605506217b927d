"""Hands out claims whose messages are in place: their rows and the worker's, the commits, the events (design 4). Those
that no worker has received are given back: the run is pending again at once, without a retry."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from shared.base.concurrency import together
from shared.base.errors import ApiError, ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.queue.claims import ends as claim_ends
from shared.queue.claims.rules import rows_ahead
from shared.queue.events.rules import Exchange
from shared.queue.pools.rows import ClaimRowTaken
from shared.queue.pools.worker_rows import WorkerRecord
from shared.queue.pools.workers import Workers, WorkRequest
from shared.queue.tasks.ahead import WriteAhead
from shared.queue.tasks.effects import ChangePoolRows, Decision, NoDecision, ReturnRow
from shared.queue.tasks.executor import Executor, Stores
from shared.queue.tasks.internal_messages import ClaimBody
from shared.queue.tasks.rows import CommitLost, Loaded
from shared.queue.tasks.rules import Task, UndeliveredClaim
from shared.runtime import Runtime
from shared.store.interface import StorageUnavailable
from shared.telemetry.instruments import FAILED_CLAIMS

log = logging.getLogger("taskcluster.claims")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A claim that is decided, with its messages in place: its rows and its commit are still to come."""

    read: Loaded
    decision: Decision
    ahead: WriteAhead
    claim_id: str
    """Names the claim in its row, since another claim of the run may have begun in the same millisecond."""
    release: Callable[[bool], Awaitable[None]]
    """Shows the run's pending message again if the claim fails: at once, or later."""

    @property
    def task(self) -> Task:
        """The task as it will be after the claim's commit."""
        assert self.decision.task is not None, "a claim changes its task"
        return self.decision.task

    @property
    def run(self) -> tuple[str, int]:
        return self.task.task_id, self.task.last_run_id

    @property
    def rows(self) -> ChangePoolRows:
        rows = rows_ahead(self.read.task, self.task)
        return replace(rows, add=tuple(replace(row, claim_id=self.claim_id) for row in rows.add))

    def undone(self, task: Task) -> ReturnRow:
        """Returns the change of rows that undoes the claim, for the task's present state."""
        started = self.task.last_run.started
        assert started is not None, "a claimed run has started"
        return claim_ends.returned(task, self.task.last_run_id, started, self.claim_id)

    async def drop(self) -> None:
        """Drops this claim, since another claim of the same call is for the same run. It has only messages so far."""
        try:
            await self.ahead.withdraw()
        except StorageUnavailable:
            log.warning("the message of a claim of task %s stays", self.task.task_id, extra={"action": "not_let_go"})
        await self.release(True)


_Claimed = tuple[Loaded, Decision]
"""A committed claim, for which the work that follows a commit is still to be done."""


@dataclass(eq=False, repr=False)
class HandingOut:
    """Hands claims out to the worker that asked for them, or back where it may not have them any more."""

    _stores: Stores
    _executor: Executor
    _workers: Workers
    _giving_back: GivingBack

    async def hand_out(self, prepared: list[Prepared], record: WorkerRecord, request: WorkRequest) -> list[Loaded]:
        """Writes the index rows of all claims with the worker's row, in one transaction. It fails if the worker must
        not be given runs, and the request ends. Then each claim is committed and announced on its own. Returns the
        claims that may be delivered. After the transaction, a failed claim restores its run's index row but leaves its
        claim message: if the call dies or a request takes effect late, only its handler can repair the row."""
        indexed = await self._write_rows(prepared, record, request)
        commits = await together(*(self._commit(each, request) for each in indexed))
        claimed = [each for each in commits if each is not None]
        is_wanted = not request.ended.is_set()
        outcomes = await together(*(self._announce(each, request, is_wanted) for each in claimed))
        delivered: list[_Claimed] = []
        returned: list[Awaitable[None]] = []
        for each, failure in zip(claimed, outcomes, strict=True):
            if is_wanted and failure is None:
                delivered.append(each)
            else:
                undelivered = UndeliveredClaim.of(each[0].task)
                returned.append(self._giving_back.give_back(undelivered, failure or AT_ONCE))
        # For a claim of a retry that is given back, the handler of the expired run's claim message carries out these
        # steps, and announces again.
        await together(*returned, *(self._finish(*each) for each in delivered if each[1].after))
        return [loaded for loaded, _ in delivered]

    async def _write_rows(self, prepared: list[Prepared], record: WorkerRecord, request: WorkRequest) -> list[Prepared]:
        """Returns the claims whose rows are written; the others are undone. After a defect each is tried by itself."""
        try:
            for each in prepared:
                each.ahead.refuse_late()
            rows = [each.rows for each in prepared]
            if await self._workers.claimed(record, request, [each.run for each in prepared], rows):
                return prepared
            request.ended.set()
        except ClaimRowTaken as taken:
            # The claim message stays, since a first try of the transaction may still take effect. The run's pending
            # message is left to the other claim.
            (lost,) = (each for each in prepared if each.run == taken.run)
            await lost.release(True)
            others = [each for each in prepared if each is not lost]
            return await self._write_rows(others, record, request) if others else []
        except (StorageUnavailable, ServiceUnavailable) as failure:
            request.unavailable.append(failure)
        except Exception:
            note_defect(self._stores.runtime, "index", prepared[0].run[0], request.task_queue_id)
            if len(prepared) > 1:
                written: list[Prepared] = []
                for each in prepared:
                    written += await self._write_rows([each], self._workers.rows.latest(record), request)
                return written
            await self._undo(prepared[0], prepared[0].read.task, is_defect=True)
            return []
        await together(*(self._undo(each, each.read.task) for each in prepared))
        return []

    async def _commit(self, prepared: Prepared, request: WorkRequest) -> _Claimed | None:
        """Commits a claim and returns it. Gives it back and returns None in doubt; undoes it after a lost race."""
        try:
            committed = await self._executor.commit_once(prepared.read, prepared.decision, prepared.ahead)
        except CommitLost as lost:
            await self._undo(prepared, lost.latest.task)
            return None
        except (StorageUnavailable, ServiceUnavailable) as failure:
            request.unavailable.append(failure)
            after = AT_ONCE
        except Exception:
            note_defect(self._stores.runtime, "claim", prepared.run[0], prepared.task.task_queue_id)
            after = AFTER_DEFECT
        else:
            return committed, prepared.decision
        prepared.ahead.leave()
        in_doubt = replace(prepared.task, sequence=prepared.task.sequence + 1)
        await self._giving_back.give_back(UndeliveredClaim.of(in_doubt), after)
        await prepared.release(after is AFTER_DEFECT)
        return None

    async def _undo(self, prepared: Prepared, task: Task, *, is_defect: bool = False) -> None:
        """Undoes a claim that will not be committed: replaces its index row, if any, and shows the run's message."""
        try:
            await self._stores.pools.give_back(prepared.undone(task))
        except StorageUnavailable:
            log.warning("the row of a claim of task %s was not given back", task.task_id, extra={"action": "row_left"})
        await prepared.release(is_defect)

    async def _announce(self, claimed: _Claimed, request: WorkRequest, is_wanted: bool) -> timedelta | None:
        """Announces the claim, or only the task-pending event of its retry if the claim is not wanted any more. Returns
        None or, if that failed, the time after which its run may be claimed again."""
        loaded, decision = claimed
        task, events = loaded.task, decision.events
        if not is_wanted:
            events = tuple(event for event in events if event.exchange is not Exchange.TASK_RUNNING)
        try:
            await self._stores.announcer.announce(events, loaded)
        except StorageUnavailable as failure:
            request.unavailable.append(failure)
            return AT_ONCE
        except Exception:
            note_defect(self._stores.runtime, "announce the claim of", task.task_id, task.task_queue_id)
            return AFTER_DEFECT
        return None

    async def _finish(self, loaded: Loaded, decision: Decision) -> None:
        """Removes what is left of the expired run. If this fails, only orphans remain."""
        task = loaded.task
        try:
            await self._executor.follow_up(loaded, Decision(task=None, after=decision.after))
        except StorageUnavailable:
            return  # orphans remain, which their readers recognise
        except Exception:
            note_defect(self._stores.runtime, "clean up after the claim of", task.task_id, task.task_queue_id)


def note_defect(runtime: Runtime, what: str, task_id: str, task_queue_id: str) -> None:
    """Logs and counts a claim that failed for a defect; to be called while the exception is handled."""
    log.exception("could not %s task %s", what, task_id, extra={"action": "claim_failed", "taskId": task_id})
    runtime.meter.add(FAILED_CLAIMS, *task_queue_id.split("/", 1))


AT_ONCE = timedelta(0)
AFTER_DEFECT = timedelta(minutes=1)
"""Delay until a run is shown to workers again after its claim failed for a defect, as the next one is likely to."""
AGAIN = 5.0
"""Delay in seconds of the message that gives a claim back if its call could not."""


@dataclass(eq=False, repr=False)
class GivingBack:
    """Gives back claims that are not in the answer of their call."""

    _stores: Stores
    _executor: Executor

    async def give_back(self, claim: UndeliveredClaim, after: timedelta = AT_ONCE) -> None:
        """Gives a claim back, or leaves that to a message. If that fails too, the claim ends at takenUntil. The run may
        be claimed again when `after` has passed."""
        try:
            await self.take_back(claim, after)
        except (StorageUnavailable, ApiError):
            await self._leave_to_message(claim)
        except Exception:
            log.exception("could not return the claim of task %s", claim.task_id, extra=_extra(claim))
            await self._leave_to_message(claim)

    async def take_back(self, claim: UndeliveredClaim, after: timedelta = AT_ONCE) -> None:
        """Gives a claim back if the status row has it. If its commit may still be under way, makes that commit fail.
        May be repeated. Raises StorageUnavailable, ServiceUnavailable."""
        visible = self._stores.runtime.now() + after if after else None
        try:
            await self._executor.run(claim.task_id, lambda read, _: claim_ends.take_back(read.task, claim, visible))
        except (NoDecision, ResourceNotFound):
            return

    async def _leave_to_message(self, claim: UndeliveredClaim) -> None:
        try:
            now = self._stores.runtime.now()
            message = ClaimBody(
                task_id=claim.task_id, run_id=claim.run_id, put=now, started=claim.started, undelivered=claim
            )
            await self._stores.messages.put_body(message, AGAIN)
        except StorageUnavailable:
            log.warning("the claim of task %s was not returned", claim.task_id, extra=_extra(claim))


def _extra(claim: UndeliveredClaim) -> dict[str, str]:
    return {"action": "not_returned", "taskId": claim.task_id}
