"""Every row that the app can write is restored from an export, however often the restore dies."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shared.auth import audit
from shared.auth.roles.accounts import CreateRoleRequest
from shared.index.rules import MOST_DATA
from shared.queue.artifacts.rules import MAX_DETAILS, Artifact, StorageType
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.rules import Resolved
from shared.store.interface import Row, StorageUnavailable
from tests.parts.twin import MemoryStorage
from tests.parts.twin.gate import Call, Phase
from tests.promises.simulator.expiring import CLIENT, everybody, everything
from tests.promises.simulator.indexing import entry
from tests.promises.simulator.situations import GROUP, C
from tests.promises.simulator.world import POOL, WORKER, World, unordered
from tools.admin import backup
from tools.admin.backup import BackupError, import_tables
from tools.local.entities import TABLES

LANGUAGES = "Grüße, Ελλάδα, Привет, こんにちは, 😀 \u2028\x7f\"\\'"
KINDS = {
    "Tasks": {"task.definition", "task.status", "task.open", "task", "upload", "dependent", "artifact", "direct"},
    "Groups": {"group", "scheduler", "member", "active", "unblocks", "due", "number"},
    "Pools": {"pool", "pending", "claimed", "returned", "worker", "quarantine"},
    "Index": {"task", "namespace"},
    "Expiry": {"group-tasks", "listed", "worker", "client", "artifact", "upload", "index", "cursor"},
}
"""The kinds of rows of design 3, by their keys."""


async def one_of_everything(world: World) -> None:
    """Stores whatever the app can be made to store, with text of many languages wherever a caller may write any."""
    await everything(world)
    services, now = world.services, world.clock.now()
    metadata = {"name": LANGUAGES, "owner": "a@example.com", "source": "https://example.com/", "description": LANGUAGES}
    await world.create(C, taskGroupId=GROUP, metadata=metadata, payload={"text": LANGUAGES * 2000})
    await world.create(taskGroupId=GROUP, dependencies=[C])
    await world.create(dependencies=[C], priority="high")
    (claim,) = await world.claim()
    await services.lifecycle.report_exception(claim.task.task_id, 0, Resolved.WORKER_SHUTDOWN)
    (claim,) = await world.claim()
    for number in range(60):
        details = {"reason": "file-missing-on-worker", "message": "あ" * (MAX_DETAILS - 200)}
        await services.artifacts.creation.create_or_find(
            claim.task.task_id,
            claim.run_id,
            Artifact(
                name=f"public/{number:03d}",
                storage_type=StorageType.ERROR,
                content_type="text/plain",
                expires=claim.task.expires,
                details=details,
            ),
        )
    await services.workers.quarantine(POOL, WORKER, now + timedelta(hours=1), client_id=CLIENT, info=LANGUAGES)
    await services.roles.make_role("project:x", CreateRoleRequest(scopes=["a:b"], description=LANGUAGES), everybody)
    for number in range(60):
        one = entry(world, f"demo.v2.n{number:03d}", days=9)
        await services.index.insert(replace(one, data={"text": "あ" * ((MOST_DATA - 20) // 3)}))
    async with services.audit.entry(audit.task_group(GROUP), "priority changed", CLIENT, LANGUAGES) as noted:
        await noted.begin_entry()
        await services.group_jobs.call(GroupJob(task_group_id=GROUP, kind="priority", new_priority="high"))
        noted.happens = True
    await world.handlers.gauges.note_waiting()
    await world.handlers.expiration.run(10)


def exported(world: World, folder: Path) -> dict[str, list[Row]]:
    """Returns the rows of a store in memory, and writes them to files as the export does."""
    rows = {table: world.rows(table) for table in TABLES}
    for table, some in rows.items():
        with gzip.open(folder / f"{table}.jsonl.gz", "wt", encoding="utf-8") as file:
            for row in some:
                entity = {"PartitionKey": row.partition, "RowKey": row.key, **row.values}
                written = {name: backup._written(value) for name, value in entity.items()}
                file.write(json.dumps(written, ensure_ascii=False) + "\n")
    return rows


def kinds(rows: list[Row]) -> set[str]:
    return {row.key.split("~")[0] for row in rows}


def content(rows: list[Row]) -> dict[tuple[str, str], object]:
    return {(row.partition, row.key): dict(row.values) for row in rows}


async def restored(memory: MemoryStorage, folder: Path) -> dict[str, int]:
    return await import_tables(memory.storage, TABLES, folder, account="https://one")


def test_store_with_every_kind_of_row_comes_back(tmp_path: Path) -> None:
    world, other = unordered(), MemoryStorage()
    world.run(one_of_everything(world))
    rows = exported(world, tmp_path)
    for table, wanted in KINDS.items():
        assert wanted <= kinds(rows[table]), table
    assert all(rows[table] for table in TABLES)
    asyncio.run(restored(other, tmp_path))
    for table in TABLES:
        assert content(other.rows(table)) == content(rows[table]), table


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_restore_that_fails_again_and_again_goes_on(
    tmp_path: Path, phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "_NOTED_EVERY", 1)
    world = unordered()
    world.run(one_of_everything(world))
    rows = exported(world, tmp_path)
    writes = 0

    async def failing(call: Call, at: Phase) -> None:
        nonlocal writes
        if at is phase:
            writes += 1
            if writes % 7 == 0:
                raise StorageUnavailable

    other = MemoryStorage(gate=failing)
    counts = None
    failed = 0
    while counts is None:
        try:
            counts = asyncio.run(restored(other, tmp_path))
        except StorageUnavailable:
            failed += 1
        assert backup.is_begun(tmp_path, "https://one")
    assert failed >= 3
    assert counts == {table: len(rows[table]) for table in TABLES}
    for table in TABLES:
        assert content(other.rows(table)) == content(rows[table]), table
    with pytest.raises(BackupError, match="has not come to its end"):
        backup.is_begun(tmp_path, "https://other")
    backup.forget_restore(tmp_path)
    assert not backup.is_begun(tmp_path, "https://other")
