"""What a process remembers of tasks, so that it need not read them.

If it made the last commit of an unresolved task, it knows all of it, and its next commit needs no read (design 2.8).

A status may be shown for a second after it was seen; that of a task that is neither running nor resolved for longer,
while its member row in the group is unchanged, and for a pending run its index row in the pool (design 11). Range
queries bring these rows along. Each ETag is kept with a sequence number: a row proves that a status is current only if
it was read first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from shared.base import bounds, remembered
from shared.base.concurrency import in_waves
from shared.base.frozen import dataclass, replace
from shared.base.memo import Memo
from shared.base.protocol import LATEST_COMMIT, STORAGE_CLOCK_SKEW
from shared.queue.groups.rows import Member
from shared.queue.groups.store import GroupStore
from shared.queue.pools.index import PoolIndex, Run
from shared.queue.tasks.rules import MessageHandles, State, Task
from shared.runtime import Runtime

FRESH = timedelta(seconds=1)
"""The time for which a status that was seen may be shown without another look."""
VOUCHED_FOR = timedelta(minutes=5)
"""How long a status that was seen may be shown while the rows that vouch for it are unchanged; then the task is read
again. A call may die between its commit and the rows that follow it. So long at most is an outdated status shown."""
FEW = 8
"""If a page has fewer tasks of one pool than this, they are read one by one instead of reading the pool's index."""
TASKS_A_PAGE = 4
"""A page of the pool's index is read only if it saves at least this many task reads."""
SCHEDULED_BEFORE_SEEN = LATEST_COMMIT + 2 * STORAGE_CLOCK_SKEW + timedelta(seconds=30)
"""If a task was seen unscheduled, its `scheduled` will be at most this much earlier than that moment.

`scheduled` is decided up to `LATEST_COMMIT` before the commit, by another clock."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment when something was begun: its place in the order of what this process did, and the time."""

    order: int
    at: datetime


@dataclass(frozen=True, slots=True)
class _Seen:
    etag: str = ""
    order: int = 0


_NEVER = _Seen()


@dataclass(eq=False, slots=True)
class Known:
    """The knowledge of one task."""

    task: Task | None = None
    """The task as last seen, without what only the task's own calls need; None when only its rows were seen."""
    since: Moment | None = None
    """The moment at which the read that showed the task, or the commit that made it, was sent."""
    member: _Seen = _NEVER
    pending: _Seen = _NEVER
    """The index row of the latest pending run; its runId is part of the stored ETag."""

    def is_member(self, etag: str) -> bool:
        """Returns whether the member row has not changed since before the status was seen, if this is its ETag now."""
        return self.since is not None and self.member.etag == etag and self.member.order < self.since.order

    def is_pending(self, run_id: int, etag: str) -> bool:
        """Returns whether a pending run's index row with this ETag is unchanged since before the status was seen."""
        seen = self.pending
        return self.since is not None and seen.etag == f"{run_id} {etag}" and seen.order < self.since.order


class KnownStatuses:
    """Statuses that calls of this process have read or committed, in bounded memory."""

    def __init__(self, now: Callable[[], datetime], capacity: int = remembered.STATUSES.capacity) -> None:
        self._now = now
        self._order = 0
        most_committed = min(capacity, remembered.COMMITTED.capacity)
        self._known: Memo[str, Known] = Memo(replace(remembered.STATUSES, capacity=capacity))
        self._committed: Memo[str, tuple[Task, str]] = Memo(replace(remembered.COMMITTED, capacity=most_committed))

    def new_moment(self) -> Moment:
        """Returns a new moment: before a read or a commit is sent, or after a row was seen."""
        self._order += 1
        return Moment(self._order, self._now())

    def known_status(self, task_id: str) -> Known | None:
        """Returns what is known of a task, if anything."""
        return self._known.get(task_id)

    def saw(self, task: Task, since: Moment) -> None:
        """Notes a status that was read or committed. `since` is the moment when that read or commit was sent."""
        known = self._entry(task.task_id)
        if known.task is not None and known.since is not None and not _supersedes(task, since, known.task, known.since):
            return
        committed = self._committed.get(task.task_id)
        if committed is not None and _version(committed[0]) != _version(task):
            self._committed.pop(task.task_id)
        known.task = replace(task, handles=_NO_HANDLES, operations=(), hint_id="")
        known.since = since

    def made(self, task: Task, etag: str, since: Moment) -> None:
        """Notes a status that was committed, and its row's ETag ("" if other commits have followed). `since` is the
        moment when the commit was sent."""
        self.saw(task, since)
        known = self._entry(task.task_id).task
        if etag and not task.is_resolved and known is not None and _version(known) == _version(task):
            self._committed[task.task_id] = task, etag

    def committed(self, task_id: str) -> tuple[Task, str] | None:
        """Returns an unresolved task with its ETag, as this process has committed it, if it has seen nothing later."""
        return self._committed.get(task_id)

    def forget(self, task_id: str) -> None:
        """Drops a status: a commit is under way, whose outcome may remain unknown, or the task is gone."""
        self._committed.pop(task_id)
        known = self._known.get(task_id)
        if known is not None:
            known.task = known.since = None

    def saw_member(self, task_id: str, etag: str, seen: Moment | None = None) -> None:
        """Notes the ETag of the member row, which a read has shown or a write has made before `seen` (now if None)."""
        known = self._entry(task_id)
        known.member = _later(known.member, etag, seen or self.new_moment())

    def saw_pending(self, task_id: str, run_id: int, etag: str, seen: Moment | None = None) -> None:
        """Notes the ETag of the index row of a pending run, as `saw_member`."""
        known = self._entry(task_id)
        known.pending = _later(known.pending, f"{run_id} {etag}", seen or self.new_moment())

    def _entry(self, task_id: str) -> Known:
        known = self._known.get(task_id) or Known()
        self._known[task_id] = known
        return known


_NO_HANDLES = MessageHandles()


def _version(task: Task) -> tuple[str, int]:
    """Returns the place of a status in the order of all statuses: the task's life, and the number of its commit."""
    return task.fingerprint, task.sequence


def _later(before: _Seen, etag: str, seen: Moment) -> _Seen:
    """Returns which sight of a row is kept: the first one of an ETag, and of two ETags the one that was seen later."""
    return before if before.etag == etag or before.order > seen.order else _Seen(etag, seen.order)


def _supersedes(task: Task, since: Moment, known: Task, known_since: Moment) -> bool:
    """Returns whether a status is newer than the one that is known, or as new and seen later. An id may be used again
    after its task has expired: then the numbers of commits start again."""
    if task.fingerprint != known.fingerprint or since.at - known_since.at > VOUCHED_FOR:
        return since.order > known_since.order
    return (task.sequence, since.order) > (known.sequence, known_since.order)


@dataclass(frozen=True, slots=True)
class _Vouchers:
    """The result of a reading of a pool's index."""

    pending: Mapping[Run, str]
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

    def present_moment(self) -> Moment:
        """Returns the present moment, which must be taken before a page of members is read."""
        return self._known.new_moment()

    async def known_among(
        self, task_group_id: str, start: str, limit: int, begun: Moment, members: Sequence[Member]
    ) -> dict[str, Task]:
        """Returns the tasks of a page of member rows whose status is known without a read, as of a second ago or later.
        `begun` is the moment at which the reading of the page began. The tasks lack what only calls on the task need.
        Raises StorageUnavailable."""
        found: dict[str, Task] = {}
        candidates: dict[str, _Candidates] = {}
        seen, now = self._known.new_moment(), self._now()
        for member in members:
            if member.final is not None and member.definition is not None:
                continue
            self._known.saw_member(member.task_id, member.etag, seen)
            known = self._known.known_status(member.task_id)
            if known is None or known.task is None or known.since is None or known.task.task_group_id != task_group_id:
                continue
            task, age = known.task, now - known.since.at
            if age <= FRESH:
                found[task.task_id] = task
            elif age <= VOUCHED_FOR and task.state in _VOUCHED and known.is_member(member.etag):
                candidates.setdefault(task.task_queue_id, []).append((member, known, task))

        many = [(pool, tasks) for pool, tasks in candidates.items() if len(tasks) >= FEW]
        read = await in_waves(bounds.POOLS_AT_A_TIME, lambda each: self._vouchers_for(*each), many)
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

    async def _vouchers_for(self, task_queue_id: str, tasks: _Candidates) -> _Vouchers:
        """Returns the pool's index, at most a second old, of the runs since the hour of the oldest of these tasks: so
        the pages of a group share one reading."""
        with_claimed = any(task.state is State.UNSCHEDULED for _, _, task in tasks)
        hour = min(_since(known, task) for _, known, task in tasks).replace(minute=0, second=0, microsecond=0)
        key, most = (task_queue_id, hour, with_claimed), max(1, len(tasks) // TASKS_A_PAGE)

        async def read_vouchers() -> _Vouchers:
            began = self._now()
            pending, indexed = await self._index.etags(task_queue_id, hour, most, with_claimed=with_claimed)
            vouchers = _Vouchers(pending, indexed, self._known.new_moment())
            self._vouchers.put(key, vouchers, read=began)
            return vouchers

        return self._vouchers.get(key) or await self._vouchers.read_anew(key, read_vouchers)


_VOUCHED = frozenset({State.PENDING, State.UNSCHEDULED})


def _since(known: Known, task: Task) -> datetime:
    """Returns a lower bound of the time in the task's index row."""
    if task.state is State.PENDING:
        return task.last_run.scheduled
    assert known.since is not None, "its status was seen"
    return known.since.at - SCHEDULED_BEFORE_SEEN


SETTLED_BY = timedelta(minutes=1)
"""How long it usually takes until a task's rows in its group show its resolution; before, its status is read."""


class KnownTasks:
    """Tasks with their groups. Neither a task's group nor its expiration ever changes, and no task goes before that. An
    id may be used again after its task has expired, so an entry counts for callers that do not need the task longer."""

    def __init__(self) -> None:
        self._known: Memo[str, tuple[str, datetime, datetime | None]] = Memo(remembered.DEPENDENCIES)
        """Group, expiration, and when it was resolved."""

    def note_task(self, task: Task) -> None:
        """Notes that a task exists, and when it was resolved, which what is read too late does not show."""
        before = self._known.get(task.task_id)
        resolved = task.last_run.resolved if task.is_resolved else before and before[2]
        if before != (known := (task.task_group_id, task.expires, resolved)):
            self._known[task.task_id] = known

    def group_of(self, task_id: str, now: datetime, until: datetime) -> str | None:
        """Returns the group of a task that will not expire before `until`; None if this process does not know one. None
        also for a task that this process has just seen resolved. A client that saw the resolution may expect a task
        that depends on nothing else to be pending at once, so createTask has to read the status."""
        task_group_id, expires, resolved = self._known.get(task_id) or (None, until, None)
        if expires < until or (resolved is not None and now - resolved < SETTLED_BY):
            return None
        return task_group_id
