"""Which tasks of a group need not be read to list it: their status is known, and rows vouch for it (design 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from shared.base import bounds, remembered
from shared.base.concurrency import in_waves
from shared.base.frozen import dataclass
from shared.base.memo import Memo
from shared.base.protocol import LATEST_COMMIT, STORAGE_CLOCK_SKEW
from shared.queue.groups.rows import Member
from shared.queue.groups.store import GroupStore
from shared.queue.pools.index import PoolIndex
from shared.queue.tasks.known import FRESH, VOUCHED_FOR, Known, KnownStatuses, Moment
from shared.queue.tasks.rules import State, Task
from shared.runtime import Runtime

FEW = 8
"""If a page has fewer tasks of one pool than this, they are read one by one instead of reading the pool's index."""
TASKS_A_PAGE = 4
"""A page of the pool's index is read only if it saves at least this many task reads."""
SCHEDULED_BEFORE_SEEN = LATEST_COMMIT + 2 * STORAGE_CLOCK_SKEW + timedelta(seconds=30)
"""If a task was seen unscheduled, its `scheduled` will be at most this much earlier than that moment.

`scheduled` is decided up to `LATEST_COMMIT` before the commit, by another clock."""


@dataclass(frozen=True, slots=True)
class _Vouchers:
    """The result of a reading of a pool's index."""

    pending: Mapping[tuple[str, int], str]
    """ETags of the rows of pending runs."""
    indexed: frozenset[str] | None
    """The tasks that have a row, of whatever state; None if that is not known."""
    seen: Moment
    """A moment after the last of the reads."""


_Candidates = list[tuple[Member, Known, Task]]


class GroupStatuses:
    """Vouches for statuses, by as few requests as possible."""

    def __init__(self, groups: GroupStore, index: PoolIndex, known: KnownStatuses, runtime: Runtime) -> None:
        self._groups = groups
        self._index = index
        self._known = known
        self._now = runtime.now
        self._vouchers: Memo[tuple[str, datetime, bool], _Vouchers] = Memo(remembered.VOUCHERS, runtime.now)

    def begin(self) -> Moment:
        """Returns the present moment, which must be taken before a page of members is read."""
        return self._known.begin()

    async def of(
        self, task_group_id: str, start: str, limit: int, begun: Moment, members: Sequence[Member]
    ) -> dict[str, Task]:
        """Returns the tasks of a page of member rows whose status is known without a read, as of a second ago or later.
        `begun` is the moment at which the reading of the page began. The tasks lack what only calls on the task need.
        Raises StorageUnavailable."""
        found: dict[str, Task] = {}
        candidates: dict[str, _Candidates] = {}
        seen, now = self._known.begin(), self._now()
        for member in members:
            if member.final is not None and member.definition is not None:
                continue
            self._known.saw_member(member.task_id, member.etag, seen)
            known = self._known.get(member.task_id)
            if known is None or known.task is None or known.since is None or known.task.task_group_id != task_group_id:
                continue
            task, age = known.task, now - known.since.at
            if age <= FRESH:
                found[task.task_id] = task
            elif age <= VOUCHED_FOR and task.state in _VOUCHED and known.is_member(member.etag):
                candidates.setdefault(task.task_queue_id, []).append((member, known, task))

        many = [(pool, tasks) for pool, tasks in candidates.items() if len(tasks) >= FEW]
        read = await in_waves(bounds.POOLS_AT_A_TIME, lambda each: self._read(*each), many)
        unscheduled: dict[str, tuple[Known, Task]] = {}
        latest = 0
        for (_, tasks), vouchers in zip(many, read, strict=True):
            for _, known, task in tasks:
                if task.state is State.PENDING:
                    if self._is_pending(known, task, vouchers):
                        found[task.task_id] = task
                elif vouchers.indexed is not None and task.task_id not in vouchers.indexed:
                    unscheduled[task.task_id] = known, task
                    latest = max(latest, vouchers.seen.order)
        # When a run is resolved, its index row is removed after the member row has changed. So the member rows have to
        # be read after the index: they are read again if they were read before.
        if unscheduled and begun.order <= latest:
            etags = await self._groups.member_etags(task_group_id, start, limit)
            unscheduled = {each: at for each, at in unscheduled.items() if at[0].is_member(etags.get(each, ""))}
        return found | {task_id: task for task_id, (_, task) in unscheduled.items()}

    def _is_pending(self, known: Known, task: Task, vouchers: _Vouchers) -> bool:
        etag = vouchers.pending.get((task.task_id, task.last_run_id))
        if etag is None:
            return False
        self._known.saw_pending(task.task_id, task.last_run_id, etag, vouchers.seen)
        return known.is_pending(task.last_run_id, etag)

    async def _read(self, task_queue_id: str, tasks: _Candidates) -> _Vouchers:
        """Returns the pool's index, at most a second old, of the runs since the hour of the oldest of these tasks: so
        the pages of a group share one reading."""
        with_claimed = any(task.state is State.UNSCHEDULED for _, _, task in tasks)
        hour = min(_since(known, task) for _, known, task in tasks).replace(minute=0, second=0, microsecond=0)
        key, most = (task_queue_id, hour, with_claimed), max(1, len(tasks) // TASKS_A_PAGE)

        async def read() -> _Vouchers:
            began = self._now()
            pending, indexed = await self._index.etags(task_queue_id, hour, most, with_claimed=with_claimed)
            vouchers = _Vouchers(pending, indexed, self._known.begin())
            self._vouchers.put(key, vouchers, read=began)
            return vouchers

        return self._vouchers.get(key) or await self._vouchers.read_anew(key, read)


_VOUCHED = frozenset({State.PENDING, State.UNSCHEDULED})


def _since(known: Known, task: Task) -> datetime:
    """Returns a lower bound of the time in the task's index row."""
    if task.state is State.PENDING:
        return task.last_run.scheduled
    assert known.since is not None, "its status was seen"
    return known.since.at - SCHEDULED_BEFORE_SEEN
