"""Resolved messages: dependents, group, index rows, the deadline message, uploads (design 5)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from shared.concurrency import both, in_waves, together
from shared.domain import announcements, transitions
from shared.domain.creation import satisfies
from shared.domain.effects import ChangePoolRows, Decision, NoDecision, row_of
from shared.domain.events import Exchange, GroupEvent
from shared.domain.protocol import COMMIT_MAY_COME
from shared.domain.task import RETRY_OF, Created, Run, State, Task
from shared.errors import ResourceNotFound
from shared.storage.artifacts import Waiting
from shared.storage.group_rows import Active, Group
from shared.storage.groups import due_of
from shared.storage.interface import Row
from shared.storage.internal_messages import FIRST_DELAY, ResolvedMessage, WaitingEdges
from shared.storage.tasks import Loaded
from shared.telemetry.instruments import FAN_OUT_LAG
from shared.usecases.executor import Executor, Stores
from shared.usecases.index import Index
from shared.usecases.uploads import Uploads

log = logging.getLogger("taskcluster.resolution")

_ROWS = 5
"""Active rows looked at in one request: nearly always the first one ends the check."""
_PAGES = 20
"""Such requests in one check."""


class GroupCheck:
    """Announces a group once per time that it resolves."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def check(self, task_group_id: str, due: str | None = None) -> float | None:
        """Announces the group if a check is due and no active row is left.

        Returns the seconds after which to check again, where a row must grow old enough to be removed as an orphan,
        or where there are more orphans than one check removes; None where the handler of a later resolution will
        check: the header does not name the caller's, `due`, any more. Raises StorageUnavailable.
        """
        for _ in range(_PAGES):
            rows, group = await self._stores.groups.active(task_group_id, limit=_ROWS)
            for row in rows:
                task = await self._stores.tasks.status(row.task_id)
                if task is not None and task.task_group_id != task_group_id:
                    task = None  # a call that was refused, or died, has named a task of another group
                if task is not None and task.generation == row.generation:
                    await self._see_to(task, row)
                    return None
                wait = COMMIT_MAY_COME - (self._stores.runtime.now() - row.written)
                if wait > timedelta(0):
                    header = group or await self._stores.groups.header(task_group_id)
                    is_ours = header is not None and header.due == due
                    return wait.total_seconds() + 1 if is_ours else None
                await self._remove(task_group_id, row, task)
            if rows:
                continue
            if group is not None and group.due:
                await self._announce(group)
            return None
        return 0

    async def _remove(self, task_group_id: str, row: Active, task: Task | None) -> None:
        """An orphan: with its member row if the group has no such task, alone if the task is of another generation."""
        if task is None and row.generation == 0:
            await self._stores.groups.remove_orphan(task_group_id, row)
        else:
            await self._stores.groups.remove_active(task_group_id, row.task_id, row.generation, row.etag)

    async def _see_to(self, task: Task, row: Active) -> None:
        """The task is unresolved, or its own handler is to come and will check.

        Where it is resolved and the row is old all the same (two reruns met, and one died), the handler is called once
        more.
        """
        resolved = task.last_run.resolved if task.is_resolved else None
        if resolved is not None:
            age = self._stores.runtime.now() - max(resolved, row.written)
            if age > COMMIT_MAY_COME:
                await self._stores.messages.put_resolved(task.task_id, task.last_run_id)

    async def _announce(self, group: Group) -> None:
        await self._stores.announcer.announce_group(
            GroupEvent(
                exchange=Exchange.TASK_GROUP_RESOLVED,
                task_group_id=group.task_group_id,
                scheduler_id=group.scheduler_id,
                occasion=group.due,
                expires=group.expires,
                sealed=group.sealed,
            )
        )
        await self._stores.groups.clear_due(group)


PAGE = 100
"""Edges and uploads in one message's work; the next page is a message of its own, put before this one is done."""
WIDTH = 16
"""Dependents at a time."""
EDGE_AGAIN = 5.0
"""Seconds until edges whose dependents do not exist yet are looked at again; doubled each time."""
LONGEST_EDGE_DELAY = 30.0
LONGEST_DELAY = 60.0


class _NotListed(NoDecision):
    """The dependent's definition does not list the task: the edge does not count."""


class Resolution:
    """Carries a task's resolution to everybody who waits for it. Every step may be repeated."""

    def __init__(
        self, stores: Stores, executor: Executor, group_check: GroupCheck, uploads: Uploads, index: Index
    ) -> None:
        self._stores = stores
        self._executor = executor
        self._group_check = group_check
        self._uploads = uploads
        self._index = index

    async def resolved_due(self, message: ResolvedMessage) -> None:
        """Handles one message.

        The edges and uploads are read only after the resolution was seen in the status row, never beside that read:
        a call that adds an edge reads the status afterwards, so one of the two sees the other. Read side by side, the
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
        if message.waiting is not None:
            await self._look_again(read, run, message, message.waiting)
        elif message.group_only:
            await self._check_group(read.task, message, run)
        else:
            await self._page(read, run, message)

    async def _page(self, read: Loaded, run: Run, message: ResolvedMessage) -> None:
        """A page of edges and uploads, and the message of the next page ahead of it.

        A page that fails is put again, as a message that ends where the next page starts. If it was tried again as
        it is, every try would lead to the next page once more, and every try of that one to the page after it.
        """
        edges, uploads, rest = await self._stores.tasks.edges_and_uploads(
            message.task_id, start=message.start, end=message.end, limit=PAGE
        )
        if rest is None:
            await self._work_off(read, run, message, edges, uploads)
            return
        await self._put(message, visible_in=0, start=rest, end=message.end)
        this_page = replace(message, end=rest)
        try:
            await self._work_off(read, run, this_page, edges, uploads)
        except Exception:
            log.warning(
                "a page of task %s is tried again", message.task_id, extra={"action": "page_left"}, exc_info=True
            )
            await self._put(this_page, visible_in=FIRST_DELAY, start=this_page.start, end=this_page.end)

    async def _work_off(
        self, read: Loaded, run: Run, message: ResolvedMessage, edges: Sequence[Row], uploads: Sequence[Waiting]
    ) -> None:
        """What a page asks for; the first one settles the task, too, even if an edge cannot be followed.

        The deadline message is the timer behind all of this, so it goes last, and only where no other message has work
        left that may still fail for good: at the deadline it has everything done once more.
        """
        is_first = message.start is None
        left = await together(
            self._fan_out(read, run, message, edges),
            self._commit(read.task, uploads),
            *(
                (self._settle(read.task, message, run), self._enter(read, run), self._announce(read, message))
                if is_first
                else ()
            ),
        )
        if is_first and message.end is None and not any(left):
            await self._remove_deadline(read.task, run.generation)
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
            await self._put(message, visible_in=message.delay, delay=min(2 * message.delay, LONGEST_DELAY))

    async def _put(
        self,
        message: ResolvedMessage,
        *,
        visible_in: float,
        delay: float = FIRST_DELAY,
        start: str | None = None,
        end: str | None = None,
        waiting: WaitingEdges | None = None,
        group_only: bool = False,
    ) -> None:
        left = ResolvedMessage(
            task_id=message.task_id,
            run_id=message.run_id,
            put=message.put,
            start=start,
            end=end,
            waiting=waiting,
            group_only=group_only,
            delay=delay,
        )
        await self._stores.messages.put_resolved_again(left, visible_in)

    async def _fan_out(self, read: Loaded, run: Run, message: ResolvedMessage, edges: Sequence[Row]) -> bool:
        """Satisfies the dependents of a page; whether one of them has yet to come."""

        async def follow(edge: Row) -> Row | None:
            dependent = edge.key.partition("~")[2]
            if await self._follow(read.task.task_id, run.state, dependent):
                return None
            if self._stores.runtime.now() - edge.timestamp < COMMIT_MAY_COME:
                return edge
            await self._stores.tasks.remove_edge(read.task.task_id, dependent, edge.etag)
            return None

        young = [edge for edge in await in_waves(WIDTH, follow, edges) if edge is not None]
        if not young:
            return False
        waiting = WaitingEdges(
            etags={edge.key.partition("~")[2]: edge.etag for edge in young},
            written=max(edge.timestamp for edge in young),
        )
        await self._put(message, visible_in=EDGE_AGAIN, delay=2 * EDGE_AGAIN, waiting=waiting)
        return True

    async def _look_again(self, read: Loaded, run: Run, message: ResolvedMessage, waiting: WaitingEdges) -> None:
        """The edges that had no dependent yet. What was touched since was touched by a call that has seen the
        resolution, or will."""

        async def follow(dependent: str) -> str | None:
            return None if await self._follow(read.task.task_id, run.state, dependent) else dependent

        missing = [each for each in await in_waves(WIDTH, follow, waiting.etags) if each is not None]
        if not missing:
            return
        left = (COMMIT_MAY_COME - (self._stores.runtime.now() - waiting.written)).total_seconds()
        if left > 0:
            etags = {dependent: waiting.etags[dependent] for dependent in missing}
            await self._put(
                message,
                visible_in=min(message.delay, left + 1),
                delay=min(2 * message.delay, LONGEST_EDGE_DELAY),
                waiting=WaitingEdges(etags=etags, written=waiting.written),
            )
            return

        async def remove(dependent: str) -> None:
            await self._stores.tasks.remove_edge(read.task.task_id, dependent, waiting.etags[dependent])

        await in_waves(WIDTH, remove, missing)

    async def _follow(self, required: str, state: State, dependent: str) -> bool:
        """Satisfies a dependent; whether there is one."""
        if dependent == required:
            return True
        hint_id = self._stores.runtime.slugid()

        def decide(read: Loaded, now: datetime) -> Decision:
            index = read.definition.dependency_index.get(required)
            if index is None or not satisfies(read.definition, state):
                raise _NotListed
            return transitions.satisfy(read.task, now, hint_id, index)

        try:
            await self._executor.run(dependent, decide)
        except _NotListed:
            return True
        except ResourceNotFound:
            return False
        return True

    async def _commit(self, task: Task, uploads: Sequence[Waiting]) -> bool:
        """What workers have put straight into storage becomes the blobs of their artifacts, run by run.

        No other message has a part of it.
        """
        over = [upload for upload in uploads if self._run(task, upload.run_id) is not None]
        await self._uploads.commit(task.task_id, over)
        return False

    async def _enter(self, read: Loaded, run: Run) -> bool:
        """A task that has completed is indexed by its routes. No other message has a part of it."""
        if run.state is State.COMPLETED and run.resolved is not None:
            await self._index.task_completed(read.definition, run.resolved)
        return False

    async def _announce(self, read: Loaded, message: ResolvedMessage) -> bool:
        """Announces the resolution in place of a call that died, or was stopped, after its commit."""
        events = announcements.resolved_again(read.task, message.run_id, self._stores.runtime.now())
        await self._stores.announcer.announce_again(events, read)
        return False

    async def _settle(self, task: Task, message: ResolvedMessage, run: Run) -> bool:
        """Clears what belonged to the unresolved task, then sees whether its group is resolved.

        Returns whether that has to be seen again later.
        """
        # The member row first: until it has the final status, an index row shows a listing that the task has moved.
        await self._stores.groups.settle(task, run.generation)
        _, is_left = await both(self._remove_rows(task, message.run_id), self._check_group(task, message, run))
        return is_left

    async def _check_group(self, task: Task, message: ResolvedMessage, run: Run) -> bool:
        again = await self._group_check.check(task.task_group_id, due_of(task.task_id, run.generation))
        if again is None:
            return False
        await self._put(message, visible_in=again, group_only=True)
        return True

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
