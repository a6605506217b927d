"""The store of workers, on real tables."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from shared.base import bounds
from shared.queue.pools.worker_rows import Quarantine, WorkerRecord, WorkerStore
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import Storage

POOL = "provisioner/pool"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def _written(write: Awaitable[WorkerRecord | None]) -> WorkerRecord:
    written = await write
    assert written is not None, "nobody else has written it"
    return written


async def test_a_history_latest_last(azure_storage: Storage) -> None:
    store = WorkerStore(azure_storage, Runtime())
    record = await _written(store.write_worker(await store.read_worker(POOL, "g", "w")))
    await store.write_worker(await store.read_worker(POOL, "g", "w2"))
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
    assert not await store.remove_worker(stale)
    assert await store.remove_worker(record)
    assert await store.existing(POOL, "g", "w") is None
    assert await store.history(POOL, "g", "w") == []
    assert [each.worker_id for each in (await store.pool_page(POOL, keys.WORKERS[0], 10))[0]] == ["w2"]
