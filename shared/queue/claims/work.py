"""Implements claimWork, claimTask and reclaimTask, and decides how long a claim lasts (contract 5, design 4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY
from datetime import datetime, timedelta

from shared.auth.certificates import task_client_id, task_scopes, temporary_credentials
from shared.base.concurrency import comes_within, together
from shared.base.errors import InputError, ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass
from shared.base.shares import share_of
from shared.queue.claims import rules as claims
from shared.queue.claims.claiming import Claiming
from shared.queue.claims.handing_out import AFTER_DEFECT, AT_ONCE, GivingBack, HandingOut, note_defect
from shared.queue.claims.poll_urls import MalformedAnswer, parse_poll_answer
from shared.queue.claims.polling import STILL_THERE, Poller
from shared.queue.claims.telling import Tellings, Wait
from shared.queue.pools.worker_rows import WorkerRecord
from shared.queue.pools.workers import LIFE_BY_CLAIM_TASK, Workers, WorkRequest
from shared.queue.tasks.definition import Json
from shared.queue.tasks.executor import Executor, Stores
from shared.queue.tasks.internal_messages import MalformedMessage
from shared.queue.tasks.messages import PendingMessage
from shared.queue.tasks.reconciler import Reconciler
from shared.queue.tasks.rows import Loaded
from shared.queue.tasks.rules import Task, UndeliveredClaim, Worker
from shared.queue.tasks.transitions import refuse_after_deadline
from shared.store.interface import StorageUnavailable
from shared.store.limits import MAX_MESSAGES
from shared.telemetry.instruments import TOLD

log = logging.getLogger("taskcluster.claims")
LOOKED_FOR = 3.0
"""Seconds for which claimTask looks for a task whose commit may be under way."""
LOOK_AGAIN = 0.5
SKEW = timedelta(seconds=1)
"""How much shorter than its time a wait has to be to count as ended before it. Clocks of processes differ."""
NOTED_AFTER = 0.3
"""Seconds that a worker waits before it is looked up whether it has waited elsewhere."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Issuer:
    """Signs the credentials of tasks."""

    client_id: str
    access_token: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A run that a worker holds, with the credentials to work on it (contract 5.2)."""

    task: Task
    run_id: int
    definition: Json
    credentials: Json
    taken_until: datetime
    """takenUntil of the run, as the status shows it."""


@dataclass(eq=False, repr=False)
class Work:
    """Hands runs to workers."""

    _stores: Stores
    _executor: Executor
    _giving_back: GivingBack
    _poller: Poller
    _reconciler: Reconciler
    _workers: Workers
    _issuer: Issuer
    _: KW_ONLY
    first_claim: timedelta
    """How long a claim lasts until it is first renewed."""
    claim_timeout: timedelta
    """How long a claim lasts after each renewal."""

    def __post_init__(self) -> None:
        handing_out = HandingOut(self._stores, self._executor, self._workers, self._giving_back)
        self._claiming = Claiming(self._stores, self._executor, handing_out, self.first_claim)
        self._waiting: dict[tuple[str, Worker], WorkRequest] = {}
        self._tellings = Tellings(self._stores.runtime.now)
        self._runtime = self._stores.runtime

    async def claim_work(
        self,
        task_queue_id: str,
        worker: Worker,
        count: int,
        wait: float,
        ended: asyncio.Event | None = None,
        told: asyncio.Event | None = None,
    ) -> list[Claim]:
        """Returns up to `count` claims, waiting up to `wait` seconds for the first (contract 5.1), or until `ended`.

        A worker that has waited gets none when there is work: it has to call again. `told` is set if an answer suits it
        after which its client repeats the call. A quarantined worker waits and gets none. A newer wait of the same
        worker ends this one, whose client must have gone. If the call is ended or cancelled, claims that are being made
        are given back. Raises StorageUnavailable, ServiceUnavailable."""
        request = self._request(task_queue_id, worker, ended, waits=True)
        caller = task_queue_id, worker
        if (older := self._waiting.get(caller)) is not None:
            older.ended.set()
        self._waiting[caller] = request
        try:
            return await self._wait_for_work(request, count, wait, told or asyncio.Event())
        finally:
            if self._waiting.get(caller) is request:
                del self._waiting[caller]

    def _request(self, task_queue_id: str, worker: Worker, ended: asyncio.Event | None, *, waits: bool) -> WorkRequest:
        began, ended = self._runtime.now(), ended or asyncio.Event()
        return WorkRequest(task_queue_id=task_queue_id, worker=worker, began=began, waits=waits, ended=ended)

    async def _wait_for_work(self, request: WorkRequest, count: int, wait: float, told: asyncio.Event) -> list[Claim]:
        record = await self._workers.arrived(request)
        if record.is_quarantined(self._runtime.now()):
            await self._workers.seen(record)
            await comes_within(request.ended, wait)
            return []
        caller = request.task_queue_id, request.worker
        waits = self._tellings.called(caller, request.began)
        found = asyncio.Event()
        noted = asyncio.ensure_future(self._note_wait(record, request, waits, wait, found))
        claimed: list[Loaded] = []
        try:
            try:
                claimed = await self._claim_in_time(request, record, waits, count, wait, found)
            finally:
                found.set()
                await asyncio.wait([noted])
        except asyncio.CancelledError:
            await self._give_back(claimed)
            raise
        if request.ended.is_set():
            await self._give_back(claimed)
            claimed = []
        by_503 = waits.is_told and waits.series.is_told_by_503
        if waits.is_told:
            way = "repeat" if by_503 else "empty"
            self._runtime.meter.add(TOLD, *request.task_queue_id.split("/", 1), way)
        is_latest = self._waiting.get(caller) is request
        if by_503:
            told.set()
            if is_latest:
                self._tellings.told(caller, waits)
            return []
        if is_latest:
            self._tellings.ended(caller, waits)
        if not claimed:
            seen = self._workers.seen(self._workers.rows.latest(record))
            await together(seen, self._reconciler.after_empty_poll(request.task_queue_id))
        return await self._claims(claimed)

    async def _claim_in_time(
        self, request: WorkRequest, record: WorkerRecord, waits: Wait, count: int, wait: float, found: asyncio.Event
    ) -> list[Loaded]:
        """Claims as soon as there is work. Returns none after `wait` seconds, or as soon as no client waits for the
        answer; but messages that lead to no claim do not end the call, up to 32 of them. Sets `found` if there is."""
        until, left, vain = self._runtime.now() + timedelta(seconds=wait), wait, 0
        while messages := await self._poller.take(
            request.task_queue_id, count, left, request.ended, waits, is_new=wait - left < STILL_THERE
        ):
            found.set()
            record = self._workers.rows.latest(record)
            if request.ended.is_set() or record.is_quarantined(self._runtime.now()):
                await self._stores.messages.release(messages)
                await comes_within(request.ended, max((until - self._runtime.now()).total_seconds(), 0))
                return []
            claimed = await self._claim_to_the_end(messages, record, request)
            left, vain = (until - self._runtime.now()).total_seconds(), vain + len(messages)
            if claimed or request.ended.is_set() or (left <= 0 and vain >= MAX_MESSAGES):
                return claimed
        return []

    async def _claim_to_the_end(
        self, messages: list[PendingMessage], record: WorkerRecord, request: WorkRequest
    ) -> list[Loaded]:
        """Claims the runs of the messages. If the call is cancelled, or the worker has called again, claims under way
        are completed and then given back."""
        claiming = asyncio.ensure_future(self._claiming.claim(messages, record, request))
        try:
            claimed = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            request.ended.set()
            await asyncio.wait([claiming])
            if claiming.exception() is None:
                await self._give_back(claiming.result())
            raise
        if request.ended.is_set():
            await self._give_back(claimed)
            return []
        return claimed

    async def _note_wait(
        self, record: WorkerRecord, request: WorkRequest, waits: Wait, wait: float, found: asyncio.Event
    ) -> None:
        """Notes in the worker's row that it waits in this process, so that other processes end its older waits, and
        learns from the row whether the call repeats one to another process. If this process knows of no wait elsewhere,
        it reads the row only after a moment. So a worker that gets work at once costs no request."""
        series = waits.series

        def may_repeat(row: WorkerRecord, process: str) -> bool:
            elsewhere = row.repeated_by(request.began, process, timedelta(seconds=wait) - SKEW)
            waits.series = series.noted(request.began, row.recent_waits, elsewhere)
            waits.had_work = row.last_active if row.recent_tasks else row.first_claim
            return waits.series.is_told_by_503

        with suppress(StorageUnavailable):  # an older wait may then still get a run, which is lost until takenUntil
            if not record.etag or self._workers.is_noted(record):
                if await comes_within(found, NOTED_AFTER):
                    return
                record = await self._workers.rows.read_again(record)
            await self._workers.waits(record, request, may_repeat)
            if waits.series.is_vain:
                left = (waits.series.ends - self._runtime.now()).total_seconds()
                if not await comes_within(found, left):
                    waits.is_over.set()

    async def claim_polled(
        self,
        task_queue_id: str,
        worker: Worker,
        count: int,
        poll_answer: str,
        wait: float,
        ended: asyncio.Event | None = None,
    ) -> list[Claim]:
        """Returns up to `count` claims of messages that a worker has polled itself, without waiting (contract 15,
        design 4). Messages that this service did not sign for the pool are left alone: their receipts may be those of
        others. Messages beyond `count` are released. For a quarantined worker all are released, and it waits `wait`
        seconds in vain. Raises InputError, StorageUnavailable."""
        messages: list[PendingMessage] = []
        try:
            for message in parse_poll_answer(poll_answer, self._runtime.now()):
                with suppress(MalformedMessage):
                    messages.append(self._stores.messages.read_pending(task_queue_id, message))
        except MalformedAnswer as error:
            raise InputError(f"xmlMessage is not the answer of a poll URL: {error}") from None
        request = self._request(task_queue_id, worker, ended, waits=False)
        record = await self._workers.arrived(request)
        if record.is_quarantined(self._runtime.now()):
            await together(self._workers.seen(record), self._stores.messages.release(messages))
            await comes_within(request.ended, wait)
            return []
        if not messages:
            await self._workers.seen(record)
            return []
        await self._stores.messages.release(messages[count:])  # done first: nothing may fail once there are claims
        claimed = await self._claim_to_the_end(messages[:count], record, request)
        return await self._claims(claimed)

    async def found_for_claim(self, task_id: str) -> Loaded:
        """Returns the task that a call of claimTask is about. Old workers delete their message on a 404, so it is
        looked for a while. Raises ResourceNotFound."""
        waited = 0.0
        while (found := await self._stores.tasks.load(task_id)) is None:
            if waited >= LOOKED_FOR:
                raise ResourceNotFound(f"task {task_id} does not exist")
            await self._runtime.sleep(LOOK_AGAIN)
            waited += LOOK_AGAIN
        return found

    async def claim_task(self, read: Loaded, run_id: int, worker: Worker) -> Claim:
        """Implements claimTask, for workers that poll Azure queues themselves (contract 2.4, design 4). A quarantined
        worker gets a retryable answer: after a refusal it would delete the message of a run that others may have.
        Raises ResourceNotFound, RequestConflict, ServiceUnavailable."""
        now = self._runtime.now()
        refuse_after_deadline(read.task, now)
        request = self._request(read.task.task_queue_id, worker, None, waits=False)
        record = await self._workers.arrived(request, LIFE_BY_CLAIM_TASK)
        if record.is_quarantined(now):
            raise ServiceUnavailable(f"worker {worker.worker_group}/{worker.worker_id} is quarantined")
        taken_until = now + self.first_claim
        loaded = await self._claiming.claim_by_task(read, run_id, taken_until, record, request)
        return self._claim(loaded, taken_until)

    async def reclaim_task(self, task_id: str, run_id: int) -> Claim:
        """Implements reclaimTask: renews the claim, and returns it with fresh credentials (contract 5.4)."""
        taken_until = self._runtime.now() + self.claim_timeout
        spare_hint_id = self._runtime.slugid()
        loaded = await self._executor.run_unread(
            task_id, lambda read, at: claims.reclaim(read.task, run_id, taken_until, at, spare_hint_id)
        )
        await self._workers.still_works(loaded.task)
        return self._claim(loaded, taken_until)

    async def _give_back(self, claimed: Sequence[Loaded], after: timedelta = AT_ONCE) -> None:
        """Gives back claims that were made and are not in the answer."""
        await together(*(self._giving_back.give_back(UndeliveredClaim.of(loaded.task), after) for loaded in claimed))

    async def _claims(self, claimed: Sequence[Loaded]) -> list[Claim]:
        """Returns the claims of one call. One that cannot be rendered is given back, without harm to the others."""
        shown: list[Claim] = []
        left: list[Loaded] = []
        for loaded in claimed:
            try:
                shown.append(self._claim(loaded))
            except Exception:
                note_defect(self._runtime, "show the claim of", loaded.task.task_id, loaded.task.task_queue_id)
                left.append(loaded)
        await self._give_back(left, AFTER_DEFECT)
        return shown

    def _claim(self, loaded: Loaded, at_least: datetime | None = None) -> Claim:
        """Returns the last run's claim. Its credentials last until takenUntil or `at_least`, whichever is later: a
        repeated claimTask gets fresh credentials with the old takenUntil (trap 12)."""
        task, run_id = loaded.task, loaded.task.last_run_id
        run = task.last_run
        now = self._runtime.now()
        taken_until = run.taken_until or now + self.claim_timeout
        expiry = max(taken_until, at_least or taken_until)
        return Claim(
            task=task,
            run_id=run_id,
            definition=loaded.body,
            credentials=temporary_credentials(
                client_id=task_client_id(
                    task_id=task.task_id,
                    run_id=run_id,
                    worker_group=run.worker_group or "",
                    worker_id=run.worker_id or "",
                    taken_until=expiry,
                ),
                scopes=task_scopes(task_id=task.task_id, run_id=run_id, scopes=loaded.definition.scopes),
                start=now,
                expiry=expiry,
                issuer=self._issuer.client_id,
                issuer_token=self._issuer.access_token,
                seed=self._runtime.slugid() + share_of(f"pool {task.task_queue_id}"),
            ),
            taken_until=taken_until,
        )
