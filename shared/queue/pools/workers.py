"""The registry of workers: noting who asks for work, reading, declaring, quarantine, removal (contract 8). A worker's
row also says which of its calls may still be given a run: it is written in the transaction of every claim, on condition
that no one has written it since, so that a quarantine, a removal or a newer wait is noticed there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.auth.audit import Entry, note_change
from shared.base import bounds
from shared.base.concurrency import both, in_waves
from shared.base.errors import ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.queue.claims.rules import worker_removed
from shared.queue.pools.directory import DirectoryKind, DirectoryStore
from shared.queue.pools.index import PoolIndex, Run
from shared.queue.pools.worker_rows import LIFE, Quarantine, WorkerRecord, WorkerStore
from shared.queue.tasks.effects import ChangePoolRows, Decision, NoDecision
from shared.queue.tasks.executor import Executor, Stores
from shared.queue.tasks.rows import Loaded
from shared.queue.tasks.rules import Task, Worker
from shared.runtime import attempts
from shared.store import keys
from shared.store.expiring import ExpiryStore
from shared.store.interface import TransactionRefused
from shared.store.partitions import PageReader, page_start

LIFE_BY_CLAIM_TASK = timedelta(days=5)
"""How long a task queue is listed after claimTask."""


@dataclass(eq=False, kw_only=True)
class WorkRequest:
    """A call of a worker that asks for work."""

    task_queue_id: str
    worker: Worker
    began: datetime
    """When the call began. It decides how the worker is told of work; `removals` and `wait` decide if it gets some."""
    waits: bool
    """Whether the call waits until there is work. If so, a newer wait of the same worker ends it."""
    removals: int = 0
    """How often the worker had been removed when the call came, as far as its process knew."""
    wait: int | None = None
    """The number of the worker's newest wait, as read since this one began; None before."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when no client waits for the answer any more, or another share has its place: then the call gets no run."""
    unavailable: list[Exception] = field(default_factory=list)
    """Transient failures that have kept the call from some claims, or from all."""


REMOVAL_SECONDS = 15.0
"""Time budget of one call, in seconds; a repeat of the call continues."""


class KnownWorker(NamedTuple):
    """A worker with the history of its quarantines, oldest first."""

    record: WorkerRecord
    history: list[Quarantine]


@dataclass(eq=False, repr=False)
class Workers:
    """Notes that workers and task queues are in use, without a request if this process knows that this was noted
    recently; shows workers, and carries out what operators and provisioners do to them."""

    _stores: Stores
    _executor: Executor
    rows: WorkerStore
    _directory: DirectoryStore
    _index: PoolIndex
    _expiry: ExpiryStore

    def __post_init__(self) -> None:
        self._runtime = self._stores.runtime
        self._now = self._runtime.now
        self._process = self._runtime.slugid()

    async def arrived(self, request: WorkRequest, life: timedelta = LIFE) -> WorkerRecord:
        """Notes the task queue of a worker that asks for work, to be listed for `life`; returns what is known of the
        worker, up to 30 s old: a call after a removal not seen here yet gets no run. Raises StorageUnavailable."""
        worker = request.worker
        record, _ = await both(
            self.rows.known(request.task_queue_id, worker.worker_group, worker.worker_id),
            self._directory.seen(request.task_queue_id, life),
        )
        request.removals = record.removals
        return record

    async def still_works(self, task: Task) -> None:
        """Notes the worker of the last run, which has renewed its claim. Raises StorageUnavailable."""
        run = task.last_run
        who = task.task_queue_id, run.worker_group or "", run.worker_id or ""
        await self._directory.seen(task.task_queue_id, LIFE)
        if not self.rows.was_seen(*who):
            await self.seen(await self.rows.read_worker(*who))

    async def seen(self, record: WorkerRecord) -> None:
        """Notes a worker that has claimed nothing now. Raises StorageUnavailable."""
        async for attempt in attempts(self._runtime):
            if attempt:
                record = await self.rows.read_again(record)
            if not self.rows.is_due(record) or await self._write_with_index(record.claimed([], self._now())):
                return

    async def waits(
        self, record: WorkerRecord, request: WorkRequest, may_repeat: Callable[[WorkerRecord, str], bool]
    ) -> None:
        """Notes that a worker has begun to wait here, so that its older waits in other processes get no run any more.

        `may_repeat` is asked, with the row as it was and this process, whether the wait may end with an answer after
        which the client repeats the call. A wait that was noted before this one has read the row counts as older. The
        worker is noted as seen if that is due, so that its row, and with it this wait's number, outlasts the wait. No
        request when the row says all that already. Raises StorageUnavailable."""
        async for attempt in attempts(self._runtime):
            if attempt:
                record = await self.rows.read_again(record)
            repeats, is_due = may_repeat(record, self._process), self.rows.is_due(record)
            seen = record.claimed([], self._now()) if is_due else record
            noted = seen.waiting(request.began, self._process, may_repeat=repeats)
            if (self.is_noted(record) and not is_due) or await self._write_with_index(noted):
                request.wait = noted.waits
                return

    def is_noted(self, record: WorkerRecord) -> bool:
        """Returns whether the last known wait of the worker was in this process."""
        return record.waits_in == self._process

    async def claimed(
        self, record: WorkerRecord, request: WorkRequest, tasks: Sequence[Run], rows: Sequence[ChangePoolRows]
    ) -> bool:
        """Writes a worker's row together with the index rows of the runs that it is to be given, in one transaction.
        False when it must not be given them: it has been quarantined or removed, or waits elsewhere by now. If somebody
        else has written the row meanwhile, it is read and checked again. After too many tries the answer is False too,
        since the worker's latest state was not checked. Raises StorageUnavailable."""
        async for attempt in attempts(self._runtime):
            record = await self.rows.read_again(record) if attempt else self.rows.latest(record)
            if request.ended.is_set() or not record.admits(request.removals, request.wait, self._process, self._now()):
                return False
            updated = record.claimed(tasks, self._now())
            if request.waits:
                updated = updated.waiting(request.began, self._process)
            if await self._write_with_index(updated, rows):
                return True
        return False

    async def _write_with_index(self, record: WorkerRecord, rows: Sequence[ChangePoolRows] = ()) -> WorkerRecord | None:
        """Writes a worker's row and index rows together. If the worker has no row yet, its deletion is scheduled first.
        Returns None if somebody else has written the worker's row since it was read."""
        if not record.etag:
            await self._expiry.worker(record.task_queue_id, record.worker_group, record.worker_id, record.expires)
        try:
            etag = await self._stores.pools.change_pool_rows(rows, record.task_queue_id, [self.rows.writing(record)])
        except TransactionRefused:
            return None
        return self.rows.written(record, etag)

    async def find_worker(self, task_queue_id: str, worker: Worker) -> KnownWorker:
        """Returns one worker that has not expired, or is quarantined, of a task queue that is listed. Raises
        ResourceNotFound, StorageUnavailable."""
        (record, history), entry = await both(
            self._with_history(task_queue_id, worker), self._directory.entry(DirectoryKind.TASK_QUEUE, task_queue_id)
        )
        if record is None or entry is None or not self._is_shown(record):
            raise _unknown(task_queue_id, worker)
        return KnownWorker(record, history)

    async def worker_page(self, task_queue_id: str, *, start: str, limit: int) -> tuple[list[WorkerRecord], str | None]:
        """Returns a page of workers that have not expired, or are quarantined, and where the next one starts. Raises
        InputError, StorageUnavailable."""
        first = page_start(start, keys.WORKERS)
        if limit == 0:
            return [], None
        records, resume = await self.rows.pool_page(task_queue_id, first, limit)
        return [record for record in records if self._is_shown(record)], resume

    async def quarantine(
        self, task_queue_id: str, worker: Worker, until: datetime, client_id: str, info: str, entry: Entry | None = None
    ) -> KnownWorker:
        """Gives a worker no work until then; a time in the past lifts its quarantine. What was set is kept as history.
        Raises ResourceNotFound, ServiceUnavailable, StorageUnavailable."""
        now = self._now()
        quarantine = Quarantine(
            client_id=client_id, updated=now, until=until, info=info, entry_id=self._runtime.slugid()
        )
        async for _ in attempts(self._runtime):
            record, history = await self._with_history(task_queue_id, worker)
            if record is None:
                raise _unknown(task_queue_id, worker)
            if any(each.entry_id == quarantine.entry_id for each in history):
                note_change(entry, True)
                return KnownWorker(record, history)  # the answer to our own write was lost
            note_change(entry, None)
            changed = replace(record, quarantine_until=until, expires=max(record.expires, now + LIFE))
            written = await self.rows.quarantine(changed, quarantine)
            if written is None:
                continue
            note_change(entry, not history or not quarantine.repeats(history[-1]))
            return KnownWorker(written, [*history, quarantine])
        raise ServiceUnavailable("the worker is contended; send the call again")

    async def declare(self, task_queue_id: str, worker: Worker, expires: datetime) -> KnownWorker:
        """Makes or extends a worker, its task queue and its provisioner, until that time at least. Raises
        ServiceUnavailable, StorageUnavailable."""
        await self._directory.lasts(task_queue_id, expires)
        now = self._now()

        def declared(read: WorkerRecord) -> WorkerRecord:
            return replace(read, expires=max(expires, read.expires) if read.etag else expires, last_active=now)

        written = await self._change_worker(task_queue_id, worker, declared)
        return KnownWorker(written, await self.rows.history(task_queue_id, worker.worker_group, worker.worker_id))

    async def removed(self, task_queue_id: str, worker: Worker, *, start: str) -> tuple[list[Run], str | None]:
        """Ends every run of a worker that is gone for good as `worker-shutdown`: now, not at takenUntil. Returns task
        and run of those that ended now and, if the call ran out of time, where to continue. Raises InputError,
        ServiceUnavailable, StorageUnavailable; a repeat continues."""
        until = self._now() + timedelta(seconds=REMOVAL_SECONDS)
        await self._mark_removed(task_queue_id, worker)
        ended: list[Run] = []
        first = page_start(start, keys.CLAIMED)
        pages = PageReader(lambda at: self._index.held(task_queue_id, worker, at or first))
        async for held in pages:
            runs = list(dict.fromkeys(held))
            outcomes = await in_waves(bounds.TASKS_AT_A_TIME, lambda run: self._end(task_queue_id, *run, worker), runs)
            ended.extend(run for run, has_ended in zip(runs, outcomes, strict=True) if has_ended)
            if self._now() >= until:
                break
        return ended, pages.resume

    async def _mark_removed(self, task_queue_id: str, worker: Worker) -> None:
        """Notes the removal in the worker's row. After this, no earlier call of the worker can write index rows of
        claims. So every claim that is committed, or may still be, has its index row already."""
        now = self._now()

        def removed(read: WorkerRecord) -> WorkerRecord:
            # It may be claiming for the first time. Its row is not listed, and the expiry job deletes it.
            return replace(read, removals=read.removals + 1, expires=read.expires if read.etag else now)

        await self._change_worker(task_queue_id, worker, removed)

    async def _change_worker(
        self, task_queue_id: str, worker: Worker, change: Callable[[WorkerRecord], WorkerRecord]
    ) -> WorkerRecord:
        """Writes what `change` makes of a worker."""
        async for _ in attempts(self._runtime):
            read = await self.rows.read_worker(task_queue_id, worker.worker_group, worker.worker_id)
            if (written := await self._write_with_index(change(read))) is not None:
                return written
        raise ServiceUnavailable("the worker is contended; send the call again")

    async def _end(self, task_queue_id: str, task_id: str, run_id: int, worker: Worker) -> bool:
        """Ends a run, if its task is of this pool: the caller is authorised for the pool's workers alone. Returns
        whether this call has ended it."""
        ended = False
        spare_hint_id = self._runtime.slugid()

        def decide(read: Loaded, now: datetime) -> Decision:
            nonlocal ended
            if read.task.task_queue_id != task_queue_id:
                raise NoDecision(f"task {task_id} is not of task queue {task_queue_id}")
            decision = worker_removed(read.task, run_id, worker, now, spare_hint_id)
            ended = decision.task is not None and decision.task is not read.task
            return decision

        try:
            await self._executor.run(task_id, decide)
        except (NoDecision, ResourceNotFound):
            return False
        return ended

    async def _with_history(self, task_queue_id: str, worker: Worker) -> tuple[WorkerRecord | None, list[Quarantine]]:
        return await both(
            self.rows.existing(task_queue_id, worker.worker_group, worker.worker_id),
            self.rows.history(task_queue_id, worker.worker_group, worker.worker_id),
        )

    def _is_shown(self, record: WorkerRecord) -> bool:
        now = self._now()
        return record.expires > now or record.is_quarantined(now)


def _unknown(task_queue_id: str, worker: Worker) -> ResourceNotFound:
    return ResourceNotFound(f"task queue {task_queue_id} has no worker {worker.worker_group}/{worker.worker_id}")
