"""After claims are committed: may the worker still have them? Then they are announced, else given back (design 4)."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

from shared.concurrency import together
from shared.domain.claim_ends import UndeliveredClaim
from shared.domain.effects import ChangePoolRows, Decision
from shared.domain.events import Exchange
from shared.frozen import dataclass
from shared.runtime import Runtime
from shared.storage.interface import StorageUnavailable
from shared.storage.tasks import Loaded
from shared.storage.workers import WorkerRecord
from shared.telemetry.instruments import FAILED_CLAIMS
from shared.usecases.executor import Executor, Stores
from shared.usecases.giving_back import AFTER_DEFECT, AT_ONCE, GivingBack
from shared.usecases.workers import Presence, WorkRequest

log = logging.getLogger("taskcluster.claims")


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
    """A claim that is committed; what follows the commit has not been done yet."""

    loaded: Loaded
    decision: Decision

    @property
    def run(self) -> tuple[str, int]:
        return self.loaded.task.task_id, self.loaded.task.last_run_id

    def before_running(self) -> Claimed:
        """The same without its task-running event; the task-pending event of a retry stays."""
        events = tuple(event for event in self.decision.events if event.exchange is not Exchange.TASK_RUNNING)
        return replace(self, decision=replace(self.decision, events=events))

    @property
    def rows(self) -> list[ChangePoolRows]:
        """The index rows, which are written for all claims of a call together."""
        return _rows_of(self.decision)


def _rows_of(decision: Decision) -> list[ChangePoolRows]:
    """The first step of a claim, which is carried out here and not by the executor.

    Raises TypeError for an effect of another kind, which would be dropped.
    """
    rows: list[ChangePoolRows] = []
    for effect in decision.after[0] if decision.after else ():
        if not isinstance(effect, ChangePoolRows):
            raise TypeError(f"the first step of a claim changes index rows alone: {effect}")
        rows.append(effect)
    return rows


def checked(decision: Decision) -> Decision:
    """A decision about a claim, once it is certain that all of it will be carried out. Raises TypeError."""
    if decision.task is not None and not decision.task.is_resolved:
        _rows_of(decision)
    return decision


class HandingOut:
    """Hands claims out to the worker that asked for them, or back where it may not have them any more."""

    def __init__(self, stores: Stores, executor: Executor, presence: Presence, giving_back: GivingBack) -> None:
        self._stores = stores
        self._executor = executor
        self._giving_back = giving_back
        self._presence = presence
        self._runtime = stores.runtime

    async def hand_out(
        self,
        task_queue_id: str,
        claimed: list[Claimed],
        record: WorkerRecord,
        work_request: WorkRequest,
        unavailable: list[Exception],
    ) -> list[Claimed]:
        """Carries out what follows the commits; returns the claims that may be delivered: those that are announced.

        Index rows of all claims and the worker's row go in one transaction, which shows whether the worker may be given
        runs at all: only then is it announced that they run; else the request ends. Rows are projections that later
        readers repair, so that their failure costs no worker a claim. What is not delivered is given back.
        """
        indexed = await self._write_rows(task_queue_id, claimed, record, work_request)
        is_welcome = indexed is not None and not work_request.ended.is_set()
        if not is_welcome:
            claimed = [each.before_running() for each in claimed]
        outcomes = await together(*(self._announce(each, unavailable) for each in claimed))
        delivered = [each for each, failure in zip(claimed, outcomes, strict=True) if failure is None]
        if not is_welcome:
            work_request.ended.set()
            delivered = []
        given, whole = {each.run for each in delivered}, {each.run for each in indexed or ()}
        returned = [
            self._giving_back.give_back(UndeliveredClaim.of(each.loaded.task), failure or AT_ONCE)
            for each, failure in zip(claimed, outcomes, strict=True)
            if each.run not in given
        ]
        # A message that is removed in a later step is the timer that repairs missing rows, and announces again.
        finished = [each for each in delivered if each.run in whole and len(each.decision.after) > 1]
        await together(*returned, *map(self._finish, finished))
        return delivered

    async def _announce(self, claimed: Claimed, unavailable: list[Exception]) -> timedelta | None:
        """None when it is announced; else the time after which its run may be tried again."""
        try:
            await self._stores.announcer.announce(claimed.decision.events, claimed.loaded)
        except StorageUnavailable as failure:
            unavailable.append(failure)
            return AT_ONCE
        except Exception:
            note_defect(self._runtime, "announce the claim of", claimed.run[0], claimed.loaded.task.task_queue_id)
            return AFTER_DEFECT
        return None

    async def _write_rows(
        self, task_queue_id: str, claimed: list[Claimed], record: WorkerRecord, work_request: WorkRequest
    ) -> list[Claimed] | None:
        """Returns the claims whose rows are written; None when the worker may not be given them."""
        rows = [change for each in claimed for change in each.rows]
        try:
            if not await self._presence.claimed(record, work_request, [each.run for each in claimed], rows):
                return None
        except StorageUnavailable:
            log.warning("index rows of claims are missing", extra={"action": "rows_missing", "count": len(rows)})
            await together(*map(self._rewrite_member, claimed))
            return []
        except Exception:
            note_defect(self._runtime, "index", claimed[0].run[0], task_queue_id)
            return await self._write_each(claimed)
        return claimed

    async def _write_each(self, claimed: list[Claimed]) -> list[Claimed]:
        """Index rows of each claim on its own, without the worker's; returns those that are written."""
        outcomes = await together(*map(self._write_rows_of, claimed))
        return [each for each, is_written in zip(claimed, outcomes, strict=True) if is_written]

    async def _write_rows_of(self, claimed: Claimed) -> bool:
        try:
            await self._stores.pools.change(claimed.rows, claimed.loaded.task.task_queue_id)
        except Exception:
            note_defect(self._runtime, "index", claimed.run[0], claimed.loaded.task.task_queue_id)
            await self._rewrite_member(claimed)
            return False
        return True

    async def _rewrite_member(self, claimed: Claimed) -> None:
        """Where the index row of the pending run may be left, it does not vouch for it any more (design 11)."""
        task = claimed.loaded.task
        try:
            await self._stores.groups.rewrite_member(task.task_group_id, task.task_id)
        except StorageUnavailable:
            log.warning("the group of task %s was not rewritten", task.task_id, extra={"action": "not_rewritten"})

    async def _finish(self, claimed: Claimed) -> None:
        """The later steps: they only remove orphans."""
        _, *later = claimed.decision.after
        try:
            await self._executor.follow_up(claimed.loaded, Decision(task=None, after=((), *later)))
        except StorageUnavailable:
            return  # what is left are orphans, which their readers recognise
        except Exception:
            note_defect(self._runtime, "clean up after the claim of", claimed.run[0], claimed.loaded.task.task_queue_id)


def note_defect(runtime: Runtime, what: str, task_id: str, task_queue_id: str) -> None:
    """Logs and counts a claim that failed for a defect; to be called while the exception is handled."""
    log.exception("could not %s task %s", what, task_id, extra={"action": "claim_failed", "taskId": task_id})
    runtime.meter.add(FAILED_CLAIMS, *task_queue_id.split("/", 1))
