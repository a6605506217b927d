"""Resolved messages: dependents, group, index rows, the deadline message, uploads (design 5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.concurrency import both, in_waves, together
from shared.domain import transitions
from shared.domain.creation import satisfies
from shared.domain.effects import ChangePoolRows, Decision, NoDecision, row_of
from shared.domain.task import RETRY_OF, Created, Run, State, Task
from shared.errors import ResourceNotFound
from shared.storage.artifacts import Waiting
from shared.storage.interface import Row
from shared.storage.tasks import Loaded
from shared.telemetry.instruments import FAN_OUT_LAG
from shared.usecases.executor import Executor, Stores
from shared.usecases.group_check import GroupCheck
from shared.usecases.uploads import Uploads

PAGE = 100
"""Edges and uploads in one message's work; the next page is a message of its own, put before this one is done."""
WIDTH = 16
"""Dependents at a time."""
COMMIT_MAY_COME = timedelta(minutes=5)
"""For so long a message without its resolution, or an edge without its dependent, is given time to come true."""
EDGE_AGAIN = 5.0
"""Seconds until an edge whose dependent has not come yet is looked at again."""
FIRST_DELAY = 2.0
LONGEST_DELAY = 60.0


class _NotListed(NoDecision):
    """The dependent's definition does not list the task: the edge does not count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedMessage:
    """A resolved message: the run, when it was first put, and where its fan-out goes on."""

    task_id: str
    run_id: int
    put: datetime
    start: str | None = None
    delay: float = FIRST_DELAY


class Resolution:
    """Carries a task's resolution to everybody who waits for it. Every step may be repeated."""

    def __init__(self, stores: Stores, executor: Executor, group_check: GroupCheck, uploads: Uploads) -> None:
        self._stores = stores
        self._executor = executor
        self._group_check = group_check
        self._uploads = uploads

    async def resolved_due(self, message: ResolvedMessage) -> None:
        """Handles one message.

        The edges and uploads are read only after the resolution was seen in the status row, never beside that read:
        whoever adds an edge reads the status afterwards, so one of the two sees the other. Read side by side, the
        edges may be older than the status, and a dependent that was added in between would wait for ever.
        Raises StorageUnavailable, ServiceUnavailable: then it is to be handled again.
        """
        read = await self._stores.tasks.load(message.task_id)
        if read is None:
            return
        run = self._run(read.task, message.run_id)
        if run is None:
            await self._wait_for_commit(message)
            return
        if _was_retried(read.task, message.run_id):
            return
        edges, uploads, rest = await self._stores.tasks.edges_and_uploads(
            message.task_id, start=message.start, limit=PAGE
        )
        if rest is not None:
            await self._put(message, delay=0, start=rest)
        young = await self._fan_out(read, run, edges)
        if young:
            await self._put(message, delay=EDGE_AGAIN, start=message.start)
        await both(self._commit(read.task, uploads), self._settle(read.task, message, run))
        if run.resolved is not None:
            runtime = self._stores.runtime
            runtime.meter.record(FAN_OUT_LAG, (runtime.now() - run.resolved).total_seconds())

    @staticmethod
    def _run(task: Task, run_id: int) -> Run | None:
        """The run if it is resolved."""
        if run_id > task.last_run_id or not task.runs[run_id].state.is_resolved:
            return None
        return task.runs[run_id]

    async def _wait_for_commit(self, message: ResolvedMessage) -> None:
        if self._stores.runtime.now() - message.put < COMMIT_MAY_COME:
            await self._put(message, delay=message.delay, next_delay=min(2 * message.delay, LONGEST_DELAY))

    async def _put(
        self,
        message: ResolvedMessage,
        *,
        delay: float,
        start: str | None = None,
        next_delay: float = FIRST_DELAY,
    ) -> None:
        more: dict[str, Any] = {"delay": next_delay}
        if start is not None:
            more["start"] = start
        await self._stores.messages.put_resolved(
            message.task_id, message.run_id, put=message.put, visible_in=delay, more=more
        )

    async def _fan_out(self, read: Loaded, run: Run, edges: list[Row]) -> bool:
        """Satisfies the dependents of a page; whether one of them has yet to come."""

        async def follow(edge: Row) -> bool:
            return await self._follow(read.task.task_id, run.state, edge)

        return any(await in_waves(WIDTH, follow, edges))

    async def _follow(self, required: str, state: State, edge: Row) -> bool:
        dependent = edge.key.split("~", 1)[1]
        if dependent == required:
            return False
        hint_id = self._stores.runtime.slugid()

        def decide(read: Loaded, now: datetime) -> Decision:
            index = read.definition.dependency_index.get(required)
            if index is None or not satisfies(read.definition, state):
                raise _NotListed
            return transitions.satisfy(read.task, now, hint_id, index)

        try:
            await self._executor.run(dependent, decide)
        except _NotListed:
            return False
        except ResourceNotFound:
            if self._stores.runtime.now() - edge.timestamp < COMMIT_MAY_COME:
                return True
            await self._stores.tasks.remove_edge(required, dependent, edge.etag)
        return False

    async def _commit(self, task: Task, uploads: list[Waiting]) -> None:
        """What workers have put straight into storage becomes the blobs of their artifacts, run by run."""
        over = [upload for upload in uploads if self._run(task, upload.run_id) is not None]
        await self._uploads.commit(task.task_id, over)

    async def _settle(self, task: Task, message: ResolvedMessage, run: Run) -> None:
        """Clears what belonged to the unresolved task, then sees whether its group is resolved; once a resolution."""
        if message.start is not None:
            return
        await together(
            self._stores.groups.settle(task, run.generation),
            self._remove_rows(task, message.run_id),
            self._remove_deadline(task, run.generation),
        )
        again = await self._group_check.check(task.task_group_id)
        if again is not None:
            await self._put(message, delay=again)

    async def _remove_rows(self, task: Task, run_id: int) -> None:
        if task.runs[run_id].reason_created is not Created.EXCEPTION:
            rows = ChangePoolRows(task_queue_id=task.task_queue_id, remove=(row_of(task, run_id),))
            await self._stores.pools.change([rows], task.task_queue_id)

    async def _remove_deadline(self, task: Task, generation: int) -> None:
        """Only while the task, as read, is still resolved: a rerun has put a deadline message of its own."""
        ticket = task.tickets.deadline
        if ticket is not None and task.is_resolved and task.generation == generation:
            await self._stores.messages.remove(ticket)


def _was_retried(task: Task, run_id: int) -> bool:
    """Whether the run was followed by its retry: then it resolved only itself, not the task."""
    return run_id < task.last_run_id and task.runs[run_id + 1].reason_created in RETRY_OF.values()
