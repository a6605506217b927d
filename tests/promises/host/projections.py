"""Checks on a running stack what must follow from the status rows in storage (design 7). Messages cannot be seen while
they are hidden; that each of them does its work shows in what the service does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from shared.base.concurrency import in_waves
from shared.queue.tasks.codec import decode_task
from shared.queue.tasks.rules import State, Task
from shared.store import keys
from shared.store.connection import AzureStorage
from shared.store.interface import Row, Storage
from tests.promises.host.service import Running, eventually

AT_ONCE = 16
"""Number of tasks whose rows are read at the same time: Azurite handles one request after the other."""


def settle(running: Running, task_ids: Iterable[str], timeout: float = 20) -> None:
    """Waits until guards, active rows and index rows follow from the tasks' states; fails when they do not."""
    wanted = sorted(task_ids)
    connection = running.stack.environment["AZURE_STORAGE_CONNECTION_STRING"]

    async def differences() -> list[str]:
        async with AzureStorage.from_connection_string(connection) as account:
            found = await in_waves(AT_ONCE, lambda task_id: _differences(account.storage, task_id), wanted)
        return [line for lines in found for line in lines]

    eventually(lambda: not asyncio.run(differences()), timeout, lambda: "\n".join(asyncio.run(differences())))


async def _differences(storage: Storage, task_id: str) -> list[str]:
    rows = {row.key: row for row in await _rows(storage, keys.TASKS, task_id)}
    if keys.TASK_STATUS not in rows:
        return []
    task = decode_task(rows[keys.TASK_STATUS])
    checks = {
        "open guard": (keys.TASK_OPEN in rows, not task.is_resolved),
        "upload guards": (
            {key for key in rows if key.startswith("upload~")},
            {keys.upload(run_id) for run_id, run in enumerate(task.runs) if run.state is State.RUNNING},
        ),
        "active rows": (
            await _words(storage, keys.GROUPS, task.task_group_id, "active", task_id),
            set() if task.is_resolved else {f"{task.generation:04d}"},
        ),
        "pending rows": (await _index(storage, task, "pending"), _runs(task, State.PENDING)),
        "claimed rows": (await _index(storage, task, "claimed"), _runs(task, State.RUNNING)),
    }
    return [
        f"{name} of {task_id} ({task.state}, {len(task.runs)} runs): {found}, not {wanted}"
        for name, (found, wanted) in checks.items()
        if found != wanted
    ]


def _runs(task: Task, state: State) -> set[str]:
    return {f"{run_id:04d}" for run_id, run in enumerate(task.runs) if run.state is state}


async def _index(storage: Storage, task: Task, kind: str) -> set[str]:
    rows = await _rows(storage, keys.POOLS, keys.pool(task.task_queue_id))
    words = [row.key.split("~") for row in rows if row.key.startswith(f"{kind}~")]
    return {run_id for _, _, task_id, run_id in words if task_id == task.task_id}


async def _words(storage: Storage, table: str, partition: str, kind: str, task_id: str) -> set[str]:
    prefix = f"{kind}~{task_id}~"
    return {
        row.key.removeprefix(prefix) for row in await _rows(storage, table, partition) if row.key.startswith(prefix)
    }


async def _rows(storage: Storage, table: str, partition: str) -> list[Row]:
    rows: list[Row] = []
    start: str | None = ""
    while start is not None:
        page = await storage.tables.query(table, partition, start=start, end="\x7f")
        rows.extend(page.rows)
        start = page.resume
    return rows
