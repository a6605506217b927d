"""Calls that are refused leave no row in the index of a pool, however many of them come in one millisecond."""

from __future__ import annotations

import pytest

from shared.base.errors import RequestConflict
from shared.store import keys
from tests.parts.twin.driver import Simulation
from tests.parts.twin.reduction import explore_distinct
from tests.promises.simulator.situations import GROUP, A, fixed
from tests.promises.simulator.world import World


@pytest.mark.parametrize("is_claimed", [False, True], ids=["pending", "claimed"])
def test_other_definitions_of_a_task_that_exists(is_claimed: bool) -> None:
    def scenario(simulation: Simulation) -> None:
        world = World(simulation, is_ordered=False)
        dates = {**world.definition().body}
        world.fixed = {name: dates[name] for name in ("created", "deadline", "expires")}
        world.run(world.create(A, taskGroupId=GROUP, **fixed(world)))
        if is_claimed:
            world.run(world.claim())
        world.clock.advance(1)
        others = [world.definition(A, taskGroupId=GROUP, payload={"other": True}, **fixed(world)) for _ in range(2)]
        world.is_ordered = True
        outcomes = simulation.outcomes(*(world.process().create_task(other) for other in others))
        assert all(isinstance(outcome, RequestConflict) for outcome in outcomes), outcomes
        rows = [row.key for row in world.rows(keys.POOLS) if row.key.startswith(("pending~", "claimed~"))]
        assert len(rows) == 1, rows

    explore_distinct(scenario, in_order=True)
