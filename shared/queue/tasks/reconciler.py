"""Restores what a pool's index says should be there (design 4). A worker that holds a poll URL can hide messages for a
week, or delete them; calls that died leave index rows behind."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from shared.base import bounds, remembered
from shared.base.concurrency import in_waves
from shared.base.errors import ResourceNotFound
from shared.base.memo import Memo
from shared.base.priority import Priority
from shared.base.protocol import MESSAGE_LOST_AFTER, ORPHAN_AFTER, OVERDUE
from shared.queue.pools.queues import CHECKED_TO
from shared.queue.pools.rows import IndexRow
from shared.queue.tasks import transitions
from shared.queue.tasks.effects import NoDecision
from shared.queue.tasks.executor import Executor, Stores
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.interface import MAX_PAGE, StorageUnavailable
from shared.store.partitions import PageReader

log = logging.getLogger("taskcluster.reconciler")
T = TypeVar("T")
MIN_ROW_AGE = timedelta(minutes=1)
"""Rows younger than this are not checked: their call may be under way."""
UNUSED_FOR = timedelta(days=30)
"""How long a pool without tasks must be unused until its queues are deleted; the next use creates them again."""
LONGEST_CHECK = 240.0
"""Approximate time budget, in seconds, of one check of all pools. The timer runs every five minutes."""


class Reconciler:
    """Compares index rows with what is visible in the bands, and both with the status rows."""

    def __init__(self, stores: Stores, executor: Executor) -> None:
        self._stores = stores
        self._executor = executor
        self._now = stores.runtime.now
        self._checked: Memo[str, bool] = Memo(remembered.CHECKED, self._now)
        self._in_use_until: Memo[str, datetime] = Memo(remembered.IN_USE)
        self._claimed_checked: Memo[str, bool] = Memo(remembered.CLAIMED_CHECKED, self._now)
        self._next: str | None = None
        """The key in the directory at which the next run begins; None: read it from storage."""

    async def after_empty_poll(self, task_queue_id: str) -> None:
        """Called when a worker waited in vain. Checks the oldest rows, unless they were checked within the last minute.
        Raises StorageUnavailable."""
        if task_queue_id not in self._checked:
            self._checked[task_queue_id] = True
            oldest, _ = await self._stores.pools.runs(task_queue_id, bounds.ROWS_OF_A_VAIN_WAIT)
            await self._check_rows(task_queue_id, oldest)

    async def check_all(self, seconds: float = LONGEST_CHECK) -> int:
        """Checks every pool of the directory, for about `seconds`. Returns how many rows were examined. The next run
        continues where this one ended. If the process dies, the next run begins with the pools that were being checked.
        If it dies of them again, the run after that begins behind them. A failure in one pool does not keep others from
        being checked. Raises StorageUnavailable when the directory cannot be read."""
        until = self._now() + timedelta(seconds=seconds)
        if self._next is None:  # asked once: a process knows where its own runs have ended
            self._next = await self._stores.pools.next_to_check()
        first = self._next
        looked_into = 0
        is_begun = False

        async def check(pool: str) -> int | None:
            return await _failures_logged(self.check_pool(pool), "pool %s was not checked", pool, "pool_not_checked")

        for start, end in ((first, ""), ("", first)) if first else (("", ""),):
            pages = PageReader(partial(self._stores.pools.page_of_all, limit=bounds.RECONCILED_POOLS, end=end), start)
            async for pools in pages:
                if not is_begun:
                    await self._note_next(pages.resume or "")
                is_begun = True
                looked_into += sum(each or 0 for each in await in_waves(bounds.POOLS_AT_A_TIME, check, pools))
                await self._note_next(pages.resume or "")
                if self._now() >= until:
                    return looked_into
        return looked_into

    async def _note_next(self, following: str) -> None:
        if following != self._next:
            await self._stores.pools.note_next_to_check(following)
            self._next = following

    async def check_pool(self, task_queue_id: str) -> int:
        """Checks one pool. Returns how many rows were examined closely: none, unless there is evidence that a message
        is lost. The work is bounded: the oldest page of rows each time and, if there are more, some pages from where
        the last check ended, so that every row has its turn. Raises StorageUnavailable."""
        pools = self._stores.pools
        looked_into = await self._check_claimed(task_queue_id)
        rows, resume = await pools.runs(task_queue_id, MAX_PAGE)
        if not rows:
            until = self._in_use_until.get(task_queue_id)
            if until is None or until <= self._now():
                self._in_use_until[task_queue_id] = await pools.queues.retire(task_queue_id, UNUSED_FOR)
        looked_into += await self._check_rows(task_queue_id, rows)
        if resume is None:
            return looked_into
        start = max(await pools.queues.checked_to(task_queue_id), resume)
        pages = PageReader(lambda at: pools.runs(task_queue_id, MAX_PAGE, at or ""), start)
        left = bounds.RECONCILED_PAGES - 1
        async for more in pages:
            looked_into += await self._check_rows(task_queue_id, more)
            left -= 1
            if left == 0:
                break
        await pools.queues.write_properties(task_queue_id, {CHECKED_TO: pages.resume or ""})
        return looked_into

    async def _check_claimed(self, task_queue_id: str) -> int:
        """Removes leftover index rows of claims, whose calls were slow or died. Returns how many were examined. It is
        enough to check the rows of the oldest claims: those before a leftover one go at their deadlines at the
        latest."""
        if task_queue_id in self._claimed_checked:
            return 0
        rows, _ = await self._stores.pools.runs(task_queue_id, MAX_PAGE, within=keys.CLAIMED)
        self._claimed_checked[task_queue_id] = True
        overdue = [row for row in rows if self._is_overdue(row)]
        await in_waves(bounds.POOLS_AT_A_TIME, lambda row: self._repair_logging_failures(task_queue_id, row), overdue)
        return len(overdue)

    def _is_overdue(self, row: IndexRow) -> bool:
        return self._now() - row.deadline > OVERDUE

    async def _check_rows(self, task_queue_id: str, rows: Sequence[IndexRow]) -> int:
        """Checks rows, given in the order in which their runs were scheduled. A band's messages are taken in about the
        same order. A row is rewritten when its message is put again, so a row is as old as its message."""
        bands: dict[Priority, list[IndexRow]] = defaultdict(list)
        suspects: list[IndexRow] = []
        for row in rows:
            if self._is_overdue(row):
                suspects.append(row)
            elif self._now() - _latest(row) > MIN_ROW_AGE:
                bands[row.priority].append(row)
        for priority, waiting in bands.items():
            head = await self._stores.messages.head(task_queue_id, priority)
            suspects.extend(row for row in waiting if head is None or head - _latest(row) > MESSAGE_LOST_AFTER)
        await in_waves(bounds.POOLS_AT_A_TIME, lambda row: self._repair_logging_failures(task_queue_id, row), suspects)
        return len(suspects)

    async def _repair_logging_failures(self, task_queue_id: str, row: IndexRow) -> None:
        """Repairs a row; a failure is logged, and does not keep other rows from being repaired."""
        check = self._remove_overdue if self._is_overdue(row) else self._repair
        work = check(task_queue_id, row)
        await _failures_logged(work, "task %s was not reconciled", row.task_id, "not_reconciled")

    async def _repair(self, task_queue_id: str, row: IndexRow) -> None:
        """Decides by the status row whether the run gets a new message or its index row is removed. If the task belongs
        to another pool, the row is an orphan of a call that was refused, or died. If it were kept for that task,
        callers who are authorised for this pool alone could see the task, and end its run."""
        looked = self._now()
        loaded = await self._stores.tasks.load(row.task_id)
        if loaded is not None and loaded.task.task_queue_id != task_queue_id:
            loaded = None
        if loaded is None or row.run_id > loaded.task.last_run_id:
            if looked - row.written > ORPHAN_AFTER:
                await self._stores.pools.remove_pool_row(task_queue_id, row.key, row.etag)
            return
        task, run = loaded.task, loaded.task.runs[row.run_id]
        if run.state is State.PENDING and run.scheduled == row.since:
            if row.priority == task.priority:
                hint_id = self._stores.runtime.slugid()
                with suppress(NoDecision, ResourceNotFound):  # the task has changed since it was read
                    await self._executor.run(
                        row.task_id, lambda read, now: transitions.renew_message(read.task, row.run_id, hint_id)
                    )
                    await self._stores.pools.rewrite(task_queue_id, row)
            else:
                # A change of priority died, or raced with another one: the message was looked for in the wrong band.
                await self._stores.pools.set_priority(task_queue_id, row.key, task.priority, row.etag)
            return
        await self._stores.pools.remove_pool_row(task_queue_id, row.key, row.etag)

    async def _remove_overdue(self, task_queue_id: str, row: IndexRow) -> None:
        """Removes a row that is left over so long after the deadline. If its task is unresolved, the task has lost its
        deadline message, which is put again."""
        task = await self._stores.tasks.status(row.task_id)
        if task is None or task.is_resolved or task.task_queue_id != task_queue_id:
            await self._stores.pools.remove_pool_row(task_queue_id, row.key, row.etag)
        else:
            await self._stores.messages.put_deadline(transitions.put_deadline(task))


def _latest(row: IndexRow) -> datetime:
    """Returns when the message of the row's run was put, as far as is known."""
    return max(row.since, row.written)


async def _failures_logged(work: Awaitable[T], text: str, name: str, action: str) -> T | None:
    """Awaits the work and returns its result. If it fails, logs that and returns None, so that other work goes on."""
    try:
        return await work
    except StorageUnavailable as failure:
        log.warning(f"{text}: %s", name, failure, extra={"action": action})
    except Exception:
        log.exception(text, name, extra={"action": action})
    return None
