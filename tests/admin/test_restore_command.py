"""`backup restore` by its command, killed again and again on the way, between two accounts on Azurite."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from shared.app.entities import TABLES
from shared.queue.tasks.internal_messages import CLAIM_QUEUE, DEADLINE_QUEUE
from shared.store import keys
from shared.store.connection import AzureStorage
from tests.admin.test_restore import exported, one_of_everything, open_world
from tests.programs import Program
from tools.admin import backup
from tools.admin.cli import main
from tools.local.azurite import Azurite

COPIES = 150
"""Of an unresolved task, so that putting the timers takes a while."""
BULK = 2_500
"""Rows of a table, so that writing them does."""
SECONDS = 120.0
BROKEN = "ffffffffQfCffffffffffA"
"""A task whose row nobody can read."""


@pytest.fixture
def accounts() -> Iterator[tuple[Azurite, Azurite]]:
    """One that is lost, and an empty one."""
    with ExitStack() as stack:
        yield (
            stack.enter_context(Azurite.start(in_memory=True)),
            stack.enter_context(Azurite.start(in_memory=True)),
        )


def begun(account: Azurite, *words: str) -> Program:
    environment = {**os.environ, "STORAGE_CONNECTION_STRING": account.connection_string}
    return Program(main, ["backup", *words], environment)


def run(account: Azurite, *words: str) -> tuple[int | None, str, str]:
    """Exit code, what it shows, and what it says."""
    with begun(account, *words) as process:
        output, messages = process.communicate(SECONDS)
    return process.returncode, output, messages


def killed(account: Azurite, when: Callable[[], bool], *words: str) -> None:
    """The command dies in the middle, at the moment of `when`."""
    with begun(account, *words) as process:
        until = time.monotonic() + SECONDS
        while process.returncode is None and not when():
            assert time.monotonic() < until
            time.sleep(0.005)
        process.kill()
        _, messages = process.communicate(SECONDS)
    assert process.returncode == -signal.SIGKILL, f"it was not done yet: {messages}"


def length(account: Azurite, queue: str) -> int:
    async def read() -> int:
        async with AzureStorage.from_connection_string(account.connection_string) as storage:
            return await storage.storage.queues.length(queue)

    return asyncio.run(read())


def entities(folder: Path) -> dict[str, list[str]]:
    found = {}
    for table in TABLES:
        with gzip.open(folder / f"{table}.jsonl.gz", "rt", encoding="utf-8") as file:
            found[table] = sorted(file)
    return found


def a_large_store(folder: Path) -> int:
    """Files of an export with every kind of row, many unresolved tasks, one that cannot be read, and many rows in all;
    returns how many of the tasks are unresolved."""
    world = open_world()
    world.run(one_of_everything(world))
    rows = exported(world, folder)
    unresolved = [task.task_id for task in world.tasks().values() if not task.is_resolved]
    status = next(row for row in rows[keys.TASKS] if (row.partition, row.key) == (unresolved[0], keys.TASK_STATUS))
    copies = [(world.slugid(), keys.TASK_STATUS, status.values) for _ in range(COPIES)]
    entries: list[tuple[str, str, Any]] = [("hour", f"filler~{n:05d}", {"text": "あ" * 20}) for n in range(BULK)]
    broken = (BROKEN, keys.TASK_STATUS, {**status.values, "deadline": "no date"})
    for table, more in ((keys.TASKS, [*copies, broken]), (keys.EXPIRY, entries)):
        with gzip.open(folder / f"{table}.jsonl.gz", "at", encoding="utf-8") as file:
            for partition, key, values in more:
                entity = {"PartitionKey": partition, "RowKey": key, **values}
                written = {name: backup._written(value) for name, value in entity.items()}
                file.write(json.dumps(written, ensure_ascii=False) + "\n")
    return len(unresolved) + COPIES


def test_restore_that_is_killed_goes_on_and_brings_back_everything(
    accounts: tuple[Azurite, Azurite], tmp_path: Path
) -> None:
    lost, fresh = accounts
    made, folder, again = tmp_path / "made", tmp_path / "export", tmp_path / "again"
    made.mkdir()
    unresolved = a_large_store(made)
    assert run(lost, "restore", str(made), "--no-timers")[0] == 0
    assert run(lost, "export", str(folder))[0] == 0
    assert entities(folder) == entities(made)

    note = folder / "restore.json"

    def is_half_way() -> bool:
        return note.exists() and 1000 <= json.loads(note.read_text())["entities"].get(keys.EXPIRY, 0) < BULK

    killed(fresh, is_half_way, "restore", str(folder))
    code, _, messages = run(lost, "restore", str(folder), "--overwrite")
    assert code == 1
    assert "has not come to its end" in messages

    killed(fresh, lambda: length(fresh, DEADLINE_QUEUE) > 0, "restore", str(folder))
    assert 0 < length(fresh, DEADLINE_QUEUE) < unresolved
    assert note.exists()

    code, output, messages = run(fresh, "restore", str(folder))
    shown = json.loads(output)
    (unreadable,) = shown["unreadable"]
    assert unreadable.startswith(BROKEN), "and all others have their timers"
    assert code == 1, messages
    assert shown["resumed"] is True
    assert shown["revived"] == unresolved
    assert shown["entities"] == {table: len(lines) for table, lines in entities(made).items()}
    assert not note.exists()
    assert length(fresh, DEADLINE_QUEUE) >= unresolved
    assert length(fresh, CLAIM_QUEUE) >= 1

    assert run(fresh, "export", str(again))[0] == 0
    assert entities(again) == entities(folder)
    code, _, messages = run(fresh, "restore", str(folder))
    assert code == 1, "it has come to its end: the account is not empty"
    assert "--overwrite" in messages
