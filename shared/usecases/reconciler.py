"""Restores what a pool's index says should be there (design 4).

Whoever holds a poll URL can hide messages for a week, or delete them; calls that died leave index rows behind.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from shared.concurrency import in_waves
from shared.domain import transitions
from shared.domain.effects import ChangePoolRows, NoDecision, row_of
from shared.domain.priority import Priority
from shared.domain.task import State
from shared.errors import ResourceNotFound
from shared.storage.pools import PendingRow
from shared.usecases.executor import Executor, Stores

GIVEN_TIME = timedelta(minutes=1)
"""A run that was scheduled later than this ago is left alone."""
OVERTAKEN = timedelta(minutes=10)
"""A band whose first message was put so much later than its oldest run was scheduled has lost that run's message."""
COMMIT_MAY_COME = timedelta(minutes=5)
"""A row whose run has not come by then belongs to a call that died."""
EVERY = timedelta(minutes=1)
"""Empty polls of a pool lead to a check this often at most, in one process."""
ROWS = 100
"""The oldest rows of a pool, in one check."""
WIDTH = 8


class Reconciler:
    """Compares index rows with what is visible in the bands, and both with the status rows."""

    def __init__(self, stores: Stores, executor: Executor) -> None:
        self._stores = stores
        self._executor = executor
        self._now = stores.runtime.now
        self._checked: dict[str, datetime] = {}

    async def after_empty_poll(self, task_queue_id: str) -> None:
        """Somebody waited in vain: a check, unless there was one within the last minute. Raises StorageUnavailable."""
        last = self._checked.get(task_queue_id)
        if last is None or self._now() - last >= EVERY:
            self._checked[task_queue_id] = self._now()
            await self.check_pool(task_queue_id)

    async def check_all(self) -> int:
        """Every pool of the directory; answers how many rows were looked into. Raises StorageUnavailable."""
        looked_into = 0
        pools, start = await self._stores.pools.known(None)
        while True:
            looked_into += sum(await in_waves(WIDTH, self.check_pool, pools))
            if start is None:
                return looked_into
            pools, start = await self._stores.pools.known(start)

    async def check_pool(self, task_queue_id: str) -> int:
        """One pool; answers how many rows were looked into: none, unless there is evidence that a message is lost."""
        rows = await self._stores.pools.pending(task_queue_id, ROWS)
        bands: dict[Priority, list[PendingRow]] = defaultdict(list)
        for row in rows:
            if self._now() - row.scheduled > GIVEN_TIME:
                bands[row.priority].append(row)
        suspects: list[PendingRow] = []
        for priority, waiting in bands.items():
            head = await self._stores.messages.head(task_queue_id, priority)
            if head is None or head - waiting[0].scheduled > OVERTAKEN:
                suspects.extend(waiting)
        await in_waves(WIDTH, lambda row: self._repair(task_queue_id, row), suspects)
        return len(suspects)

    async def _repair(self, task_queue_id: str, row: PendingRow) -> None:
        """The status row decides: a new message, or the row goes."""
        loaded = await self._stores.tasks.load(row.task_id)
        if loaded is None or row.run_id > loaded.task.last_run_id:
            if self._now() - row.written > COMMIT_MAY_COME:
                await self._stores.pools.remove_read(task_queue_id, row)
            return
        task, run = loaded.task, loaded.task.runs[row.run_id]
        if run.state is State.PENDING and run.scheduled == row.scheduled:
            await self._renew(row)
            return
        await self._stores.pools.remove_read(task_queue_id, row)
        if run.state is State.RUNNING:
            claimed = ChangePoolRows(task_queue_id=task_queue_id, add=(row_of(task, row.run_id),))
            await self._stores.pools.change([claimed], task_queue_id)

    async def _renew(self, row: PendingRow) -> None:
        hint_id = self._stores.runtime.slugid()
        try:
            await self._executor.run(
                row.task_id, lambda read, now: transitions.renew_message(read.task, row.run_id, hint_id)
            )
        except (NoDecision, ResourceNotFound):
            return  # it has moved on since it was read
