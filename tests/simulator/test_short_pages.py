"""Storage may end a page after any row (Azure does after five seconds of work): then it says where the next one starts.

Every call and handler goes by that, and never by how many rows there are on a page.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shared.base.dates import format_date
from shared.store.interface import Page
from tests.simulator.running import attempt, in_memory
from tests.simulator.scenarios import SCENARIOS, Scenario
from tests.simulator.situations import GROUP, A
from tests.simulator.world import World
from tests.twin.gate import Gate

HOUR = 3600.0


def one_row_a_page(world: World) -> World:
    """From now on each page ends after its first row."""
    query = world.memory.tables.query

    async def cut(*where: str, limit: int = 1000, **range_: Any) -> Page:
        return await query(*where, limit=1, **range_)

    world.memory.tables.query = cut  # type: ignore[method-assign]
    return world


def _open(*gates: Gate) -> World:
    return one_row_a_page(in_memory(*gates))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_page_of_one_row(scenario: Scenario) -> None:
    done = attempt(scenario, open_world=_open)
    assert done.outcome is None, repr(done.outcome)
    done.finish()


def test_a_group_with_a_task_that_stays_is_not_deleted() -> None:
    """Its header shows whether it is resolved: without it nobody would be told."""
    world = World()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP, expires=format_date(world.clock.now() + timedelta(hours=3)))
        await world.clock.sleep(7 * HOUR)  # in which no handler runs
        one_row_a_page(world)
        await world.handlers.expiration.run(300)
        assert A in world.tasks(), "it is not resolved, as its handler may only be late"
        await world.drain(60)

    world.run(story())
    assert len(world.topics.of("task-group-resolved")) == 1
