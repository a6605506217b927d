"""The index service: entries by path, filled by calls and by tasks that complete (contract 18); and its table, in which
entries and namespaces lie in the partition of the namespace that they are in, in the order of names (design 9).

Nothing is written to the Expiry table for an entry: each namespace with something in it is swept once a day."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta

from shared.base import bounds, remembered
from shared.base.concurrency import Lookups, together
from shared.base.dates import format_date, parse_date
from shared.base.errors import InputError, ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.jsontext import write
from shared.base.memo import Memo
from shared.index.rules import MOST_DATA, IndexEntry, entries_of, is_path, namespaces_above, paths_of, replaces, split
from shared.queue.tasks.definition import Definition
from shared.runtime import Runtime, attempts
from shared.store import keys
from shared.store.columns import Columns
from shared.store.expiring import Expiring, ExpiryStore, is_over
from shared.store.interface import Create, Merge, Operation, Replace, Row, Storage, Value
from shared.store.partitions import rows_of, sweep, try_transact

log = logging.getLogger("taskcluster.index")


@dataclass(frozen=True, kw_only=True, slots=True)
class Namespace:
    """A namespace as it is listed; `path` is the whole of it."""

    path: str
    expires: datetime


class Index:
    """The use cases of the index. Writes are conditional on what was read, so that no race decides who wins a path.
    Every call may raise StorageUnavailable."""

    def __init__(self, storage: Storage, expiry: ExpiryStore, runtime: Runtime, lookups: Lookups) -> None:
        self._tables = storage.tables
        self._expiry = expiry
        self._runtime = runtime
        self._lookups = lookups
        self._listed: Memo[str, datetime] = Memo(remembered.NAMESPACES)
        """By namespace: a time until which it is listed at least, as far as this process knows."""

    async def insert(self, entry: IndexEntry) -> IndexEntry:
        """Stores an entry by the rules of contract 18.3; returns what is stored then, which may be another task's.
        Raises InputError (data too large), ServiceUnavailable."""
        if len(write(entry.data)) > MOST_DATA:
            raise InputError(f"`data` may have {MOST_DATA} bytes as JSON")
        return await self._store_entry(entry, is_call=True)

    async def find(self, path: str) -> IndexEntry:
        """Returns the entry of a path. Raises ResourceNotFound."""
        entry, _ = await self.look_up(path)
        if entry is None:
            raise ResourceNotFound("Indexed task not found")
        return entry

    async def find_all(self, paths: Sequence[str], start: int, limit: int) -> tuple[list[IndexEntry], int | None]:
        """Returns the entries of `paths`, from position `start` on, and the position at which the next call continues;
        paths without an entry are left out. `paths` are all different. One call looks up as many paths as its page may
        have entries, but at least 64. Raises ServiceUnavailable when too many lists are read."""
        end = min(start + max(limit, bounds.ROWS_AT_A_TIME), len(paths))
        entries = await self._lookups.each(self._entry, paths[start:end])
        found = [(start + index, entry) for index, entry in enumerate(entries) if entry is not None]
        if len(found) > limit:
            end = found[limit][0]
        return [entry for _, entry in found[:limit]], end if end < len(paths) else None

    async def _entry(self, path: str) -> IndexEntry | None:
        return (await self.look_up(path))[0] if is_path(path) else None

    async def task_completed(self, definition: Definition, resolved: datetime) -> None:
        """Indexes a task by its routes. May be repeated: what was deleted since stays deleted. Raises
        ServiceUnavailable."""
        entries = entries_of(definition, resolved)
        if not entries and paths_of(definition):
            log.info("a value of extra.index cannot be used", extra={"action": "not_indexed"})
        if entries and len(write(entries[0].data)) > MOST_DATA:
            log.info("the data of a task is too large to be indexed", extra={"action": "not_indexed"})
            return
        await together(*(self._store_entry(entry, is_call=False) for entry in entries))

    async def _store_entry(self, entry: IndexEntry, *, is_call: bool) -> IndexEntry:
        """Stores an entry unless a better one is there; returns what is stored then, or the entry where it was deleted.

        The entry of a call counts as later than every acknowledged deletion, even if clocks disagree. The entry of a
        completed task does not, since its message may be handled late or twice. The namespaces above the entry are
        written first, so that no entry is ever without them. Raises ServiceUnavailable."""
        namespace, name = split(entry.path)
        partition, key = keys.index_partition(namespace), keys.index_task(name)
        async for _ in attempts(self._runtime):
            row = await self._tables.get_row(keys.INDEX, partition, key)
            deleted = None if row is None else _deleted(row)
            if is_call and deleted is not None and entry.at <= deleted:
                entry = replace(entry, at=deleted + timedelta(milliseconds=1))
            stored = None if row is None else _entry(row)
            if not replaces(entry, stored, deleted, self._runtime.now()):
                return stored or entry
            # The namespaces above the entry that are not listed for long enough, parents before children. If one is
            # listed for long enough, so are its parents.
            missing = []
            for above, expires in namespaces_above(entry.path, entry.expires):
                known = self._listed.get(above)
                if known is not None and known >= expires:
                    break
                listed = await self.namespace_row(above)
                if listed is not None and _namespace(listed).expires >= expires:
                    self._listed[above] = _namespace(listed).expires
                    break
                missing.append((above, expires, listed))
            for each in reversed(missing):
                await self.list_namespace(*each)
            values = _COLUMNS.encode(entry)
            if row is not None:
                values |= _remembered(row, entry)
            operation: Operation = Create(key, values) if row is None else Replace(key, values, row.etag)
            if await try_transact(self._tables, keys.INDEX, partition, [operation]) is not None:
                return entry
        raise ServiceUnavailable("the path is contended; send the call again")

    async def look_up(self, path: str) -> tuple[IndexEntry | None, datetime | None]:
        """Returns the entry of a path, unless it has expired, and when the path was last deleted, if it was lately."""
        namespace, name = split(path)
        row = await self._tables.get_row(keys.INDEX, keys.index_partition(namespace), keys.index_task(name))
        if row is None:
            return None, None
        entry = _entry(row)
        is_there = entry is not None and entry.expires > self._runtime.now()
        return entry if is_there else None, _deleted(row)

    async def remove_entry(self, path: str) -> bool:
        """Removes an entry; returns whether there was one. Namespaces stay until they expire. The row stays until it
        expires, and says when that was: its task's completion may be handled once more. It is changed as it was read: a
        request that takes effect late does not remove an entry that was made since. Raises ServiceUnavailable."""
        namespace, name = split(path)
        partition, key = keys.index_partition(namespace), keys.index_task(name)
        was_there = False
        async for _ in attempts(self._runtime):
            row = await self._tables.get_row(keys.INDEX, partition, key)
            if row is None:
                return False
            gone = Merge(key, {_DELETED: format_date(self._runtime.now()), _IS_GONE: True}, row.etag)
            was_there = was_there or not row.values.get(_IS_GONE)
            if await try_transact(self._tables, keys.INDEX, partition, [gone]) is not None:
                return was_there
        raise ServiceUnavailable("the path is contended; send the call again")

    async def entries(self, namespace: str, start: str, limit: int) -> tuple[list[IndexEntry], str | None]:
        """Returns a page of the unexpired entries directly in a namespace, by name, and where the next page starts."""
        rows, resume = await self._index_page(namespace, keys.INDEX_TASKS, start, limit)
        now = self._runtime.now()
        found = [entry for row in rows if (entry := _entry(row)) is not None]
        return [entry for entry in found if entry.expires > now], resume

    async def namespaces(self, namespace: str, start: str, limit: int) -> tuple[list[Namespace], str | None]:
        """Returns a page of the namespaces directly in a namespace, by name, and where the next page starts."""
        rows, resume = await self._index_page(namespace, keys.INDEX_NAMESPACES, start, limit)
        now = self._runtime.now()
        return [found for row in rows if (found := _namespace(row)).expires > now], resume

    async def sweep(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes what has expired in a namespace, page by page, for the expiry job; returns when to look again, None
        if nothing will come any more. Raises OutOfTime. Nothing is added to a namespace that is not listed: every
        writer lists it first, and schedules a sweep."""
        now, namespace, resume = self._runtime.now(), str(expiring.values["namespace"]), expiring.resume
        partition = keys.index_partition(namespace)
        some_stay = await sweep(
            self._tables,
            keys.INDEX,
            rows_of(self._tables, keys.INDEX, partition, start=resume or "", select=("expires", _KEPT)),
            is_over=lambda row: is_over(_kept(row), now),
            has_time=lambda: self._runtime.now() < until,
        )
        if not (some_stay or resume is not None or not namespace):
            listed = await self.listed_until(namespace)
            if listed is None or is_over(listed, self._runtime.now()):
                return None
        return _next_sweep(now, partition)

    async def listed_until(self, namespace: str) -> datetime | None:
        """Returns until when a namespace is listed; None if it is not."""
        row = await self.namespace_row(namespace)
        return None if row is None else _namespace(row).expires

    async def schedule_sweep(self, namespace: str) -> None:
        """Schedules a sweep of the namespace for tomorrow."""
        partition = keys.index_partition(namespace)
        due = _next_sweep(self._runtime.now(), partition)
        await self._expiry.schedule(due, keys.INDEX_SWEEP, (partition,), {"namespace": namespace})

    async def namespace_row(self, namespace: str) -> Row | None:
        """Returns the row that lists a namespace, if there is one."""
        parent, name = split(namespace)
        return await self._tables.get_row(keys.INDEX, keys.index_partition(parent), keys.index_namespace(name))

    async def _index_page(
        self, namespace: str, limits: tuple[str, str], start: str, limit: int
    ) -> tuple[Sequence[Row], str | None]:
        first, end = limits
        page = await self._tables.query(
            keys.INDEX, keys.index_partition(namespace), start=min(max(first, start), end), end=end, limit=limit
        )
        return page.rows, page.resume

    async def list_namespace(self, namespace: str, expires: datetime, row: Row | None) -> None:
        """Lists a namespace, of which `row` was read. Its sweep, and that of the root, are scheduled first, so that
        nothing that is listed stays for ever. Raises ServiceUnavailable."""
        parent, name = split(namespace)
        partition, key = keys.index_partition(parent), keys.index_namespace(name)
        await self.schedule_sweep(namespace)
        if not parent:
            await self.schedule_sweep(parent)
        async for attempt in attempts(self._runtime):
            if attempt:
                row = await self._tables.get_row(keys.INDEX, partition, key)
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
    """Returns when the path was deleted last. It counts as later than entries before, even if clocks disagree."""
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
