"""What every release has stored is read, gone on with and deleted by the code of now."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from shared.base.errors import ServiceError
from shared.queue.tasks.internal_messages import INTERNAL_QUEUES
from shared.queue.tasks.rules import Resolved, State, Worker
from shared.store import keys
from tests.admin.test_restore import KINDS
from tests.samples.__main__ import sample
from tests.samples.kept import FOLDER, account_of, load, save
from tests.samples.story import answers, task_ids
from tests.simulator.expiring import expire, left
from tests.simulator.world import POOL, World
from tests.twin.driver import Simulation
from tools.local.release import version
from tools.local.state import ROOT

KEPT = sorted(FOLDER.glob("storage-*.json.gz"))
DAY = 24 * 3600.0


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    """What the code of now would keep."""
    return sample()


def _goes_on(kept: dict[str, Any]) -> None:
    """The code of now answers the same, finishes what was begun, and deletes all of it."""
    # Its history of commits is not kept, so what judges it sees no request.
    world = World(Simulation.scripted([]), open_account=lambda clock, gate: account_of(kept, clock))
    ids = task_ids(world.rows(keys.TASKS))
    assert len(left(world)) > len(ids) > 10

    async def story() -> None:
        assert await answers(world.process(), ids) == kept["answers"]
        worker = Worker(worker_group="group", worker_id="after")
        for _ in range(len(ids)):
            claims = await world.services.work.claim_work(POOL, worker, 4, 0.5)
            for claim in claims:
                await world.services.lifecycle.report(claim.task.task_id, claim.run_id, Resolved.COMPLETED)
            await world.drain(30)
        await world.drain(6 * DAY)
        assert all(task.is_resolved for task in world.tasks().values())
        completed = [task for task in world.tasks().values() if task.state is State.COMPLETED]
        assert len(completed) > len(ids) / 3, "what waited was handed out, and what waited for it followed"
        assert {queue: world.messages(queue) for queue in INTERNAL_QUEUES if world.messages(queue)} == {}
        await expire(world, 14 * 24)
        assert left(world) <= {"worker", "pool"}, "all of it has expired"

    world.run(story())


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_release_is_read_gone_on_with_and_deleted(path: Path) -> None:
    _goes_on(load(path))


def _form(kept: dict[str, Any]) -> dict[str, Any]:
    """What later code has to read of a sample: columns of each kind of row, fields of messages, settings."""
    columns: dict[str, set[str]] = {}
    for table, rows in kept["tables"].items():
        for row in rows:
            # The keys of some tables are times.
            kind = "" if table in {"Audit", "Directory", "History"} else row["key"].split("~")[0]
            columns.setdefault(f"{table} {kind}", set()).update(row["values"])
    fields: dict[str, set[str]] = {}
    for queue, messages in kept["queues"].items():
        for message in messages:
            body = json.loads(base64.b64decode(message["text"]))
            fields.setdefault(queue, set()).update(body, json.loads(body.get("pointer", "{}")))
    return {"columns": columns, "fields": fields, "settings": kept["settings"]}


def _stale(kept: dict[str, Any], now: dict[str, Any], changelog: str) -> bool:
    """Whether a version that CHANGELOG.md calls released stores something else than its sample."""
    is_released = re.search(rf"^## \[{re.escape(version())}\] - \d", changelog, re.MULTILINE)
    return is_released is not None and _form(kept) != _form(now)


def test_a_release_has_kept_what_it_stores_itself(now: dict[str, Any]) -> None:
    """`python -m tests.samples --again` keeps what has changed since; after a release, raise the version instead."""
    if (path := FOLDER / f"storage-{version()}.json.gz") in KEPT:
        assert not _stale(load(path), now, (ROOT / "CHANGELOG.md").read_text())


def test_a_sample_of_before_a_change_is_stale(now: dict[str, Any]) -> None:
    released = f"## [{version()}] - 2030-01-31\n"
    assert not _stale(now, now, released)
    for change in ("settings", "queues", "tables"):
        changed = {**now, change: {} if change != "settings" else ["LOG_LEVEL"]}
        assert _stale(changed, now, released), change
        assert not _stale(changed, now, released.replace("2030-01-31", "Unreleased"))


def test_what_is_kept_now_is_read_gone_on_with_and_deleted(now: dict[str, Any], tmp_path: Path) -> None:
    """The same, for the sample that this version would keep; and the file loses nothing of it."""
    save(now, tmp_path / "sample")
    assert load(tmp_path / "sample") == json.loads(json.dumps(now))
    _goes_on(load(tmp_path / "sample"))


@pytest.mark.parametrize(
    ("table", "key", "column"),
    [("Tasks", "task.status", "runs"), ("Index", "task~", "taskId")],
)
def test_a_column_that_is_not_read_any_more_is_found(now: dict[str, Any], table: str, key: str, column: str) -> None:
    """As if the code of now called it something else."""
    changed = json.loads(json.dumps(now))
    rows = [row for row in changed["tables"][table] if row["key"].startswith(key)]
    assert any(column in row["values"] for row in rows), "adapt the mistake"
    for row in rows:
        row["values"]["formerly"] = row["values"].pop(column, "")
    with pytest.raises((AssertionError, KeyError, ServiceError)):
        _goes_on(changed)


def test_a_sample_has_every_kind_of_row_and_message(now: dict[str, Any]) -> None:
    for table, wanted in KINDS.items():
        found = {row["key"].split("~")[0] for row in now["tables"][table]}
        assert wanted - {"definition"} <= found, table
    assert {queue for queue, messages in now["queues"].items() if messages} >= {"claim", "deadline", "events"}


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_settings_of_a_release_are_known_or_their_end_is_told(path: Path) -> None:
    known = json.loads((ROOT / "local.settings.example.json").read_text())["Values"].keys()
    told = set(re.findall(r"\w+", (ROOT / "CHANGELOG.md").read_text()))
    assert [name for name in load(path)["settings"] if name not in known and name not in told] == []
