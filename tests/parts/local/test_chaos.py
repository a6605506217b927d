"""./dev chaos: the graphs that it makes, what its audit finds, and (large) a whole run."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from azure.data.tables.aio import TableServiceClient
from azure.storage.blob.aio import BlobServiceClient
from azure.storage.queue.aio import QueueServiceClient

from shared.store import keys
from tests.parts.local.stacks import free_ports
from tools.local import state
from tools.local.azurite import Azurite
from tools.local.chaos.audit import WATCHED_TABLES, leftovers
from tools.local.chaos.graphs import Planned

TASK = Planned("task", "group", ("required",))
REQUIRED = Planned("required", "group", ())


@pytest.fixture
def port() -> Iterator[int]:
    port = free_ports(2).api
    yield port
    shutil.rmtree(state.folder(port), ignore_errors=True)


async def test_audit_names_orphans_and_missing_rows() -> None:
    with Azurite.start(in_memory=True) as azurite:
        connection = azurite.connection_string
        async with TableServiceClient.from_connection_string(connection) as tables:
            for table in WATCHED_TABLES:
                await tables.create_table(table)
            rows = [
                *(
                    (keys.TASKS, task, key)
                    for task in ("task", "required")
                    for key in ("task.definition", "task.status")
                ),
                (keys.TASKS, "required", "dependent~task"),
                (keys.TASKS, "task", "dependent~required"),
                (keys.TASKS, "task", "task.open"),
                *((keys.GROUPS, "group", key) for key in ("group", "member~task", "due", "number~00000000")),
                (keys.GROUPS, "other", "due"),
                (keys.GROUPS, "group", "active~task~0000"),
                (keys.GROUPS, "group", "unblocks~required~task"),
                (keys.GROUPS, "group", "unblocks~task~required"),
                (keys.GROUPS, "other", "unblocks~required~task"),
                (keys.POOLS, "chaos~linux", "worker~g~w"),
                (keys.POOLS, "chaos~linux", "returned"),
                (keys.POOLS, "chaos~linux", "pending~2020~task~0000"),
            ]
            for table, partition, key in rows:
                await tables.get_table_client(table).create_entity({"PartitionKey": partition, "RowKey": key})
        async with QueueServiceClient.from_connection_string(connection) as queues:
            await queues.create_queue("claim")
            await queues.get_queue_client("claim").send_message("hidden", visibility_timeout=3600)
        async with BlobServiceClient.from_connection_string(connection) as blobs:
            container = await blobs.create_container(keys.PUBLIC)
            for name in ("task/0/a", "other/0/a"):
                await container.upload_blob(name, b"content")
        found = await leftovers(connection, [REQUIRED, TASK])
    assert sorted(found) == [
        "1 messages left in queue claim",
        "orphaned blob: public-artifacts/other/0/a",
        "orphaned row: Groups/group/active~task~0000",
        "orphaned row: Groups/group/unblocks~task~required",
        "orphaned row: Groups/other/due",
        "orphaned row: Groups/other/unblocks~required~task",
        "orphaned row: Pools/chaos~linux/pending~2020~task~0000",
        "orphaned row: Tasks/task/dependent~required",
        "orphaned row: Tasks/task/task.open",
        "row missing: Groups/group/member~required",
    ]


@pytest.mark.parametrize("groups", [[], ["--by-group"]])
@pytest.mark.large
@pytest.mark.timeout(2400)
def test_no_task_and_no_event_is_lost_under_faults(port: int, groups: list[str]) -> None:
    command = [sys.executable, "-m", "tools.local.cli", "chaos", "--port", str(port), "--tasks", "120", *groups]
    done = subprocess.run(command, cwd=state.ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"faults: .*host killed", done.stderr), done.stderr
