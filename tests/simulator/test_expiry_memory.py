"""The expiry job needs as much memory for a million rows as for a thousand, and no more time than it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.base.bounds import BACKGROUND
from shared.base.dates import format_date
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.interface import MAX_OPERATIONS, MAX_PAGE, Page, Row, Upsert, Value
from tests.simulator.expiring import HOUR, JOB
from tests.simulator.indexing import entry
from tests.simulator.situations import GROUP, A
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase, as_process, process_name

ROWS = 3_500
MOST = 3 * MAX_PAGE
"""Rows that a run may hold of what it deletes: a page and the one before; of a task, the first page, too."""
TO_CONCLUDE = 12
"""Requests that a run makes after its time, at most: one that it has begun, and what it notes of it."""


class Held(Row):
    """A row as a process holds it, counted."""

    alive = most = 0

    @classmethod
    def of(cls, row: Row) -> Held:
        held = cls(
            partition=row.partition, key=row.key, values=dict(row.values), etag=row.etag, timestamp=row.timestamp
        )
        cls.alive += 1
        cls.most = max(cls.most, cls.alive)
        return held

    def __del__(self) -> None:
        Held.alive -= 1


class Slow:
    """Each request of the job takes so many seconds."""

    def __init__(self, seconds: float = 0) -> None:
        self._seconds = seconds
        self.world: World | None = None

    async def __call__(self, call: Call, phase: Phase) -> None:
        if self.world is not None and phase is Phase.BEFORE and process_name() == JOB:
            self.world.clock.advance(self._seconds)


def open_world(gate: Slow) -> World:
    gate.world = world = World(Simulation.scripted([]), gate)
    world.is_ordered = False
    return world


async def bulk(world: World, table: str, partition: str, names: Sequence[str], values: dict[str, Value]) -> None:
    tables = world.account.connect().tables
    for start in range(0, len(names), 100):
        await tables.transact(table, partition, [Upsert(name, values) for name in names[start : start + 100]])


async def a_task(world: World) -> None:
    """A, resolved, which expires in four hours as its group does."""
    await world.create(A, taskGroupId=GROUP, expires=format_date(world.clock.now() + timedelta(hours=4)))
    (claim,) = await world.claim()
    await world.services.lifecycle.report(claim.task.task_id, 0, Resolved.COMPLETED)
    await world.drain(60)


async def edges_of_a_group(world: World) -> None:
    """Of tasks that are gone."""
    await a_task(world)
    await bulk(world, keys.GROUPS, GROUP, [keys.unblocks(f"r{n:021d}", A) for n in range(ROWS)], {})


async def edges_of_a_task(world: World) -> None:
    """To its dependents, while its group stays."""
    await a_task(world)
    await world.create(taskGroupId=GROUP, expires=format_date(world.clock.now() + timedelta(days=9)))
    await bulk(world, keys.GROUPS, GROUP, [keys.unblocks(A, f"d{n:021d}") for n in range(ROWS)], {})


async def rows_of_a_task(world: World) -> None:
    """Artifacts, without content."""
    await a_task(world)
    values: dict[str, Value] = {"name": "public/x", "upload": "none", "version": "v"}
    await bulk(world, keys.TASKS, A, [keys.artifact(0, f"public/{n:05d}") for n in range(ROWS)], values)


async def edges_of_a_task_that_was_never_created(world: World) -> None:
    """Left by calls that were refused, or died; the row of the Expiry table that a call has left, too."""
    await a_task(world)
    gone = world.slugid()
    bucket = keys.hour(world.clock.now() + timedelta(hours=4))
    await bulk(world, keys.EXPIRY, bucket, [keys.expiring("task", gone, GROUP)], {"taskGroupId": GROUP})
    await bulk(world, keys.TASKS, gone, [keys.dependent(f"d{n:021d}") for n in range(ROWS)], {})


async def entries_of_a_namespace(world: World) -> None:
    """All of them over tomorrow."""
    await world.services.index.insert(entry(world, "big.first", days=0.1))
    over = format_date(world.clock.now() + timedelta(hours=3))
    values: dict[str, Value] = {"path": "big.x", "taskId": A, "rank": 0, "data": "{}", "expires": over, "at": over}
    partition = keys.index_partition("big")
    await bulk(world, keys.INDEX, partition, [keys.index_task(f"n{n:06d}") for n in range(ROWS)], values)


async def members_of_a_group(world: World) -> None:
    """Whose tasks are gone, every other one never settled."""
    await a_task(world)
    final: dict[str, Value] = {"final0000": json.dumps({"expires": format_date(world.clock.now())})}
    for number, values in enumerate((final, {})):
        await bulk(world, keys.GROUPS, GROUP, [keys.member(f"{n:021d}{number}") for n in range(ROWS // 2)], values)


LARGE = [
    members_of_a_group,
    edges_of_a_group,
    edges_of_a_task,
    rows_of_a_task,
    edges_of_a_task_that_was_never_created,
    entries_of_a_namespace,
]
Prepare = Callable[[World], Coroutine[Any, Any, None]]


def count(world: World) -> int:
    """The rows that were made in bulk, and some others."""
    return sum(len(world.rows(table)) for table in (keys.TASKS, keys.GROUPS, keys.INDEX))


@pytest.mark.parametrize("prepare", LARGE)
def test_memory_of_a_run_is_bounded(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    world = open_world(Slow())
    world.run(prepare(world))
    assert count(world) > ROWS
    world.run(world.drain(10 * HOUR))
    query = world.memory.tables.query

    async def counted(*place: str, **options: Any) -> Page:
        page = await query(*place, **options)
        return replace(page, rows=[Held.of(row) for row in page.rows])

    monkeypatch.setattr(world.memory.tables, "query", counted)
    Held.alive = Held.most = 0
    for _ in range(8):
        world.run(as_process(JOB, world.handlers.expiration.run(300)))
        world.run(world.clock.sleep(8 * HOUR))
    assert MAX_PAGE <= Held.most <= MOST + 50  # and some of what is due
    assert count(world) < 50


@pytest.mark.parametrize("prepare", LARGE)
def test_run_ends_in_time_and_others_have_their_turn(prepare: Prepare) -> None:
    """Each request takes a second, and a run has twenty: it ends then, and later runs go on where it has ended. Members
    that are begun come to their end, a hundred at a time: side by side, though one after the other here."""
    request = 0.05 if prepare is members_of_a_group else 1  # each of these costs two
    most = (2 * MAX_OPERATIONS + BACKGROUND) * request if prepare is members_of_a_group else TO_CONCLUDE
    gate = Slow(request)
    world = open_world(gate)
    world.run(prepare(world))
    world.run(world.drain(10 * HOUR))
    runs = 0
    while count(world) >= 50:
        began = world.clock.elapsed
        world.run(as_process(JOB, world.handlers.expiration.run(20)))
        assert world.clock.elapsed - began <= 20 + most
        world.run(world.clock.sleep(HOUR))
        runs += 1
        assert runs <= 48
    assert runs >= 3
