"""Rows of workers and task queues as they are when time has passed, written into the storage of a deployment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from shared.base.dates import format_date
from shared.queue.pools.states import Waiting, WaitingStore
from shared.runtime import utc_now
from shared.store import keys
from shared.store.connection import AzureStorage
from shared.store.interface import Create, Delete, Merge, Storage


def worker_was_seen(connection_string: str, task_queue_id: str, group: str, worker: str, ago: timedelta) -> None:
    """A worker's row was written so long ago."""
    where = keys.POOLS, keys.pool(task_queue_id), keys.worker(group, worker)
    _write(connection_string, lambda storage: _backdate(storage, *where, ago))


def work_was_asked_for(connection_string: str, task_queue_id: str, ago: timedelta) -> None:
    """Workers asked a task queue for work so long ago."""
    where = keys.DIRECTORY, keys.POOL, keys.listed(task_queue_id)
    _write(connection_string, lambda storage: _backdate(storage, *where, ago))


def task_has_waited(connection_string: str, task_queue_id: str, time: timedelta) -> None:
    """The pending run of a task queue has waited so long, and the timer has noted that it waits."""

    async def write(storage: Storage) -> None:
        pool, (start, end) = keys.pool(task_queue_id), keys.PENDING
        [row] = (await storage.tables.query(keys.POOLS, pool, start=start, end=end, limit=10)).rows
        kind, _, *rest = row.key.split("~")
        older = "~".join([kind, format_date(utc_now() - time), *rest])
        await storage.tables.transact(keys.POOLS, pool, [Delete(row.key), Create(older, row.values)])
        await WaitingStore(storage).write_waiting(Waiting(task_queue_ids=(task_queue_id,), time=utc_now()))

    _write(connection_string, write)


async def _backdate(storage: Storage, table: str, partition: str, key: str, ago: timedelta) -> None:
    active = {"lastDateActive": format_date(utc_now() - ago)}
    await storage.tables.transact(table, partition, [Merge(key, active)])


def _write(connection_string: str, write: Callable[[Storage], Awaitable[None]]) -> None:
    """Writes in a thread of its own, since the browser's event loop runs in this one."""

    async def work() -> None:
        async with AzureStorage.from_connection_string(connection_string) as account:
            await write(account.storage)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work()).result()
