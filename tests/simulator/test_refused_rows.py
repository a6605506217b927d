"""Calls that are refused leave no row in the index of a pool, however many of them come in one millisecond."""

from __future__ import annotations

import pytest

from shared.base.errors import RequestConflict
from shared.store import keys
from tests.simulator.situations import GROUP, A, B, fixed
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.reduction import explore_distinct


@pytest.mark.parametrize("is_claimed", [False, True], ids=["pending", "claimed"])
def test_other_definitions_of_a_task_that_exists(is_claimed: bool) -> None:
    def scenario(simulation: Simulation) -> None:
        world = World(simulation)
        world.is_ordered = False
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


@pytest.mark.parametrize("dependencies", [[], [B]], ids=["pending", "unscheduled"])
def test_repeat_of_a_call_leaves_nothing_of_its_own(dependencies: list[str]) -> None:
    """It has put messages and rows of its own before it finds the task: they are rolled back."""
    world = World()
    world.is_ordered = False
    if dependencies:
        world.run(world.create(B, taskGroupId=GROUP))
    definition = world.definition(A, taskGroupId=GROUP, dependencies=dependencies)

    def left() -> tuple[dict[str, int], set[str]]:
        queues = {queue: len(world.memory.messages(queue)) for queue in world.memory.queues.names()}
        return queues, {row.key for table in (keys.TASKS, keys.GROUPS, keys.POOLS) for row in world.rows(table)}

    world.run(world.services.create_task(definition))
    before = left()
    world.clock.advance(1)
    for services in (world.services, world.process()):
        world.run(services.create_task(definition))
        assert left() == before
