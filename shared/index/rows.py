"""The Index table (design 9): entries and namespaces, in the partition of the namespace that they are in.

Keys are in the order of names. Nothing is written to the Expiry table for an entry: each namespace with something in it
is swept once a day.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta

from shared.base import remembered
from shared.base.dates import format_date, parse_date
from shared.base.errors import ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.memo import Memo
from shared.index.rules import IndexEntry, namespaces_above, replaces, split
from shared.runtime import Runtime, attempts
from shared.store import keys
from shared.store.columns import Columns
from shared.store.expiring import ExpiryStore, is_over
from shared.store.interface import Create, Merge, Operation, Replace, Row, Storage, Value
from shared.store.partitions import rows_of, sweep, try_transact


@dataclass(frozen=True, kw_only=True, slots=True)
class Namespace:
    """A namespace as it is listed; `path` is the whole of it."""

    path: str
    expires: datetime


class IndexStore:
    """Reads and writes the index. Writes are conditional on what was read, so that no race decides who wins a path.
    Every call may raise StorageUnavailable."""

    def __init__(self, storage: Storage, expiry: ExpiryStore, runtime: Runtime) -> None:
        self._tables = storage.tables
        self._expiry = expiry
        self._runtime = runtime
        self._listed: Memo[str, datetime] = Memo(remembered.NAMESPACES)
        """By namespace: a time until which it is listed at least, as far as this process knows."""

    async def put(self, entry: IndexEntry, *, is_call: bool) -> IndexEntry:
        """Stores an entry unless a better one is there; returns what is stored then, or the entry where it was deleted.

        The entry of a call counts as later than every acknowledged deletion, even if clocks disagree. The entry of a
        completed task does not, since its message may be handled late or twice. The namespaces above the entry are
        written first, so that no entry is ever without them. Raises ServiceUnavailable.
        """
        namespace, name = split(entry.path)
        partition, key = keys.index_partition(namespace), keys.index_task(name)
        async for _ in attempts(self._runtime):
            row = await self._tables.get(keys.INDEX, partition, key)
            deleted = None if row is None else _deleted(row)
            if is_call and deleted is not None and entry.at <= deleted:
                entry = replace(entry, at=deleted + timedelta(milliseconds=1))
            stored = None if row is None else _entry(row)
            if not replaces(entry, stored, deleted, self._runtime.now()):
                return stored or entry
            await self._list_namespaces(entry)
            values = _COLUMNS.encode(entry)
            if row is not None:
                values |= _remembered(row, entry)
            operation: Operation = Create(key, values) if row is None else Replace(key, values, row.etag)
            if await try_transact(self._tables, keys.INDEX, partition, [operation]) is not None:
                return entry
        raise ServiceUnavailable("the path is contended; send the call again")

    async def look_up(self, path: str) -> tuple[IndexEntry | None, datetime | None]:
        """Returns the entry of a path, unless it has expired, and when the path was last deleted; None if it never was,
        or long ago."""
        namespace, name = split(path)
        row = await self._tables.get(keys.INDEX, keys.index_partition(namespace), keys.index_task(name))
        if row is None:
            return None, None
        entry = _entry(row)
        is_there = entry is not None and entry.expires > self._runtime.now()
        return entry if is_there else None, _deleted(row)

    async def remove(self, path: str) -> bool:
        """Removes an entry; returns whether there was one. Namespaces stay until they expire.

        The row stays until it expires, and says when that was: its task's completion may be handled once more. It is
        changed as it was read: a request that takes effect late does not remove an entry that was made since.
        Raises ServiceUnavailable.
        """
        namespace, name = split(path)
        partition, key = keys.index_partition(namespace), keys.index_task(name)
        was_there = False
        async for _ in attempts(self._runtime):
            row = await self._tables.get(keys.INDEX, partition, key)
            if row is None:
                return False
            gone = Merge(key, {_DELETED: format_date(self._runtime.now()), _IS_GONE: True}, row.etag)
            was_there = was_there or not row.values.get(_IS_GONE)
            if await try_transact(self._tables, keys.INDEX, partition, [gone]) is not None:
                return was_there
        raise ServiceUnavailable("the path is contended; send the call again")

    async def entries(self, namespace: str, start: str, limit: int) -> tuple[list[IndexEntry], str | None]:
        """Returns a page of the unexpired entries directly in a namespace, by name, and where the next page starts."""
        rows, resume = await self._page(namespace, keys.INDEX_TASKS, start, limit)
        now = self._runtime.now()
        found = [entry for row in rows if (entry := _entry(row)) is not None]
        return [entry for entry in found if entry.expires > now], resume

    async def namespaces(self, namespace: str, start: str, limit: int) -> tuple[list[Namespace], str | None]:
        """Returns a page of the namespaces directly in a namespace, by name, and where the next page starts."""
        rows, resume = await self._page(namespace, keys.INDEX_NAMESPACES, start, limit)
        now = self._runtime.now()
        return [found for row in rows if (found := _namespace(row)).expires > now], resume

    async def sweep_namespace(self, namespace: str, start: str | None, until: datetime) -> datetime | None:
        """Deletes what has expired in a namespace, page by page; returns when to look again, None if nothing will come
        any more.

        Nothing is added to a namespace that is not listed: every writer lists it first, and schedules a sweep. `start`:
        where an earlier sweep ran out of time. Raises OutOfTime.
        """
        now = self._runtime.now()
        partition = keys.index_partition(namespace)
        some_stay = await sweep(
            self._tables,
            keys.INDEX,
            rows_of(self._tables, keys.INDEX, partition, start=start or "", select=("expires", _KEPT)),
            is_over=lambda row: is_over(_kept(row), now),
            has_time=lambda: self._runtime.now() < until,
        )
        if not (some_stay or start is not None or not namespace):
            listed = await self.listed_until(namespace)
            if listed is None or is_over(listed, self._runtime.now()):
                return None
        return _next_sweep(now, partition)

    async def listed_until(self, namespace: str) -> datetime | None:
        """Returns until when a namespace is listed; None if it is not."""
        row = await self._namespace_row(namespace)
        return None if row is None else _namespace(row).expires

    async def list_above(self, path: str, expires: datetime) -> None:
        """Lists every namespace above a path for long enough. It is a repair, so it does not rely on the rows that
        exist.

        Raises ServiceUnavailable.
        """
        for namespace, until in reversed(namespaces_above(path, expires)):
            await self._list_namespace(namespace, until, await self._namespace_row(namespace))

    async def schedule_sweep(self, namespace: str) -> None:
        """Schedules a sweep of the namespace for tomorrow."""
        partition = keys.index_partition(namespace)
        due = _next_sweep(self._runtime.now(), partition)
        await self._expiry.write(due, keys.INDEX_SWEEP, (partition,), {"namespace": namespace})

    async def _namespace_row(self, namespace: str) -> Row | None:
        parent, name = split(namespace)
        return await self._tables.get(keys.INDEX, keys.index_partition(parent), keys.index_namespace(name))

    async def _page(
        self, namespace: str, limits: tuple[str, str], start: str, limit: int
    ) -> tuple[Sequence[Row], str | None]:
        first, end = limits
        page = await self._tables.query(
            keys.INDEX, keys.index_partition(namespace), start=min(max(first, start), end), end=end, limit=limit
        )
        return page.rows, page.resume

    async def _list_namespaces(self, entry: IndexEntry) -> None:
        """Lists the namespaces above an entry for long enough, parents before children. If one is listed for long
        enough already, so are its parents."""
        missing = []
        for namespace, expires in namespaces_above(entry.path, entry.expires):
            known = self._listed.get(namespace)
            if known is not None and known >= expires:
                break
            row = await self._namespace_row(namespace)
            if row is not None and _namespace(row).expires >= expires:
                self._listed[namespace] = _namespace(row).expires
                break
            missing.append((namespace, expires, row))
        for namespace, expires, row in reversed(missing):
            await self._list_namespace(namespace, expires, row)

    async def _list_namespace(self, namespace: str, expires: datetime, row: Row | None) -> None:
        """Lists a namespace. Its sweep, and that of the root, are scheduled first, so that nothing that is listed stays
        for ever."""
        parent, name = split(namespace)
        partition, key = keys.index_partition(parent), keys.index_namespace(name)
        await self.schedule_sweep(namespace)
        if not parent:
            await self.schedule_sweep(parent)
        async for attempt in attempts(self._runtime):
            if attempt:
                row = await self._tables.get(keys.INDEX, partition, key)
            if row is not None and _namespace(row).expires >= expires:
                break
            values: dict[str, Value] = {"path": namespace, "expires": format_date(expires)}
            operation: Operation = Create(key, values) if row is None else Replace(key, values, row.etag)
            if await try_transact(self._tables, keys.INDEX, partition, [operation]) is not None:
                break
        else:
            raise ServiceUnavailable("the namespace is contended; send the call again")
        self._listed[namespace] = expires


def _next_sweep(now: datetime, partition: str) -> datetime:
    """Returns tomorrow at an hour of the namespace's own: all who schedule it today choose the same one."""
    hour = int.from_bytes(partition.encode()[:4]) % 24
    return datetime.combine(now.astimezone(UTC).date(), time(hour), UTC) + timedelta(days=1)


_COLUMNS = Columns(IndexEntry)

_DELETED = "deleted"
"""Property of an entry's row with the time at which the path was last deleted."""
_IS_GONE = "gone"
"""Property that marks the row of a deleted entry; a new entry at the path removes it."""
_KEPT = "kept"
"""Property of a row with the time from which it may be deleted, if that is later than its entry's expiration."""


def _entry(row: Row) -> IndexEntry | None:
    """Returns the entry of a row; None for a row whose entry was deleted."""
    return None if row.values.get(_IS_GONE) else _COLUMNS.decode(row.values)


def _deleted(row: Row) -> datetime | None:
    """Returns when the path was deleted last. It counts as later than every entry stored before, even if clocks
    disagree."""
    if _DELETED not in row.values:
        return None
    deleted = parse_date(str(row.values[_DELETED]))
    return max(deleted, parse_date(str(row.values["at"]))) if row.values.get(_IS_GONE) else deleted


def _kept(row: Row) -> datetime:
    return parse_date(str(row.values.get(_KEPT) or row.values["expires"]))


def _remembered(row: Row, entry: IndexEntry) -> dict[str, Value]:
    """Properties that a new entry's row takes over from the one that it replaces: when the path was deleted last, and
    until when an earlier completion may be handled again."""
    deleted = _deleted(row)
    remembered: dict[str, Value] = {} if deleted is None else {_DELETED: format_date(deleted)}
    if _kept(row) > entry.expires:
        remembered[_KEPT] = format_date(_kept(row))
    return remembered


def _namespace(row: Row) -> Namespace:
    return Namespace(path=str(row.values["path"]), expires=parse_date(str(row.values["expires"])))
