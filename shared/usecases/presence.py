"""Who is there: workers and task queues are noted as seen when they ask for work (contract 8).

A worker's row also says which of its calls may still be given a run: it is written in the transaction of every claim,
on condition that nobody has written it since, so that a quarantine, a removal or a newer wait is always noticed there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.concurrency import both
from shared.domain.claims import Worker
from shared.domain.effects import ChangePoolRows
from shared.domain.task import Task
from shared.storage.directory import DirectoryStore
from shared.storage.expiry import ExpiryStore
from shared.storage.interface import TransactionRefused
from shared.storage.pools import PoolStore
from shared.storage.workers import LIFE, WorkerRecord, WorkerStore
from shared.usecases.executor import Stores

LIFE_BY_CLAIM_TASK = timedelta(days=5)
"""How long a task queue is listed after claimTask."""
TRIES = 5


@dataclass(eq=False, kw_only=True)
class Visit:
    """A call of a worker that asks for work."""

    began: datetime
    waits: bool
    """Whether it waits until there is work: then a newer wait of the same worker ends it."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nobody waits for its answer any more: nothing may be handed out in it."""


class Presence:
    """Notes workers and task queues, with no request while this process knows that it was done not long ago."""

    def __init__(self, stores: Stores, workers: WorkerStore, directory: DirectoryStore, expiry: ExpiryStore) -> None:
        self._pools: PoolStore = stores.pools
        self._now = stores.runtime.now
        self._workers = workers
        self._directory = directory
        self._expiry = expiry
        self._process = stores.runtime.slugid()

    async def arrived(self, task_queue_id: str, worker: Worker) -> WorkerRecord:
        """A worker asks for work: what is known of it, up to 30 s old; its task queue is noted.

        Raises StorageUnavailable.
        """
        record, _ = await both(
            self._workers.known(task_queue_id, worker.worker_group, worker.worker_id),
            self._directory.seen(task_queue_id, LIFE),
        )
        return record

    async def named_a_task(self, task_queue_id: str, worker: Worker) -> WorkerRecord:
        """As `arrived`, for a worker that claims a task by its id: then only the task queue counts as seen."""
        record, _ = await both(
            self._workers.known(task_queue_id, worker.worker_group, worker.worker_id),
            self._directory.seen(task_queue_id, LIFE_BY_CLAIM_TASK),
        )
        return record

    async def still_works(self, task: Task) -> None:
        """The worker of the last run has renewed its claim. Raises StorageUnavailable."""
        run = task.last_run
        who = task.task_queue_id, run.worker_group or "", run.worker_id or ""
        await self._directory.seen(task.task_queue_id, LIFE)
        if not self._workers.was_seen(*who):
            await self.seen(await self._workers.read(*who))

    async def seen(self, record: WorkerRecord) -> None:
        """A worker that has claimed nothing now. Raises StorageUnavailable."""
        for _ in range(TRIES):
            if not self._workers.is_due(record) or await self._write(record.claimed([], self._now()), []):
                return
            record = await self.read_again(record)

    async def waits(self, record: WorkerRecord, visit: Visit) -> None:
        """A worker has begun to wait here, so that its older waits in other processes get no run any more.

        No request when the row says so already. Raises StorageUnavailable.
        """
        for _ in range(TRIES):
            if record.etag and (record.waits_in == self._process or record.waits_from >= visit.began):
                return
            updated = record.waiting(visit.began, self._process)
            if await self._write(updated, []):
                return
            record = await self.read_again(record)

    def latest(self, record: WorkerRecord) -> WorkerRecord:
        """What this process knows of the worker by now: no request."""
        return self._workers.latest(record)

    async def read_again(self, record: WorkerRecord) -> WorkerRecord:
        """The worker as it is now. Raises StorageUnavailable."""
        return await self._workers.read(record.task_queue_id, record.worker_group, record.worker_id)

    def is_noted(self, record: WorkerRecord) -> bool:
        """Whether the worker's last wait that is known was in this process."""
        return record.waits_in == self._process

    async def claimed(
        self,
        record: WorkerRecord,
        visit: Visit,
        tasks: Sequence[tuple[str, int]],
        rows: Sequence[ChangePoolRows],
    ) -> bool:
        """A worker has claimed these runs: its row is written with their index rows, in one transaction.

        False, and nothing is written, when the claims must not be handed out: the worker has been quarantined or
        removed, or waits elsewhere by now. A row that somebody else has written is read again and judged again.
        Raises StorageUnavailable.
        """
        for _ in range(TRIES):
            if visit.ended.is_set() or not record.admits(visit.began, self._process, self._now()):
                return False
            updated = record.claimed(tasks, self._now())
            if visit.waits:
                updated = updated.waiting(visit.began, self._process)
            if await self._write(updated, rows):
                return True
            record = await self.read_again(record)
        await self._pools.change(rows, record.task_queue_id)
        return True

    async def _write(self, record: WorkerRecord, rows: Sequence[ChangePoolRows]) -> bool:
        """Whether nobody has written the worker's row since it was read."""
        if not record.etag:
            await self._expiry.worker(record.task_queue_id, record.worker_group, record.worker_id, record.expires)
        try:
            etag = await self._pools.change(rows, record.task_queue_id, [self._workers.write(record)])
        except TransactionRefused:
            return False
        self._workers.written(record, etag)
        return True
