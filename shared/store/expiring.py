"""The Expiry table: what to delete, by the hour in which it expires, so that nothing is ever scanned (design 3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from shared.base.dates import format_date, parse_date
from shared.base.frozen import dataclass
from shared.base.ids import digest_of
from shared.base.protocol import EXPIRY_GRACE_PERIOD, ROWS_COMPLETE_AFTER
from shared.base.retrying import FAILED_DELETION
from shared.store import keys
from shared.store.interface import Create, Delete, Merge, Row, Storage, StorageUnavailable, Upsert, Value
from shared.store.partitions import delete_unchanged, try_transact

FIRST_LOOK_BACK = timedelta(days=1)
"""How far back a new deployment starts to look for expired items."""
FIRST_RETRY = timedelta(seconds=FAILED_DELETION.first)
LAST_RETRY = timedelta(seconds=FAILED_DELETION.longest)
"""The shortest and the longest delay of what cannot be deleted."""

_CURSOR = "cursor"
_HOUR = "hour"
_FAILURES = "failures"
_DEATHS = "deaths"
_RESUME = "resume"
_EXCHANGED = "exchanged"
_NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""The latest expiration that is kept: dates close to the end of the calendar cannot be added to."""


def is_over(expires: datetime, now: datetime) -> bool:
    """Returns whether something with this expiration may be deleted. Works for dates at the calendar's end, too."""
    return expires <= now - EXPIRY_GRACE_PERIOD


def is_settled(row: Row, looked: datetime) -> bool:
    """Returns whether a row was so old at the time `looked` that no call relied on it: a call that relies on a row
    rewrites it. A younger row may belong to a new thing of the same name."""
    return row.timestamp + ROWS_COMPLETE_AFTER <= looked


@dataclass(frozen=True, kw_only=True, slots=True)
class Expiring:
    """A row of the Expiry table: something to delete once its hour is over."""

    row: Row
    kind: str
    words: tuple[str, ...]
    values: Mapping[str, Value]
    failures: int = 0
    """How many times in a row the deletion has failed."""
    deaths: int = 0
    """How many of the latest failures, without another failure in between, were deaths of the process."""
    resume: str | None = None
    """Key at which to continue, if an earlier run had no time for the whole item."""

    @property
    def key(self) -> str:
        """Key of the row in its bucket."""
        return self.row.key


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduled:
    """A scheduled deletion that this call alone has added."""

    bucket: str
    key: str
    etag: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """Progress of the expiry job: the first hour whose bucket is not finished, and what was begun and not concluded."""

    hour: datetime
    bucket: str = ""
    first: str = ""
    last: str = ""

    def was_begun(self, expiring: Expiring) -> bool:
        """Returns whether a run has begun to delete the item, and died before it noted the outcome. An item whose
        deletion has killed a process before is tried by itself, never with others."""
        if expiring.row.partition != self.bucket or not self.first <= expiring.key <= self.last:
            return False
        return self.first == self.last or not expiring.deaths


class ExpiryStore:
    """Writes rows ahead of what they will clean up, and hands them out when they are due. No row is ever written into a
    finished bucket: an item that has expired already goes into the present bucket."""

    def __init__(self, storage: Storage, now: Callable[[], datetime]) -> None:
        self._tables = storage.tables
        self._now = now

    async def task(self, task_id: str, task_group_id: str, expires: datetime) -> None:
        """Schedules the deletion of a single task that no sweep of its group deletes."""
        await self.schedule(expires, "task", (task_id, task_group_id), {"taskGroupId": task_group_id})

    async def tasks(self, task_group_id: str, failed: Collection[str], others: Collection[str]) -> None:
        """Schedules the deletion of tasks that a sweep leaves behind, as `task` does: soon, or after a back-off if they
        have failed. There are at most a hundred of each."""
        values: dict[str, Value] = {"taskGroupId": task_group_id}
        after = self._now() + FIRST_RETRY - EXPIRY_GRACE_PERIOD
        for task_ids, due, more in ((failed, after, {_FAILURES: 1}), (others, self._now(), {})):
            rows = [Upsert(keys.expiring("task", each, task_group_id), {**values, **more}) for each in task_ids]
            if rows:
                await self._tables.transact(keys.EXPIRY, self.bucket(due), rows)

    async def group(self, task_group_id: str, expires: datetime) -> None:
        """Schedules a sweep of a group: its tasks go that have expired by then, and with the last one the group. It is
        due again for as long as the group is there."""
        await self.schedule(expires, keys.SWEPT_GROUP, (task_group_id,), {})

    async def new_group(self, task_group_id: str, expires: datetime, listed: str) -> None:
        """Schedules a sweep of a new group as `group` does, and the deletion of the row `listed` in the list of groups,
        which is due again until the group is gone. It takes one request, as both are due in one hour."""
        rows = keys.expiring(keys.SWEPT_GROUP, task_group_id), keys.expiring("listed", task_group_id, listed)
        await self._tables.transact(keys.EXPIRY, self.bucket(expires), [Upsert(key, {}) for key in rows])

    async def worker(self, task_queue_id: str, worker_group: str, worker_id: str, expires: datetime) -> None:
        """Schedules the deletion of a worker; its own row says whether it has been seen since."""
        words = (keys.pool(task_queue_id), worker_group, worker_id)
        await self.schedule(expires, "worker", words, {"taskQueueId": task_queue_id})

    async def new_artifact(self, task_id: str, run_id: int, name: str, expires: datetime) -> Scheduled | None:
        """Schedules the deletion of an artifact that expires before its task. Returns what to roll back, or None if it
        was scheduled already. The artifact's row says whether this is its latest expiration."""
        words, values = (task_id, str(run_id), digest_of(name)), {"name": name}
        scheduled = await self._create_deletion(expires, "artifact", words, values)
        if scheduled is None:
            await self.schedule(expires, "artifact", words, values)
        return scheduled

    async def upload(self, task_id: str, run_id: int, name: str, until: datetime) -> None:
        """Schedules the commit (not the deletion) of an upload once its URL has expired: a resolution may miss it."""
        await self.schedule(until, "upload", (task_id, str(run_id), digest_of(name)), {"name": name})

    async def id_token(self, fingerprint: str, expires: datetime) -> datetime:
        """Records the exchange of an ID token that is still valid, and returns when the token was first exchanged: now,
        unless there is a row of an earlier exchange. There is nothing else to delete. Raises StorageUnavailable."""
        now, words = self._now(), (fingerprint,)
        if await self._create_deletion(expires, keys.EXCHANGED, words, {_EXCHANGED: format_date(now)}) is not None:
            return now
        row = await self._tables.get_row(keys.EXPIRY, self.bucket(expires), keys.expiring(keys.EXCHANGED, *words))
        if row is None:
            raise StorageUnavailable("the row of an ID token has just been deleted")
        return parse_date(str(row.values[_EXCHANGED]))

    async def histories(self, partitions: Sequence[str], day: str, expires: datetime) -> None:
        """Schedules the clean-up of histories that have entries of a day. It takes one request: all are due in one
        hour."""
        rows = [Upsert(keys.expiring(keys.AUDIT_SWEEP, partition, day), {}) for partition in partitions]
        await self._tables.transact(keys.EXPIRY, self.bucket(expires), rows)

    async def strays(self, task_id: str, expires: datetime) -> None:
        """Schedules a search for blobs that were uploaded for a task after its deletion."""
        await self.schedule(expires, "strays", (task_id,), {})

    async def schedule(self, expires: datetime, kind: str, words: tuple[str, ...], values: Mapping[str, Value]) -> None:
        """Schedules a deletion for the hour in which it may happen."""
        await self._upsert(self.bucket(expires), keys.expiring(kind, *words), values)

    async def due(self, bucket: str) -> list[Expiring]:
        """Returns the first items of a bucket, up to a page; none when it is empty."""
        found = []
        for row in (await self._tables.query(keys.EXPIRY, bucket, start="", end="\x7f")).rows:
            kind, *words = row.key.split("~")
            values = dict(row.values)
            failures, deaths, resume = values.pop(_FAILURES, 0), values.pop(_DEATHS, 0), values.pop(_RESUME, None)
            expiring = Expiring(
                row=row,
                kind=kind,
                words=tuple(words),
                values=values,
                failures=failures if isinstance(failures, int) else 0,
                deaths=deaths if isinstance(deaths, int) else 0,
                resume=None if resume is None else str(resume),
            )
            found.append(expiring)
        return found

    async def reschedule(self, expiring: Expiring, expires: datetime, resume: str | None = None) -> None:
        """Moves a deletion to a later hour: the item's expiration was moved, or there was not enough time for all of
        it."""
        values = expiring.values if resume is None else {**expiring.values, _RESUME: resume}
        await self._upsert(self.bucket(expires), expiring.key, values)

    async def note_progress(self, expiring: Expiring, resume: str) -> None:
        """Notes where the next run continues with the item."""
        # Refused where somebody has scheduled it anew.
        noted = Merge(expiring.key, {_RESUME: resume}, expiring.row.etag)
        await try_transact(self._tables, keys.EXPIRY, expiring.row.partition, [noted])

    async def retry_later(self, expiring: Expiring, *, has_died: bool = False) -> int:
        """Schedules another try, after a back-off, for what could not be deleted. Returns the failures in a row."""
        failures = expiring.failures + 1
        delay = timedelta(seconds=FAILED_DELETION.pause(expiring.failures))
        noted: dict[str, Value] = {_FAILURES: failures}
        if has_died:
            noted[_DEATHS] = expiring.deaths + 1
        if expiring.resume is not None:
            noted[_RESUME] = expiring.resume
        due = self._now() + delay - EXPIRY_GRACE_PERIOD
        await self._upsert(self.bucket(due), expiring.key, {**expiring.values, **noted})
        return failures

    async def done(self, handled: Sequence[Expiring]) -> None:
        """Removes what has been handled from its bucket; `handled` is of one bucket, in the order of keys."""
        await delete_unchanged(self._tables, keys.EXPIRY, [expiring.row for expiring in handled])

    async def position(self) -> Position:
        """Returns the progress of the expiry job: one request."""
        row = await self._tables.get_row(keys.EXPIRY, _CURSOR, _CURSOR)
        if row is None:
            return Position(hour=_hour(self._now() - FIRST_LOOK_BACK))
        values = row.values
        begun = {name: str(values[name]) for name in ("bucket", "first", "last") if name in values}
        return Position(hour=_read_hour(row), **begun)

    async def cursor(self) -> datetime | None:
        """Returns the first hour whose bucket is not finished; None until the job has looked at an hour."""
        row = await self._tables.get_row(keys.EXPIRY, _CURSOR, _CURSOR)
        return None if row is None else _read_hour(row)

    async def noted(self) -> datetime | None:
        """Returns when the job last noted its position, by the storage's clock. It does so once an hour at least."""
        row = await self._tables.get_row(keys.EXPIRY, _CURSOR, _CURSOR)
        return None if row is None else row.timestamp

    async def note_run(self, hour: datetime, some: Sequence[Expiring]) -> None:
        """Notes what a run is about to delete: `some` are of one bucket, in the order of keys. If the process dies, the
        next run counts that as a failure of these items."""
        begun = {"bucket": some[0].row.partition, "first": some[0].key, "last": some[-1].key}
        await self._upsert(_CURSOR, _CURSOR, {_HOUR: keys.hour(hour), **begun})

    async def finished_before(self, hour: datetime) -> None:
        """Notes that the buckets of all earlier hours are empty for good, and that everything begun is concluded."""
        await self._upsert(_CURSOR, _CURSOR, {_HOUR: keys.hour(hour)})

    async def roll_back(self, scheduled: Scheduled) -> None:
        """Removes what a refused call has scheduled, unless another call relies on it (and so has rewritten it)."""
        await try_transact(self._tables, keys.EXPIRY, scheduled.bucket, [Delete(scheduled.key, scheduled.etag)])

    def bucket(self, expires: datetime) -> str:
        """Returns the hour in which something is due; the present hour if that has passed."""
        return keys.hour(deletable_from(max(expires, self._now())))

    async def _upsert(self, bucket: str, key: str, values: Mapping[str, Value]) -> None:
        await self._tables.transact(keys.EXPIRY, bucket, [Upsert(key, values)])

    async def _create_deletion(
        self, expires: datetime, kind: str, words: tuple[str, ...], values: Mapping[str, Value]
    ) -> Scheduled | None:
        bucket, key = self.bucket(expires), keys.expiring(kind, *words)
        created = await try_transact(self._tables, keys.EXPIRY, bucket, [Create(key, values)])
        return None if created is None else Scheduled(bucket=bucket, key=key, etag=created[0])


def deletable_from(expires: datetime) -> datetime:
    """Returns when something with this expiration may be deleted."""
    return min(expires, _NEVER) + EXPIRY_GRACE_PERIOD


def _read_hour(cursor: Row) -> datetime:
    return datetime.strptime(str(cursor.values[_HOUR]), "%Y-%m-%dT%H").replace(tzinfo=UTC)


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
