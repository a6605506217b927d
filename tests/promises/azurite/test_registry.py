"""The stores behind listings and counts, on real tables: order, pages, races, and which strings they hold."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from shared.base import bounds
from shared.base.ids import new_slugid
from shared.queue.pools.directory import DirectoryStore
from shared.queue.pools.rows import PoolStore
from shared.queue.pools.worker_rows import Quarantine, WorkerRecord, WorkerStore
from shared.queue.tasks.effects import ChangePoolRows, PoolRow
from shared.queue.tasks.rules import State
from shared.runtime import Runtime
from shared.store import keys
from shared.store.expiring import ExpiryStore
from shared.store.interface import Storage

POOL = "provisioner/pool"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def directory(storage: Storage) -> DirectoryStore:
    """Returns the directory of one process."""
    runtime = Runtime()
    return DirectoryStore(storage, ExpiryStore(storage, runtime.now), runtime)


def rows(count: int, **changes: object) -> list[PoolRow]:
    """Returns index rows of pending runs, a second apart."""
    row = PoolRow(
        task_queue_id=POOL,
        state=State.PENDING,
        scheduled=NOW,
        task_id="",
        run_id=0,
        priority="lowest",
        deadline=NOW + timedelta(hours=1),
    )
    made = [replace(row, task_id=new_slugid(), scheduled=NOW + timedelta(seconds=second)) for second in range(count)]
    return [replace(one, **changes) for one in made]  # type: ignore[arg-type]  # names of a PoolRow


async def _written(write: Awaitable[WorkerRecord | None]) -> WorkerRecord:
    written = await write
    assert written is not None, "nobody else has written it"
    return written


async def test_a_history_latest_last(azure_storage: Storage) -> None:
    store = WorkerStore(azure_storage, Runtime())
    record = await _written(store.put(await store.read(POOL, "g", "w")))
    await store.put(await store.read(POOL, "g", "w2"))
    entries = [
        Quarantine(
            client_id="c", updated=NOW + timedelta(seconds=number), until=NOW, info=str(number), entry_id=f"{number}"
        )
        for number in range(bounds.QUARANTINES_SHOWN + 2)
    ]
    for entry in entries:
        record = await _written(store.quarantine(record, entry))
    assert await store.history(POOL, "g", "w") == entries[2:]
    assert await store.history(POOL, "g", "w2") == []
    stale = replace(record, etag="W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"")
    assert await store.quarantine(stale, entries[0]) is None
    assert not await store.remove(stale)
    assert await store.remove(record)
    assert await store.existing(POOL, "g", "w") is None
    assert await store.history(POOL, "g", "w") == []
    assert [each.worker_id for each in (await store.page(POOL, keys.WORKERS[0], 10))[0]] == ["w2"]


async def _claim(pools: PoolStore, claimed: Sequence[PoolRow]) -> None:
    await pools.change([ChangePoolRows(add=tuple(claimed))])
