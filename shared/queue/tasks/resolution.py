"""Resolved messages: dependents, group, index rows, the deadline message, uploads (design 5)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shared.base import bounds
from shared.base.concurrency import in_waves, together
from shared.base.protocol import ORPHAN_AFTER
from shared.base.retrying import MISSING_DEPENDENT, UNCOMMITTED_RESOLUTION
from shared.queue.artifacts.uploads import Uploads
from shared.queue.events import rules as announcements
from shared.queue.groups.check import GroupCheck
from shared.queue.groups.store import due_of
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.dependents import Dependents, PendingRows
from shared.queue.tasks.edges import Edge
from shared.queue.tasks.effects import ChangePoolRows, row_of
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.internal_messages import ResolvedBody
from shared.queue.tasks.rows import Loaded, Surroundings
from shared.queue.tasks.rules import RETRY_OF, Created, Run, State, Task
from shared.store import keys
from shared.telemetry.instruments import FAN_OUT_LAG

log = logging.getLogger("taskcluster.resolution")


@dataclass
class _Page:
    """The work of one resolved message on a page of edges and uploads."""

    read: Loaded
    run: Run
    message: ResolvedBody
    is_continued: bool = False
    """Whether another message continues with the rest of the work."""
    left: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    """What has to be looked at again: in how many seconds, and the properties of the message for it."""

    def __post_init__(self) -> None:
        self.end = self.message.end
        self.group_end = self.message.group_end

    @property
    def is_last(self) -> bool:
        """Whether no further message continues the work."""
        return self.end is None and self.group_end is None and not self.left


AddToIndex = Callable[[Definition, datetime], Awaitable[None]]
"""Function that indexes a completed task by its routes, with the time of its resolution. It may be repeated. It raises
StorageUnavailable, ServiceUnavailable."""


@dataclass(eq=False, repr=False)
class Resolution:
    """Carries a task's resolution to everybody who waits for it. Every step may be repeated."""

    _stores: Stores
    _dependents: Dependents
    _group_check: GroupCheck
    _uploads: Uploads
    _add_to_index: AddToIndex

    async def resolved_due(self, message: ResolvedBody) -> None:
        """Handles one message. Edges of other groups and uploads are read with the status row, or after it; edges of
        the group after its rows show the resolution. A call that adds an edge reads these rows afterwards, so one of
        them sees the other (design 5). Raises StorageUnavailable, ServiceUnavailable: to be handled again."""
        looked, tasks = self._stores.runtime.now(), self._stores.tasks
        at_once = await tasks.surroundings(message.task_id, bounds.EDGES_AT_A_TIME) if message.is_whole else None
        read = await tasks.load(message.task_id) if at_once is None else at_once.loaded
        if read is None:
            return
        run = self._run(read.task, message.run_id)
        if run is None:
            if looked - message.put < ORPHAN_AFTER:  # its commit may still come
                await self._put_on(message, visible_in=message.delay, delay=UNCOMMITTED_RESOLUTION.after(message.delay))
        elif (
            message.run_id < read.task.last_run_id
            and read.task.runs[message.run_id + 1].reason_created in RETRY_OF.values()
        ):
            return  # it was followed by its retry: then it resolved only itself, not the task
        else:
            await self._handle_page(_Page(read, run, message), at_once)

    async def _handle_page(self, page: _Page, at_once: Surroundings | None) -> None:
        """Handles a page of edges and uploads. The message of the next page is put first. The first page also settles
        the task. Messages for what has to be looked at again are put last: a page that is retried would put them again.
        A page that fails is put again, as a message that ends where the next page starts: a retry of the whole message
        would put one for the next page again."""
        try:
            await together(*self._work(page, at_once))
            await together(*(self._put_on(page.message, visible_in=wait, **left) for wait, left in page.left))
        except Exception:
            if not page.is_continued:
                raise
            log.warning(
                "a page of task %s is tried again", page.message.task_id, extra={"action": "page_left"}, exc_info=True
            )
            ends = {"end": page.end, "group_end": page.group_end, "delay": UNCOMMITTED_RESOLUTION.first}
            ends |= {"attempts": 0, "waits": 0}  # a message of its own, with tries of its own
            await self._stores.messages.put_body(page.message.model_copy(update=ends), UNCOMMITTED_RESOLUTION.first)
            return
        task, deadline = page.read.task, page.read.task.handles.deadline
        # Only while the task is still resolved as read: a rerun has put a new one.
        is_as_read = task.is_resolved and task.generation == page.run.generation
        if page.message.is_whole and page.is_last and is_as_read and deadline is not None:
            await self._stores.messages.remove_message(deadline)
        if page.run.resolved is not None and (page.message.is_whole or page.message.start is not None):
            runtime = self._stores.runtime
            runtime.meter.record(FAN_OUT_LAG, (runtime.now() - page.run.resolved).total_seconds())

    def _work(self, page: _Page, at_once: Surroundings | None) -> list[Awaitable[None]]:
        """Returns the parts of a page's work, which run in parallel. The deadline message is the backup of all this
        work: at the deadline it has everything done once more. So it goes last, when no other message has work left."""
        message = page.message
        if message.group_only:
            return [self._check_group(page, None)]
        if message.waiting is not None and message.written is not None:
            edges = [Edge(dependent, etag, message.written) for dependent, etag in message.waiting.items()]
            return [self._fan_out(page, edges, in_group=message.in_group)]
        if message.start is not None:
            in_group = message.start.startswith(keys.UNBLOCKS)
            return [self._inside(page) if in_group else self._outside(page, None)]
        return [
            self._outside(page, at_once),
            self._settle(page),
            self._index(page.read, page.run),
            self._announce(page.read, page.message),
        ]

    async def _outside(self, page: _Page, at_once: Surroundings | None) -> None:
        """Follows the edges in the task's partition, which lead to other groups, and commits its uploads."""
        message, task = page.message, page.read.task
        if at_once is not None and message.end is None:
            edges, uploads, rest = at_once.edges, at_once.uploads, None
        else:
            edges, uploads, rest = await self._stores.tasks.edges.task_edge_page(
                task.task_id, start=message.start, end=message.end, limit=bounds.EDGES_AT_A_TIME
            )
        if rest is not None:
            await self._go_on(page, rest, message.end)
            page.end = rest
        # Blocks that workers have put straight into storage are committed as blobs of their artifacts, run by run.
        over = [upload for upload in uploads if self._run(task, upload.run_id) is not None]
        await together(self._fan_out(page, edges, in_group=False), self._uploads.commit(task.task_id, over))

    async def _inside(self, page: _Page) -> None:
        """Follows the edges in the task's group."""
        message, task = page.message, page.read.task
        end = message.group_end if message.start is None else message.end
        edges, rest = await self._stores.edges.group_edge_page(
            task.task_group_id, task.task_id, start=message.start, end=end, limit=bounds.EDGES_AT_A_TIME
        )
        if rest is not None:
            await self._go_on(page, rest, end)
            if message.start is None:
                page.group_end = rest
            else:
                page.end = rest
        await self._fan_out(page, edges, in_group=True)

    async def _go_on(self, page: _Page, start: str, end: str | None) -> None:
        await self._put_on(page.message, visible_in=0, start=start, end=end)
        page.is_continued = True

    @staticmethod
    def _run(task: Task, run_id: int) -> Run | None:
        """Returns the run if it is resolved, else None."""
        if run_id > task.last_run_id or not task.runs[run_id].state.is_resolved:
            return None
        return task.runs[run_id]

    async def _put_on(self, message: ResolvedBody, *, visible_in: float, **left: Any) -> None:
        """Puts another message of the run, for what is `left` of its work."""
        body = ResolvedBody(
            task_id=message.task_id, run_id=message.run_id, put=message.put, at_deadline=message.at_deadline, **left
        )
        await self._stores.messages.put_body(body, visible_in)

    async def _fan_out(self, page: _Page, edges: Sequence[Edge], *, in_group: bool) -> None:
        """Satisfies the dependents of a page. Those that do not exist yet are looked at again, until their edges are
        orphans. An edge that was rewritten since it was read is not removed: its call sees the resolution."""
        rows = PendingRows(self._stores.pools)

        async def follow(edge: Edge) -> tuple[Edge, timedelta] | None:
            looked = self._stores.runtime.now()
            if await self._follow(page, edge.dependent, rows):
                return None
            left = ORPHAN_AFTER - (looked - edge.written)
            if left > timedelta(0):
                return edge, left
            await self._remove_edge(page.read.task, edge, in_group=in_group)
            return None

        young = [found for found in await in_waves(bounds.EDGES_AT_A_TIME, follow, edges) if found is not None]
        if young:
            wait = MISSING_DEPENDENT.first if page.message.waiting is None else page.message.delay
            again = {
                "delay": MISSING_DEPENDENT.after(wait),
                "waiting": {edge.dependent: edge.etag for edge, _ in young},
                "written": max(edge.written for edge, _ in young),
                "in_group": in_group,
            }
            longest = max(left for _, left in young)
            page.left.append((min(wait, longest.total_seconds() + 1), again))

    async def _remove_edge(self, task: Task, edge: Edge, *, in_group: bool) -> None:
        if in_group:
            await self._stores.edges.remove_group_edge(task.task_group_id, task.task_id, edge)
        else:
            await self._stores.tasks.edges.remove_task_edge(task.task_id, edge.dependent, edge.etag)

    async def _follow(self, page: _Page, dependent: str, rows: PendingRows) -> bool:
        """Satisfies a dependent. Returns whether it exists."""
        required = page.read.task.task_id
        if dependent == required:
            return True
        with rows.expect() as row:
            again = page.message.at_deadline
            return await self._dependents.satisfy(dependent, required, page.run, row, at_deadline=again)

    async def _index(self, read: Loaded, run: Run) -> None:
        if run.state is State.COMPLETED and run.resolved is not None:
            await self._add_to_index(read.definition, run.resolved)

    async def _announce(self, read: Loaded, message: ResolvedBody) -> None:
        """Announces the resolution, and before it the latest change of the priority, in place of calls that died or
        were stopped after their commits: no later call would."""
        now = self._stores.runtime.now()
        events = (
            *announcements.priority_changed_again(read.task, now),
            *announcements.resolved_again(read.task, message.run_id, now),
        )
        await self._stores.announcer.announce_again(events, read)

    async def _settle(self, page: _Page) -> None:
        """Clears what belonged to the unresolved task. Then follows the edges in its group, and checks the group."""
        # The member row is written first: until it has the final status, listings notice by the index row that the task
        # has changed.
        task, run_id = page.read.task, page.message.run_id
        due = await self._stores.groups.settle(task, page.run)
        work: list[Awaitable[Any]] = [self._inside(page), self._check_group(page, due)]
        if page.run.reason_created is not Created.EXCEPTION:
            rows = ChangePoolRows(remove=(row_of(task, run_id),))
            work.append(self._stores.pools.change_pool_rows([rows]))
        await together(*work)

    async def _check_group(self, page: _Page, due: str | None) -> None:
        task = page.read.task
        again = await self._group_check.check(task.task_group_id, due_of(task, page.run.generation), due)
        if again is not None:
            page.left.append((again, {"group_only": True}))
