"""Who is there: workers and task queues are noted as seen when they ask for work (contract 8)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

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
"""How long a task queue is listed after claimTask, which does not note the worker."""
TRIES = 3


class Presence:
    """Notes workers and task queues, with no request while this process knows that it was done not long ago."""

    def __init__(self, stores: Stores, workers: WorkerStore, directory: DirectoryStore, expiry: ExpiryStore) -> None:
        self._pools: PoolStore = stores.pools
        self._now = stores.runtime.now
        self._workers = workers
        self._directory = directory
        self._expiry = expiry

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
        if self._workers.is_due(record):
            await self.claimed(record, [], [])

    async def claimed(self, record: WorkerRecord, tasks: list[tuple[str, int]], rows: Sequence[ChangePoolRows]) -> None:
        """A worker has claimed these runs: its row is written with their index rows, in one transaction.

        A worker's row that somebody else has written is read again; the index rows are written in any case.
        Raises StorageUnavailable.
        """
        for _ in range(TRIES):
            updated = record.claimed(tasks, self._now())
            if not record.etag:
                await self._expiry.worker(record.task_queue_id, record.worker_group, record.worker_id, updated.expires)
            try:
                etag = await self._pools.change(rows, record.task_queue_id, [self._workers.write(updated)])
            except TransactionRefused:
                record = await self._workers.read(record.task_queue_id, record.worker_group, record.worker_id)
            else:
                self._workers.written(updated, etag)
                return
        await self._pools.change(rows, record.task_queue_id)
