"""The directory of task queues and provisioners that were seen or declared, so that no listing scans (contract 8). A
task queue's row stands from its first band on, for the reconciler; it is listed while seen, until it expires."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from shared.base import remembered
from shared.base.concurrency import together
from shared.base.errors import InputError, ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.jsontext import write
from shared.base.memo import Memo
from shared.base.retrying import LOST_RACE_FOR_DIRECTORY
from shared.runtime import Runtime, attempts
from shared.store import keys
from shared.store.columns import Columns
from shared.store.expiring import Expiring, ExpiryStore, is_over
from shared.store.interface import Create, Delete, Merge, Operation, Replace, Row, Storage
from shared.store.partitions import page_start, try_transact

REFRESHED_EVERY = timedelta(minutes=5)
"""Shortest time between two writes of a row, so that its `lastDateActive` is at most this out of date."""
DECLARED_LIFE = timedelta(days=5)
"""How long something is listed that was declared without an expiration (contract 8)."""


class DirectoryKind(StrEnum):
    """What a directory row is about. The value is its partition, and the kind of its row in the Expiry table."""

    TASK_QUEUE = keys.POOL
    PROVISIONER = keys.PROVISIONER


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectoryEntry:
    """A task queue or a provisioner, by its id."""

    name: str
    expires: datetime
    last_active: datetime
    stability: str = "experimental"
    description: str = ""
    actions: tuple[dict[str, Any], ...] = ()
    """Actions of a provisioner, as they were declared, for old clients."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """A declaration of a task queue or a provisioner; None leaves a property as it is."""

    expires: datetime | None = None
    stability: str | None = None
    description: str | None = None
    actions: tuple[dict[str, Any], ...] | None = None


class DirectoryStore:
    """Reads and writes the directory. Expirations only ever move forward. All methods raise StorageUnavailable."""

    def __init__(self, storage: Storage, expiry: ExpiryStore, runtime: Runtime) -> None:
        self._tables = storage.tables
        self._expiry = expiry
        self._now = runtime.now
        self._runtime = runtime
        self._fresh: Memo[tuple[DirectoryKind, str], tuple[datetime, datetime]] = Memo(remembered.DIRECTORY)
        """When each row was last written, as far as this process knows, and its expiration."""

    async def seen(self, task_queue_id: str, life: timedelta) -> None:
        """Notes that a task queue and its provisioner are in use: they are listed for at least `life` from now. No
        request when this process knows of a refresh in the last minutes."""
        expires = self._now() + life
        await self.lasts(task_queue_id, expires, enough=expires - REFRESHED_EVERY)

    async def lasts(self, task_queue_id: str, expires: datetime, *, enough: datetime | None = None) -> None:
        """Notes that a task queue and its provisioner are in use: they are listed until `expires`, or until `enough` at
        least. Where others write it, too, some minutes are added: the workers of a pool that start together do not
        write one after the other. Raises ServiceUnavailable."""
        names = {DirectoryKind.TASK_QUEUE: task_queue_id, DirectoryKind.PROVISIONER: task_queue_id.split("/", 1)[0]}
        await together(*(self._refresh(kind, name, expires, enough or expires) for kind, name in names.items()))

    async def declare_task_queue(self, task_queue_id: str, declaration: Declaration) -> DirectoryEntry:
        """Makes or changes a task queue; its provisioner lasts as long. Raises ServiceUnavailable."""
        entry = await self._declare(DirectoryKind.TASK_QUEUE, task_queue_id, declaration)
        provisioner_id = task_queue_id.split("/", 1)[0]
        await self._declare(DirectoryKind.PROVISIONER, provisioner_id, Declaration(expires=entry.expires))
        return entry

    async def declare_provisioner(self, provisioner_id: str, declaration: Declaration) -> DirectoryEntry:
        """Makes or changes a provisioner. Raises InputError for too much text, ServiceUnavailable."""
        if len(write(list(declaration.actions or ())).decode()) > MOST_ACTIONS:
            raise InputError(f"the actions must not have more than {MOST_ACTIONS} characters as JSON")
        return await self._declare(DirectoryKind.PROVISIONER, provisioner_id, declaration)

    async def _declare(self, kind: DirectoryKind, name: str, declaration: Declaration) -> DirectoryEntry:
        def change(before: DirectoryEntry | None) -> DirectoryEntry:
            now = self._now()
            after = before or DirectoryEntry(
                name=name, expires=declaration.expires or now + DECLARED_LIFE, last_active=now
            )
            return replace(
                after,
                expires=max(after.expires, declaration.expires or after.expires),
                last_active=now,
                stability=declaration.stability or after.stability,
                description=after.description if declaration.description is None else declaration.description,
                actions=after.actions if declaration.actions is None else declaration.actions,
            )

        return await self._write_changed(kind, name, change)

    async def entry(self, kind: DirectoryKind, name: str) -> DirectoryEntry | None:
        """Returns one entry, unless it has expired."""
        row = await self._tables.get_row(keys.DIRECTORY, kind, keys.listed(name))
        return None if row is None else self._unexpired(row)

    async def find_listed(self, kind: DirectoryKind, name: str) -> DirectoryEntry:
        """Returns one entry that has not expired. Raises ResourceNotFound."""
        entry = await self.entry(kind, name)
        if entry is None:
            raise ResourceNotFound(f"{name} is not known")
        return entry

    async def actions(self, provisioner_id: str, context: str) -> list[dict[str, str]]:
        """Returns the actions of one context (provisioner, worker type or worker) declared with the provisioner."""
        entry = await self.entry(DirectoryKind.PROVISIONER, provisioner_id)
        return [] if entry is None else [action for action in entry.actions if action["context"] == context]

    async def directory_page(
        self, kind: DirectoryKind, *, start: str, limit: int, provisioner_id: str | None = None
    ) -> tuple[list[DirectoryEntry], str | None]:
        """Returns a page of entries that have not expired, in the order of their ids, and the key at which the next
        page starts. Of task queues all, or those of a provisioner. Raises InputError."""
        within = keys.LISTED if provisioner_id is None else keys.of_provisioner(provisioner_id)
        first = page_start(start, within)
        if limit == 0:
            return [], None
        page = await self._tables.query(keys.DIRECTORY, kind, start=first, end=within[1], limit=limit)
        entries = [entry for row in page.rows if (entry := self._unexpired(row)) is not None]
        return entries, page.resume

    async def page_of_all(self, start: str, limit: int) -> tuple[list[tuple[str, DirectoryEntry | None]], str | None]:
        """Returns a page of all task queues that ever had a task or a worker, each with its entry if that is listed,
        and where the next page starts."""
        page = await self._tables.query(
            keys.DIRECTORY, DirectoryKind.TASK_QUEUE, start=start, end=keys.LISTED[1], limit=limit
        )
        return [
            (str(row.values[_NAME[DirectoryKind.TASK_QUEUE]]), self._unexpired(row)) for row in page.rows
        ], page.resume

    async def expire(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Removes an entry that has expired. Returns when it is due again, None if never. The row of a task queue
        stays: its pool may still hold work for the reconciler."""
        kind, name = DirectoryKind(expiring.kind), "/".join(expiring.words)
        row = await self._tables.get_row(keys.DIRECTORY, kind, keys.listed(name))
        entry = None if row is None else _decode(row)
        if row is None or entry is None:
            return None
        if not is_over(entry.expires, self._now()):
            return entry.expires
        operation: Operation = Delete(row.key, row.etag)
        if kind is DirectoryKind.TASK_QUEUE:
            operation = Replace(row.key, {_NAME[kind]: name}, row.etag)
        is_gone = await try_transact(self._tables, keys.DIRECTORY, kind, [operation]) is not None
        return None if is_gone else self._now()  # it has just been seen

    async def _refresh(self, kind: DirectoryKind, name: str, expires: datetime, enough: datetime) -> None:
        """Notes that an entry was seen, and moves its expiration to `expires`. Writes nothing if it is fresh and
        expires late enough."""

        def is_fresh(written: datetime, until: datetime) -> bool:
            return self._now() - written < REFRESHED_EVERY and until >= enough

        until = expires

        def change(before: DirectoryEntry | None) -> DirectoryEntry | None:
            nonlocal until
            now = self._now()
            wanted, until = until, expires + REFRESHED_EVERY if expires < _NO_SPARE else expires  # for the next try
            if before is None:
                return DirectoryEntry(name=name, expires=wanted, last_active=now)
            if is_fresh(before.last_active, before.expires):
                return None
            return replace(before, expires=max(before.expires, wanted), last_active=now)

        known = self._fresh.get((kind, name))
        if known is None or not is_fresh(*known):
            await self._write_changed(kind, name, change)

    async def _write_changed(
        self, kind: DirectoryKind, name: str, change: Callable[[DirectoryEntry | None], DirectoryEntry | None]
    ) -> DirectoryEntry:
        """Writes what `change` makes of the entry, unless it returns None, and starts again if somebody else has
        written the entry meanwhile. Returns the entry as it is then."""
        async for _ in attempts(self._runtime, LOST_RACE_FOR_DIRECTORY):
            row = await self._tables.get_row(keys.DIRECTORY, kind, keys.listed(name))
            before = None if row is None else _decode(row)
            after = change(before)
            if after is None:
                assert before is not None, "only what is there can be left as it is"
                return self._remembered(kind, before)
            if before is None:
                due = max(after.expires, self._now())
                await self._expiry.schedule(due, kind, tuple(name.split("/")), {})
            values = {_NAME[kind]: name, **_COLUMNS.encode(after)}
            operation = Create(keys.listed(name), values) if row is None else Merge(row.key, values, row.etag)
            if await try_transact(self._tables, keys.DIRECTORY, kind, [operation]) is not None:
                return self._remembered(kind, after)
        raise ServiceUnavailable(f"{name} is contended; send the call again")

    def _remembered(self, kind: DirectoryKind, entry: DirectoryEntry) -> DirectoryEntry:
        self._fresh[(kind, entry.name)] = (entry.last_active, entry.expires)
        return entry

    def _unexpired(self, row: Row) -> DirectoryEntry | None:
        entry = _decode(row)
        return entry if entry is not None and entry.expires > self._now() else None


_NO_SPARE = datetime(9999, 1, 1, tzinfo=UTC)
"""An expiration that is so late that it counts as never, and is not moved further."""
_NAME = {DirectoryKind.TASK_QUEUE: "taskQueueId", DirectoryKind.PROVISIONER: "provisionerId"}
MOST_ACTIONS = 30_000
"""Characters of a provisioner's actions as JSON: a property holds 32,768."""
_COLUMNS = Columns(DirectoryEntry, without={"name"}, renamed={"last_active": "lastDateActive"})
DESCRIBED = Columns(DirectoryEntry, without={"name", "actions"}, renamed={"last_active": "lastDateActive"})
"""The properties that provisioners, worker types and task queues have in common, by the answers' names."""


def _decode(row: Row) -> DirectoryEntry | None:
    """Reads an entry from its row; None for a pool that has not been seen, or has expired."""
    if "expires" not in row.values:
        return None
    return _COLUMNS.decode(row.values, name=str(row.values[_NAME[DirectoryKind(row.partition)]]))
