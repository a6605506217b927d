"""The stores behind listings and counts, on real tables: order, pages, races, what strings they hold."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.base import bounds
from shared.base.concurrency import together
from shared.base.dates import parse_date
from shared.base.ids import new_slugid
from shared.queue.pools.directory import DirectoryStore
from shared.queue.pools.index import Counts, PoolIndex
from shared.queue.pools.rows import PoolStore
from shared.queue.pools.worker_rows import Quarantine, WorkerRecord, WorkerStore
from shared.queue.tasks.effects import ChangePoolRows, PoolRow
from shared.queue.tasks.known import KnownStatuses
from shared.queue.tasks.rules import State
from shared.runtime import Runtime, utc_now
from shared.store import keys
from shared.store.counting import counting
from shared.store.expiring import ExpiryStore
from shared.store.interface import Storage

POOL = "provisioner/pool"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def directory(storage: Storage) -> DirectoryStore:
    """Of one process."""
    runtime = Runtime()
    return DirectoryStore(storage, ExpiryStore(storage, runtime.now), runtime)


def rows(count: int, **changes: object) -> list[PoolRow]:
    """Index rows of pending runs, a second apart."""
    row = PoolRow(
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


@pytest.mark.parametrize("text", ["", "plain", "é💾\u2028", "\x00\x01\x7f\x80\ufffe", "'\"\\/?#%", "x" * 4000])
async def test_whatever_a_reason_says(azure_storage: Storage, text: str) -> None:
    store = WorkerStore(azure_storage, Runtime())
    record = await _written(store.put(await store.read(POOL, "g", "w")))
    entry = Quarantine(
        client_id="somebody", updated=NOW, until=parse_date("9999-12-31T23:59:59.999Z"), info=text, entry_id="a"
    )
    await store.quarantine(record, entry)
    assert await store.history(POOL, "g", "w") == [entry]


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


async def test_counts_and_pages_of_index_rows(azure_storage: Storage) -> None:
    pools, index = PoolStore(azure_storage, Runtime(), KnownStatuses(utc_now)), PoolIndex(azure_storage)
    waiting, late = rows(5), rows(2, deadline=NOW)
    running = rows(3, state=State.RUNNING, started=NOW, worker_group="g", worker_id="w")
    others = rows(1, state=State.RUNNING, started=NOW, worker_group="g", worker_id="other")
    await together(*(pools.add_pending(POOL, row) for row in (*waiting, *late)))
    await _claim(pools, [*running, *others])
    with counting() as operations:
        assert (await index.snapshot(POOL, NOW)).counts == Counts(pending=5, claimed=4)
    assert (operations.total, operations.depth) == (1, 1)
    page, resume = await index.page("pending", POOL, keys.PENDING[0], 3)
    rest, end = await index.page("pending", POOL, str(resume), 1000)
    assert [row.since for row in (*page, *rest)] == sorted(row.scheduled for row in (*waiting, *late))
    assert end is None
    held, _ = await index.held(POOL, "g", "w", keys.CLAIMED[0])
    assert {row.task_id for row in held} == {row.task_id for row in running}


async def test_counts_beyond_a_page(azure_storage: Storage) -> None:
    pools, index = PoolStore(azure_storage, Runtime(), KnownStatuses(utc_now)), PoolIndex(azure_storage)
    many = rows(1050, state=State.RUNNING, started=NOW)
    for at in range(0, len(many), 100):
        await _claim(pools, many[at : at + 100])
    with counting() as operations:
        assert (await index.snapshot(POOL, NOW)).counts == Counts(pending=0, claimed=1050)
    assert operations.total == 2


async def _claim(pools: PoolStore, claimed: Sequence[PoolRow]) -> None:
    await pools.change([ChangePoolRows(task_queue_id=POOL, add=tuple(claimed))], POOL)
