"""Satisfies dependents: the bits of one dependent that come together are committed together (design 5)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import starmap
from typing import TypeVar

from shared.base.concurrency import together
from shared.base.errors import ResourceNotFound
from shared.queue.pools.rows import PoolStore
from shared.queue.tasks import transitions
from shared.queue.tasks.definition import satisfied_by
from shared.queue.tasks.effects import AddPendingRow, Decision, NoDecision, PoolRow
from shared.queue.tasks.executor import Executor, Stores
from shared.queue.tasks.rows import Loaded
from shared.queue.tasks.rules import Run, State

T = TypeVar("T")
TRIED_FOR = timedelta(seconds=20)
"""How long a lost race is retried at least: to put the received message again would cost more."""


class _NotListed(NoDecision):
    """The dependent's definition lists none of the tasks: their edges do not count."""


class PendingRows:
    """Index rows of the runs that dependents of one page get: collected, and written in one transaction."""

    def __init__(self, pools: PoolStore) -> None:
        self.pools = pools
        self._expected = 0
        self.waiting: dict[str, list[tuple[PoolRow, asyncio.Future[str | None]]]] = defaultdict(list)
        self._writes: set[asyncio.Task[list[None]]] = set()

    @contextmanager
    def expect(self) -> Iterator[RowToCome]:
        """Announces one more dependent that may get a run: until this ends, the rows of the others wait for its row."""
        self._expected += 1
        row = RowToCome(self)
        try:
            yield row
        finally:
            row.none()

    def one_less(self) -> None:
        """Counts one expected row less, and writes the collected rows once no further one is expected."""
        self._expected -= 1
        if self._expected == 0 and self.waiting:
            writing = asyncio.create_task(together(*starmap(self._write_pending, self.waiting.items())))
            self.waiting = defaultdict(list)
            self._writes.add(writing)
            writing.add_done_callback(self._writes.discard)

    async def _write_pending(self, task_queue_id: str, rows: list[tuple[PoolRow, asyncio.Future[str | None]]]) -> None:
        futures = [written for _, written in rows]
        try:
            etags = await self.pools.add_pending_together(task_queue_id, [row for row, _ in rows])
        except BaseException as error:
            _fail(futures, error)
        else:
            for written, etag in zip(futures, etags, strict=True):
                _answer(written, etag)


class RowToCome:
    """A dependent that may get an index row."""

    def __init__(self, rows: PendingRows) -> None:
        self._rows = rows
        self._is_open = True

    def none(self) -> None:
        """Ends the wait for this row: either the dependent gets none, or it takes too long."""
        if self._is_open:
            self._is_open = False
            self._rows.one_less()

    async def add(self, row: PoolRow) -> str | None:
        """Writes a row as `PoolStore.add_pending` does, with the rows of all dependents at hand, unless it is late."""
        if not self._is_open:
            return await self._rows.pools.add_pending(row)
        written: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._rows.waiting[row.task_queue_id].append((row, written))
        self.none()
        return await written


@dataclass(eq=False, slots=True)
class _Bit:
    required: str
    state: State
    resolved: datetime
    row: RowToCome
    at_deadline: bool
    exists: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Dependents:
    """Commits satisfied bits, one commit at a time for each dependent in this process. What comes meanwhile joins the
    next. Any number of required tasks may be resolved at about the same time, and each commit of the dependent makes
    all the others lose their race. The first bit is never delayed."""

    def __init__(self, stores: Stores, executor: Executor) -> None:
        self._stores = stores
        self._executor = executor
        self._queues: dict[str, list[_Bit]] = {}
        self._rounds: set[asyncio.Task[None]] = set()

    async def satisfy(self, dependent: str, required: str, run: Run, row: RowToCome, *, at_deadline: bool) -> bool:
        """Notes with a dependent that this run has resolved a required task, and waits until that is committed.
        `at_deadline` is as of the message that says so. Returns whether there is such a dependent. Raises
        ServiceUnavailable, StorageUnavailable."""
        assert run.resolved is not None, "a resolved run has a time"
        bit = _Bit(required, run.state, run.resolved, row, at_deadline)
        queue = self._queues.get(dependent)
        if queue is None:
            self._queues[dependent] = [bit]
            rounds = asyncio.create_task(self._commit_all(dependent))
            self._rounds.add(rounds)
            rounds.add_done_callback(self._rounds.discard)
        else:
            queue.append(bit)
            row.none()
        return await bit.exists

    async def _commit_all(self, dependent: str) -> None:
        """Commits in rounds until no bits are left."""
        queue = self._queues[dependent]
        while queue:
            taken: list[_Bit] = []
            try:
                await self._commit(dependent, queue, taken)
            except _NotListed:
                _answer_all(taken, exists=True)
            except ResourceNotFound:
                _answer_all([*taken, *queue], exists=False)
                queue.clear()
            except BaseException as error:
                _fail([bit.exists for bit in (*taken, *queue)], error)
                queue.clear()
            else:
                _answer_all(taken, exists=True)
        del self._queues[dependent]

    async def _commit(self, dependent: str, queue: list[_Bit], taken: list[_Bit]) -> None:
        """Commits one round of bits. Every attempt takes all bits that wait; the next round starts from its row."""
        row, hint_id = queue[0].row, self._stores.runtime.slugid()

        def decide(read: Loaded, now: datetime) -> Decision:
            taken.extend(queue)
            queue.clear()
            satisfied = 0
            for bit in taken:
                satisfied |= satisfied_by(read.definition, {bit.required: bit.state})
            if not satisfied:
                raise _NotListed
            resolved, at_deadline = max(bit.resolved for bit in taken), all(bit.at_deadline for bit in taken)
            decision = transitions.satisfy(read.task, now, hint_id, satisfied, resolved, at_deadline=at_deadline)
            if not any(isinstance(effect, AddPendingRow) for effect in decision.ahead):
                row.none()
            return decision

        ahead = self._stores.write_ahead(add_row=row.add)
        await self._executor.run_unread(dependent, decide, ahead=ahead, at_least=TRIED_FOR)


def _answer_all(bits: list[_Bit], *, exists: bool) -> None:
    for bit in bits:
        _answer(bit.exists, exists)


def _answer(future: asyncio.Future[T], result: T) -> None:
    """Sets the result, unless the waiting caller was cancelled."""
    if not future.done():
        future.set_result(result)


def _fail(futures: list[asyncio.Future[T]], error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
