"""claimWork, claimTask, reclaimTask (contract 5, design 4)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.auth.credentials import task_client_id, task_scopes, temporary_credentials
from shared.concurrency import both, in_waves, together
from shared.domain import claims
from shared.domain.claims import NotClaimed, Verdict, Worker
from shared.domain.definition import Json
from shared.domain.effects import ChangePoolRows, Decision, PutClaim, TakeLease
from shared.domain.task import Task, Ticket
from shared.domain.transitions import refuse_after_deadline
from shared.errors import InputError, ResourceNotFound, ServiceUnavailable
from shared.storage.interface import ReceiptLost, StorageUnavailable
from shared.storage.messages import MalformedMessage, PendingMessage
from shared.storage.poll_answers import MalformedAnswer, parse_poll_answer
from shared.storage.tasks import Loaded
from shared.storage.workers import WorkerRecord
from shared.usecases.executor import Executor, Stores
from shared.usecases.polling import Poller
from shared.usecases.presence import Presence
from shared.usecases.reconciler import Reconciler

LONGEST_RETURN = 300.0
"""Seconds that a message whose commit may come is put back for, at the most."""
COMMIT_MAY_COME = 3.0
"""Seconds for which claimTask looks for a task whose commit may be under way."""
LOOK_AGAIN = 0.5


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
    """Of the run, as the status shows it."""


class Work:
    """Hands runs to workers."""

    def __init__(
        self,
        stores: Stores,
        executor: Executor,
        poller: Poller,
        reconciler: Reconciler,
        presence: Presence,
        issuer: Issuer,
        claim_timeout: timedelta,
    ) -> None:
        self._stores = stores
        self._executor = executor
        self._poller = poller
        self._reconciler = reconciler
        self._presence = presence
        self._issuer = issuer
        self._claim_timeout = claim_timeout
        self._runtime = stores.runtime

    async def claim_work(self, task_queue_id: str, worker: Worker, count: int, wait: float) -> list[Claim]:
        """Up to `count` claims, waiting up to `wait` seconds for the first (contract 5.1).

        A quarantined worker waits in vain. Raises StorageUnavailable.
        """
        record = await self._presence.arrived(task_queue_id, worker)
        if record.is_quarantined(self._runtime.now()):
            await self._presence.seen(record)
            await self._runtime.sleep(wait)
            return []
        until, left = self._runtime.now() + timedelta(seconds=wait), wait
        while messages := await self._poller.take(task_queue_id, count, left):
            claimed = await self.claim_messages(task_queue_id, messages, worker, record)
            left = (until - self._runtime.now()).total_seconds()
            if claimed or left <= 0:
                return claimed
        await together(self._presence.seen(record), self._reconciler.after_empty_poll(task_queue_id))
        return []

    async def claim_polled(
        self, task_queue_id: str, worker: Worker, count: int, poll_answer: str, wait: float
    ) -> list[Claim]:
        """Up to `count` claims of what a worker has polled itself, without waiting (contract 15, design 4).

        Messages that this service did not sign for the pool are left alone: their receipts may be those of others.
        Surplus ones are released. A quarantined worker waits in vain, while all are released.
        Raises InputError, StorageUnavailable.
        """
        messages = self._read_polled(task_queue_id, poll_answer)
        record = await self._presence.arrived(task_queue_id, worker)
        if record.is_quarantined(self._runtime.now()):
            await together(self._presence.seen(record), *map(self._release, messages))
            await self._runtime.sleep(wait)
            return []
        surplus = together(*map(self._release, messages[count:]))
        if not messages:
            await together(self._presence.seen(record), surplus)
            return []
        claimed, _ = await both(self.claim_messages(task_queue_id, messages[:count], worker, record), surplus)
        return claimed

    def _read_polled(self, task_queue_id: str, poll_answer: str) -> list[PendingMessage]:
        messages: list[PendingMessage] = []
        try:
            for message in parse_poll_answer(poll_answer, self._runtime.now()):
                with suppress(MalformedMessage):
                    messages.append(self._stores.messages.read_pending(task_queue_id, message))
        except MalformedAnswer as error:
            raise InputError(f"xmlMessage is not the answer of a poll URL: {error}") from None
        return messages

    async def _release(self, message: PendingMessage) -> None:
        await self._stores.messages.delay_pending(message.ticket, 0)

    async def claim_messages(
        self, task_queue_id: str, messages: Sequence[PendingMessage], worker: Worker, record: WorkerRecord
    ) -> list[Claim]:
        """Claims what the messages in hand stand for. Raises StorageUnavailable when nothing was claimed for that."""
        failures: list[Exception] = []

        async def attempt(message: PendingMessage) -> tuple[Loaded, Decision] | None:
            try:
                return await self._claim_message(task_queue_id, message, worker)
            except (StorageUnavailable, ServiceUnavailable) as failure:
                failures.append(failure)
                return None

        outcomes = await in_waves(len(messages), attempt, messages)
        claimed = [outcome for outcome in outcomes if outcome is not None]
        if not claimed:
            if failures:
                raise failures[0]
            return []
        await self._follow_up(claimed, record)
        return [self._claim(loaded) for loaded, _ in claimed]

    async def found_for_claim(self, task_id: str) -> Loaded:
        """A task that claimTask names. Old workers delete their message on a 404, so it is looked for a while.

        Raises ResourceNotFound.
        """
        waited = 0.0
        while (found := await self._stores.tasks.load(task_id)) is None:
            if waited >= COMMIT_MAY_COME:
                raise ResourceNotFound(f"task {task_id} does not exist")
            await self._runtime.sleep(LOOK_AGAIN)
            waited += LOOK_AGAIN
        return found

    async def claim_task(self, read: Loaded, run_id: int, worker: Worker) -> Claim:
        """claimTask, for workers that poll Azure queues themselves (contract 2.4, design 4).

        A quarantined worker gets a retryable answer: after a refusal it would delete the message of a run that
        others may have. Raises ResourceNotFound, RequestConflict, ServiceUnavailable.
        """
        now = self._runtime.now()
        refuse_after_deadline(read.task, now)
        record = await self._presence.named_a_task(read.task.task_queue_id, worker)
        if record.is_quarantined(now):
            raise ServiceUnavailable(f"worker {worker.worker_group}/{worker.worker_id} is quarantined")
        taken_until = now + self._claim_timeout
        hint_id = self._runtime.slugid()
        loaded = await self._executor.carry_out(
            read,
            lambda read, at: claims.claim_by_task(read.task, run_id, worker, taken_until, at, hint_id),
            self._stores.write_ahead(),
        )
        return self._claim(loaded, taken_until)

    async def reclaim_task(self, task_id: str, run_id: int) -> Claim:
        """reclaimTask: the claim lasts longer, with fresh credentials (contract 5.4)."""
        taken_until = self._runtime.now() + self._claim_timeout
        spare_hint_id = self._runtime.slugid()
        loaded = await self._executor.run(
            task_id, lambda read, at: claims.reclaim(read.task, run_id, taken_until, at, spare_hint_id)
        )
        await self._presence.still_works(loaded.task)
        return self._claim(loaded, taken_until)

    async def _claim_message(
        self, task_queue_id: str, message: PendingMessage, worker: Worker
    ) -> tuple[Loaded, Decision] | None:
        """One message, by the table of design 4; None when it does not lead to a claim."""
        taken_until = self._runtime.now() + self._claim_timeout
        timer = PutClaim(task_id=message.task_id, run_id=message.run_id, taken_until=taken_until)
        lease = TakeLease(
            ticket=message.ticket,
            task_queue_id=task_queue_id,
            task_id=message.task_id,
            run_id=message.run_id + 1,
            hint_id=message.hint_id,
            visible=taken_until,
        )
        ahead = self._stores.write_ahead()
        try:
            read, _ = await both(self._stores.tasks.load(message.task_id), ahead.ensure((timer, lease)))
        except ReceiptLost:
            await ahead.withdraw()
            return None
        held = ahead.ticket(lease)
        assert held is not None, "a lease that was taken has a ticket"
        if read is None or read.task.task_queue_id != task_queue_id:
            await ahead.withdraw()
            verdict = claims.judge(None, message.hint_id, self._age(message), self._runtime.now())
            await self._dispose(message, held, None, verdict)
            return None

        def decide(loaded: Loaded, now: datetime) -> Decision:
            return claims.decide(loaded.task, message.hint_id, self._age(message), worker, held, taken_until, now)

        try:
            committed, decision = await self._executor.commit(read, decide, ahead)
        except NotClaimed as refused:
            await self._dispose(message, held, refused.task, refused.verdict)
            return None
        except (ReceiptLost, ResourceNotFound):
            return None
        except (StorageUnavailable, ServiceUnavailable):
            await self._let_go(held)
            raise
        if committed.task.is_resolved:
            await self._executor.follow_up(committed, decision)
            return None
        return committed, decision

    async def _let_go(self, held: Ticket) -> None:
        """The attempt failed: whoever polls next may try. If it did commit, he will see that and hide the message."""
        try:
            await self._stores.messages.delay_pending(held, 0)
        except StorageUnavailable:
            return

    def _age(self, message: PendingMessage) -> float:
        return (self._runtime.now() - message.inserted).total_seconds()

    async def _dispose(self, message: PendingMessage, held: Ticket, task: Task | None, verdict: Verdict) -> None:
        """A message that leads to no claim is removed, hidden or put back (design 4)."""
        if verdict is Verdict.REMOVE:
            await self._stores.messages.remove(held)
        elif verdict is Verdict.HIDE and task is not None:
            try:
                await self._stores.messages.move_pending(
                    held,
                    task.task_queue_id,
                    task.task_id,
                    task.last_run_id + 1,
                    message.hint_id,
                    task.last_run.taken_until,
                )
            except ReceiptLost:
                return
        else:
            seconds = min(2.0 ** min(message.dequeue_count - 1, 20), LONGEST_RETURN)
            await self._stores.messages.delay_pending(held, seconds)

    async def _follow_up(self, claimed: list[tuple[Loaded, Decision]], record: WorkerRecord) -> None:
        """Index rows of all claims and the worker's row in one transaction, beside the events."""
        rows: list[ChangePoolRows] = []
        rest: list[tuple[Loaded, Decision]] = []
        for loaded, decision in claimed:
            first, *later = decision.after
            rows.extend(effect for effect in first if isinstance(effect, ChangePoolRows))
            rest.append((loaded, Decision(task=decision.task, after=((), *later), events=decision.events)))
        tasks = [(loaded.task.task_id, loaded.task.last_run_id) for loaded, _ in claimed]
        await together(
            self._presence.claimed(record, tasks, rows),
            *(self._stores.announcer.announce(decision.events, loaded) for loaded, decision in rest),
        )
        await together(
            *(
                self._executor.follow_up(loaded, Decision(task=None, after=decision.after))
                for loaded, decision in rest
                if len(decision.after) > 1
            )
        )

    def _claim(self, loaded: Loaded, at_least: datetime | None = None) -> Claim:
        """The last run's claim, with credentials until its takenUntil, or longer: a repeated claimTask gets fresh
        ones with the old takenUntil (trap 12)."""
        task, run_id = loaded.task, loaded.task.last_run_id
        run = task.last_run
        now = self._runtime.now()
        taken_until = run.taken_until or now + self._claim_timeout
        expiry = max(taken_until, at_least or taken_until)
        return Claim(
            task=task,
            run_id=run_id,
            definition=loaded.definition.at_priority(task.priority),
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
                seed=self._runtime.slugid() + self._runtime.slugid(),
            ),
            taken_until=taken_until,
        )
