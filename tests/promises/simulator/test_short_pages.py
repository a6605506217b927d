"""Storage may end a page after any row (Azure does after five seconds of work) and then says where the next one starts.
Every call and handler goes by that, and never by how many rows there are on a page."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from shared.base import bounds
from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from shared.store.interface import Page
from tests.parts.twin.gate import Gate, as_process
from tests.promises.simulator.claimer import Once, is_commit
from tests.promises.simulator.depending import complete_tasks, create_tasks, write_edges
from tests.promises.simulator.running import attempt, in_memory
from tests.promises.simulator.scenarios import SCENARIOS, Scenario
from tests.promises.simulator.situations import GROUP, A, B, C
from tests.promises.simulator.world import World, unordered


def one_row_a_page(world: World) -> World:
    """Makes each page end after its first row from now on, with the key of the next one, as Azure does."""
    query = world.memory.tables.query

    async def cut(*where: str, limit: int = 1000, **range_: Any) -> Page:
        rows = (await query(*where, limit=2, **range_)).rows
        return Page(rows=rows[:1], resume=rows[1].key if len(rows) > 1 else None)

    world.memory.tables.query = cut  # type: ignore[method-assign]
    return world


def _open(*gates: Gate) -> World:
    return one_row_a_page(in_memory(*gates))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_page_of_one_row(scenario: Scenario) -> None:
    done = attempt(scenario, open_world=_open)
    assert done.outcome is None, repr(done.outcome)
    done.finish()


def test_an_edge_that_was_written_between_two_parts_of_a_page_is_found() -> None:
    """An edge that was written between two parts of a page is found. Between them a task of another group begins to
    wait for this one, and then this one is resolved: a handler that takes both parts for one moment never finds the
    edge."""
    gate = Once(is_commit)
    world = unordered(gate)
    query = world.memory.tables.query
    is_reached, is_committed = asyncio.Event(), asyncio.Event()

    async def in_two_parts(table: str, partition: str, *, start: str, end: str, **options: Any) -> Page:
        if (partition, start, end) != (A, *keys.EDGES_TO_STATUS):
            return await query(table, partition, start=start, end=end, **options)
        world.memory.tables.query = query  # type: ignore[method-assign]
        assert not (await query(table, partition, start=start, end=keys.TASK_ROWS[0])).rows
        await world.create(B, dependencies=[A])
        is_reached.set()
        await is_committed.wait()
        page = await query(table, partition, start=keys.TASK_ROWS[0], end=end, **options)
        return replace(page, is_of_one_moment=False)

    async def report() -> None:
        gate.meanwhile, gate.is_armed = is_reached.wait, True
        await as_process("claimer", world.services.lifecycle.report(A, 0, Resolved.COMPLETED))
        is_committed.set()

    async def story() -> None:
        await world.create(A)
        await world.claim()
        world.memory.tables.query = in_two_parts  # type: ignore[method-assign]
        reporting = asyncio.ensure_future(report())
        await world.clock.sleep(0.1)  # until its message is there
        await world.drain(60)
        await reporting

    world.run(story())
    assert world.tasks()[B].state is State.PENDING


def test_states_of_members_are_found_wherever_a_page_of_them_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "ROWS_AT_A_TIME", 2)
    world = in_memory()

    async def story() -> None:
        ids = await create_tasks(world, 4)
        await complete_tasks(world, 4)
        await world.drain(30)
        one_row_a_page(world)
        resolved, _ = await world.services.stores.edges.member_states(GROUP, ids)
        assert resolved == dict.fromkeys(ids, State.COMPLETED)

    world.run(story())


def test_edges_of_tasks_are_found_wherever_a_page_of_them_ends() -> None:
    world = in_memory()
    dependents = sorted(world.slugid() for _ in range(3))

    async def story() -> None:
        for dependent in dependents:
            await write_edges(world, GROUP, dependent, [A, C])
        one_row_a_page(world)
        pages = world.services.stores.edges.out_of(GROUP, [A, C])
        found = {row.key async for page in pages for row in page}
        assert found == {keys.unblocks(required, dependent) for required in (A, C) for dependent in dependents}

    world.run(story())
