"""The present code reads, continues and deletes what a release has stored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared.queue.artifacts.rows import decode as decode_artifact
from shared.queue.tasks.codec import decode_definition, decode_task
from shared.queue.tasks.internal_messages import INTERNAL_QUEUES
from shared.queue.tasks.rules import Resolved, State, Worker
from shared.store import keys
from shared.store.interface import Row, StorageUnavailable
from tests.parts.samples.__main__ import sample
from tests.parts.samples.kept import FOLDER, account_of, load
from tests.parts.samples.story import answers, task_ids
from tests.parts.twin.driver import Simulation
from tests.promises.admin.test_restore import KINDS
from tests.promises.simulator.expiring import expire, left
from tests.promises.simulator.world import POOL, World

KEPT = sorted(FOLDER.glob("storage-*.json.gz"))
DAY = 24 * 3600.0


def _goes_on(kept: dict[str, Any]) -> None:
    """Checks that the present code answers the same, finishes what was begun, and deletes all of it."""
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


@pytest.mark.parametrize("read", [decode_task, decode_definition, decode_artifact])
def test_what_later_code_has_written_is_left_to_it(read: Callable[[Row], object]) -> None:
    row = Row(partition="p", key="k", values={"schema": 2}, etag="", timestamp=datetime.now(UTC))
    with pytest.raises(StorageUnavailable, match="schema 2, which this version cannot read"):
        read(row)


def test_a_sample_has_every_kind_of_row_and_message() -> None:
    now: Any = sample()
    for table, wanted in KINDS.items():
        found = {row["key"].split("~")[0] for row in now["tables"][table]}
        assert wanted - found <= {"task"}, "but for the further rows of a large definition"
    assert {queue for queue, messages in now["queues"].items() if messages} >= {"claim", "deadline", "events"}
