"""The index service: entries by path, filled by calls and by tasks that complete (contract 18)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from shared.base import bounds
from shared.base.concurrency import Lookups, together
from shared.base.errors import InputError, ResourceNotFound
from shared.base.jsontext import write
from shared.index.rows import IndexStore
from shared.index.rules import MOST_DATA, IndexEntry, entries_of, is_path, paths_of
from shared.queue.tasks.definition import Definition
from shared.runtime import Runtime
from shared.store.expiring import Expiring, ExpiryStore
from shared.store.interface import Storage

log = logging.getLogger("taskcluster.index")


class Index(IndexStore):
    """The use cases of the index. Every call may raise StorageUnavailable."""

    def __init__(self, storage: Storage, expiry: ExpiryStore, runtime: Runtime, lookups: Lookups) -> None:
        super().__init__(storage, expiry, runtime)
        self._lookups = lookups

    async def insert(self, entry: IndexEntry) -> IndexEntry:
        """Stores an entry by the rules of contract 18.3; returns what is stored then, which may be another task's.

        Raises InputError (data too large), ServiceUnavailable.
        """
        if len(write(entry.data)) > MOST_DATA:
            raise InputError(f"`data` may have {MOST_DATA} bytes as JSON")
        return await self.put(entry, is_call=True)

    async def find(self, path: str) -> IndexEntry:
        """Returns the entry of a path. Raises ResourceNotFound."""
        entry, _ = await self.look_up(path)
        if entry is None:
            raise ResourceNotFound("Indexed task not found")
        return entry

    async def find_all(self, paths: Sequence[str], start: int, limit: int) -> tuple[list[IndexEntry], int | None]:
        """Returns the entries of `paths`, from position `start` on, and the position at which the next call continues;
        paths without an entry are left out.

        `paths` are all different. One call looks up as many paths as its page may have entries, but at least 64. Raises
        ServiceUnavailable when too many lists are read.
        """
        end = min(start + max(limit, bounds.ROWS_AT_A_TIME), len(paths))
        entries = await self._lookups.each(self._entry, paths[start:end])
        found = [(start + index, entry) for index, entry in enumerate(entries) if entry is not None]
        if len(found) > limit:
            end = found[limit][0]
        return [entry for _, entry in found[:limit]], end if end < len(paths) else None

    async def _entry(self, path: str) -> IndexEntry | None:
        return (await self.look_up(path))[0] if is_path(path) else None

    async def task_completed(self, definition: Definition, resolved: datetime) -> None:
        """Indexes a task by its routes. May be repeated: what was deleted since stays deleted.

        Raises ServiceUnavailable."""
        entries = entries_of(definition, resolved)
        if not entries and paths_of(definition):
            log.info("a value of extra.index cannot be used", extra={"action": "not_indexed"})
        if entries and len(write(entries[0].data)) > MOST_DATA:
            log.info("the data of a task is too large to be indexed", extra={"action": "not_indexed"})
            return
        await together(*(self.put(entry, is_call=False) for entry in entries))

    async def sweep(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes what has expired in one namespace, for the expiry job. Raises OutOfTime."""
        return await self.sweep_namespace(str(expiring.values["namespace"]), expiring.resume, until)
