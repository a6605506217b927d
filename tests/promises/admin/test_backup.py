"""An account is lost, and another one continues from the exported files, both on Azurite."""

from __future__ import annotations

import gzip
import os
import stat
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

import pytest
from azure.data.tables import EdmType, EntityProperty
from azure.data.tables.aio import TableClient, TableServiceClient

from shared.app.assembly import assemble
from shared.app.services import Services
from shared.auth.roles.rows import TABLE as ROLES
from shared.auth.roles.rows import RoleRecord, RoleStore
from shared.base.ids import new_slugid
from shared.queue.tasks.internal_messages import CLAIM_QUEUE, DEADLINE_QUEUE
from shared.queue.tasks.rules import Resolved, State, Worker
from shared.runtime import Runtime, utc_now
from shared.store.connection import AzureStorage
from tests.parts.twin.gate import open_gate
from tests.promises.simulator.topics import Topics
from tests.promises.simulator.world import POOL, World, settings
from tests.storage_accounts import own_connection_string
from tools.admin import backup
from tools.admin.account import Records
from tools.admin.inspection import inspect_task
from tools.local.azurite import Azurite
from tools.local.entities import TABLES


@pytest.fixture
async def other_account(azurite: Azurite) -> AsyncIterator[AzureStorage]:
    """Yields the account into which the backup is restored."""
    async with AzureStorage.from_connection_string(own_connection_string(azurite)) as account:
        yield account


def _services(account: AzureStorage, runtime: Runtime | None = None) -> Services:
    return assemble(settings(), runtime or Runtime(), account.storage, Topics(open_gate))


async def _create(services: Services, **changes: Any) -> str:
    made = World().definition(new_slugid())
    now = utc_now()
    dates = {"created": now, "deadline": now + timedelta(hours=3), "expires": now + timedelta(days=2)}
    shown = {name: f"{moment:%Y-%m-%dT%H:%M:%S}.000Z" for name, moment in dates.items()}
    definition = type(made)(made.task_id, {**made.body, **shown, "taskGroupId": made.task_id, **changes})
    await services.create_task(definition)
    return made.task_id


async def test_a_deployment_goes_on_from_its_backup(
    azure_account: AzureStorage, other_account: AzureStorage, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = _services(azure_account)
    done = await _create(before)
    await before.work.claim_work(POOL, Worker(worker_group="g", worker_id="w"), 1, 1.0)
    await before.lifecycle.report(done, 0, Resolved.COMPLETED)
    running = await _create(before, priority="highest", payload={"text": "ä" * 40_000})
    await before.work.claim_work(POOL, Worker(worker_group="g", worker_id="w"), 1, 1.0)
    pending = await _create(before)
    blocked = await _create(before, dependencies=[pending])
    exported = await backup.export_tables(azure_account, TABLES, tmp_path)
    again = tmp_path_factory.mktemp("again")

    reported: list[str] = []
    assert await backup.import_tables(other_account.storage, TABLES, tmp_path, reported.append) == exported
    assert reported[-1].endswith(" entities")
    assert await backup.export_tables(other_account, TABLES, again) == exported
    for table in TABLES:
        assert _entities(tmp_path / f"{table}.jsonl.gz") == _entities(again / f"{table}.jsonl.gz")

    found = Records.of(other_account.storage, Runtime())
    ids = [task_id async for task_id in backup.all_tasks(other_account)]
    assert sorted(ids) == sorted([done, running, pending, blocked])
    assert [task_id for task_id in ids if await backup.revive(found, task_id)] == [
        task_id for task_id in ids if task_id != done
    ]
    assert await other_account.storage.queues.length(DEADLINE_QUEUE) == 3
    assert await other_account.storage.queues.length(CLAIM_QUEUE) == 1

    # The pending task's message is gone; its row is there, and the reconciler makes a new one.
    later = Runtime(now=lambda: utc_now() + timedelta(minutes=10))
    after = _services(other_account, later)
    assert await after.reconciler.check_all() == 1
    (claim,) = await after.work.claim_work(POOL, Worker(worker_group="g", worker_id="w"), 4, 1.0)
    assert claim.task.task_id == pending
    await after.lifecycle.report(running, 0, Resolved.COMPLETED)
    for task_id, state in ((done, State.COMPLETED), (running, State.COMPLETED), (blocked, State.UNSCHEDULED)):
        loaded = await found.tasks.existing(task_id)
        assert loaded.task.state is state
        assert [finding.text for finding in await inspect_task(found, task_id)] == []


def _entities(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return sorted(file)


async def test_every_type_and_size_comes_back(azure_account: AzureStorage, tmp_path: Path) -> None:
    table = "Tasks"
    async with TableServiceClient(azure_account.endpoints.table, credential=azure_account.credential) as service:
        client = await service.create_table_if_not_exists(table)
        entities: list[dict[str, Any]] = [
            {
                "PartitionKey": f"p{number // 130}",
                "RowKey": f"{number:04d}",
                "text": 'ü" \\ \n',
                "long": EntityProperty(2**40, EdmType.INT64),
                "int": 7,
                "yes": True,
                "bytes": bytes(range(256)) * 200,
            }
            for number in range(260)
        ]
        for entity in entities:
            await client.create_entity(entity)
        assert await backup.export_tables(azure_account, ["Tasks"], tmp_path) == {"Tasks": 260}
        await client.delete_entity("p1", "0131")
        await client.upsert_entity({"PartitionKey": "p0", "RowKey": "0001", "text": "changed"})
        assert await backup.import_tables(azure_account.storage, ["Tasks"], tmp_path) == {"Tasks": 260}
        for entity in (entities[1], entities[131]):
            assert dict(await client.get_entity(entity["PartitionKey"], entity["RowKey"])) == entity
        await client.create_entity({"PartitionKey": "q", "RowKey": "q", "when": datetime(2026, 1, 1)})
        (tmp_path / "Tasks.jsonl.gz").unlink()
        with pytest.raises(backup.BackupError, match="are not ours"):
            await backup.export_tables(azure_account, ["Tasks"], tmp_path)


async def test_only_the_owner_can_read_an_export(azure_account: AzureStorage, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        await backup.export_tables(azure_account, TABLES, tmp_path / "new" / "export")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new" / "export").stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "new" / "export").iterdir()} == {0o600}
    assert await backup.import_tables(azure_account.storage, TABLES, tmp_path / "new" / "export") == dict.fromkeys(
        TABLES, 0
    )


@pytest.mark.parametrize("changes", [1, 100])
async def test_roles_are_exported_as_they_were_at_one_time(
    azure_account: AzureStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    store = RoleStore(azure_account.storage.tables)
    now = utc_now()

    async def put(role_id: str, *scopes: str) -> None:
        record = RoleRecord(role_id=role_id, scopes=scopes, description="", created=now, last_modified=now)
        await store.write_role_row(await store.load(), record)

    await put("a", "assume:z")
    await put("z", "little")
    export, left = backup._export, changes

    async def beside_changes(client: TableClient, file: IO[str], counted: Callable[[int], None]) -> int:
        """Changes roles between the reads of two rows: `a` was read before, `z` is read after."""
        nonlocal left
        count = await export(client, file, counted)
        if left:
            left -= 1
            await put("a", "nothing")
            await put("z", f"much-{left}")
        return count

    monkeypatch.setattr(backup, "_export", beside_changes)
    if changes > 1:
        with pytest.raises(backup.BackupError, match="all the time"):
            await backup.export_tables(azure_account, [ROLES], tmp_path)
        return
    await backup.export_tables(azure_account, [ROLES], tmp_path)
    text = "".join(_entities(tmp_path / f"{ROLES}.jsonl.gz"))
    assert "much-0" in text
    assert "assume:z" not in text
