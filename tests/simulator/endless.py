"""By how much the process grows while the expiry job deletes a partition of very many rows.

`python -m tests.simulator.endless <group|index|members|task> <rows>` prints megabytes, and how many rows were deleted.
The rows are made up as they are read, and come through the decoder of Azure's answers.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from shared.base.ids import new_slugid
from shared.index.rows import IndexStore
from shared.queue.artifacts.rows import ArtifactStore
from shared.queue.artifacts.uploads import Uploads
from shared.queue.expiry.failures import ExpiryFailures, UnsentEvents
from shared.queue.expiry.groups import GroupExpiry, MemberExpiry
from shared.queue.expiry.tasks import ArtifactExpiry, TaskExpiry
from shared.queue.groups.check import GroupCheck
from shared.queue.groups.recent import RecentGroupStore
from shared.queue.groups.store import GroupStore
from shared.queue.tasks.definitions import DefinitionCache
from shared.queue.tasks.edges import GroupEdges
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.known import KnownStatuses
from shared.queue.tasks.rows import TaskStore
from shared.runtime import Runtime
from shared.store import keys, table_requests
from shared.store.expiring import Expiring, ExpiryStore
from shared.store.interface import MAX_PAGE, Operation, Page, Row, Tables
from shared.store.wire import StorageAnswer
from tests.twin import MemoryStorage

LONG_AGO = "2026-01-01T00:00:00.000Z"


class Endless:
    """Tables with one partition of made-up rows."""

    def __init__(self, kind: str, rows: int) -> None:
        self._kind = kind
        self._left = rows
        self.deleted = 0

    async def get(self, table: str, partition: str, key: str) -> Row | None:
        return None

    async def query(self, table: str, partition: str, *, start: str, **options: Any) -> Page:
        of_a_group = {"group": keys.UNBLOCKS, "members": keys.MEMBERS[0]}.get(self._kind)
        if of_a_group is not None and (table != keys.GROUPS or not (start == "" or start.startswith(of_a_group))):
            return Page(rows=[], resume=None)
        found = []
        for _ in range(min(MAX_PAGE, self._left)):
            self._left -= 1
            found.append(
                {
                    "odata.etag": "W/\"datetime'2026-01-01T00%3A00%3A00.1234567Z'\"",
                    "PartitionKey": partition,
                    "Timestamp": "2026-01-01T00:00:00.1234567Z",
                    **self._row(),
                }
            )
        body = json.dumps({"value": found}).encode()
        rows, _ = table_requests.read_page(StorageAnswer(status=200, headers={}, content=body))
        return Page(rows=rows, resume=f"{rows[-1].key} " if self._left else None)

    async def transact(self, table: str, partition: str, operations: Sequence[Operation]) -> list[str]:
        self.deleted += len(operations)
        return [""] * len(operations)

    def _row(self) -> dict[str, str]:
        if self._kind == "group":
            return {"RowKey": keys.unblocks(new_slugid(), new_slugid())}
        if self._kind == "members":
            return {
                "RowKey": keys.member(new_slugid()),
                "final0000": json.dumps({"expires": LONG_AGO, "more": "x" * 800}),
            }
        if self._kind == "index":
            return {"RowKey": keys.index_task(new_slugid()), "expires": LONG_AGO}
        name = f"public/{new_slugid()}"
        return {"RowKey": keys.artifact(0, name), "name": name, "upload": "relay", "version": new_slugid()}


async def expire(kind: str, rows: int) -> tuple[float, int]:
    """By how many megabytes the process has grown, and how many rows were deleted."""
    twin = MemoryStorage()
    tables, runtime = Endless(kind, rows), Runtime()
    storage = replace(twin.storage, tables=cast("Tables", tables))
    known = KnownStatuses(runtime.now)
    stores = cast("Stores", SimpleNamespace(runtime=runtime, edges=GroupEdges(storage)))
    name = new_slugid()
    row = Row(partition="hour", key=f"{kind}~{name}", values={}, etag="", timestamp=runtime.now())
    due = Expiring(row=row, kind=kind, words=(name,), values={"taskGroupId": name})
    unsent = UnsentEvents(storage.queues, runtime)
    until = runtime.now() + timedelta(days=1)
    before = _resident()
    expiry = ExpiryStore(storage, runtime.now)
    artifacts = ArtifactExpiry(
        cast("TaskStore", None),
        ArtifactStore(storage, runtime),
        cast("Uploads", None),
        expiry,
        storage.blobs,
        runtime,
    )
    tasks = TaskExpiry(storage, stores, artifacts, DefinitionCache(1, runtime.now), unsent)
    members = MemberExpiry(storage, stores, tasks, expiry, unsent, ExpiryFailures(runtime))
    if kind == "index":
        await IndexStore(storage, expiry, runtime).sweep("", None, until)
    elif kind == "task":
        await tasks.delete(name, name, until, is_final=True)
    else:
        groups = GroupStore(storage, known, runtime.now)
        recent, check = RecentGroupStore(storage, runtime), GroupCheck(stores)
        await GroupExpiry(storage, groups, check, recent, members, unsent, runtime).group(due, until)
    return _resident() - before, tables.deleted


def _resident() -> float:
    """The most memory that the process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    print(*asyncio.run(expire(sys.argv[1], int(sys.argv[2]))))
