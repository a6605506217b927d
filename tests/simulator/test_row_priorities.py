"""The priority in the index row of a pending run follows the status row, whatever became of the calls that change it.

The reconciler looks for a run's message in the band that the row names: a row that names another one is taken for a
loss at every check, and the message is put at the end of its queue again and again, behind all that came meanwhile.
"""

from __future__ import annotations

import pytest

from shared.base.priority import PRIORITIES, Priority
from shared.store import keys
from tests.simulator.situations import A
from tests.simulator.world import POOL, World
from tests.twin.driver import Simulation
from tests.twin.gate import Kill, Phase
from tests.twin.reduction import explore_distinct

INTERVAL = 300.0
"""Seconds between two runs of the reconciler."""


async def change(world: World, priority: Priority) -> None:
    lifecycle = world.process().lifecycle
    await lifecycle.change_priority(await lifecycle.existing(A), priority)


def in_row(world: World) -> str:
    (row,) = [row for row in world.rows(keys.POOLS, keys.pool(POOL)) if row.key.startswith("pending~")]
    return str(row.values["priority"])


async def forget_what_does_not_count(world: World) -> None:
    """Workers have found the message of a change that died, and removed it."""
    messages = world.services.stores.messages
    for band in PRIORITIES:
        for message in await messages.poll(POOL, band, count=32, hidden_for=1):
            if message.content.hint_id != world.tasks()[A].hint_id:
                await messages.remove(message.handle)


async def hints(world: World) -> list[str]:
    """The hintId after each of some checks by the reconciler."""
    found = []
    for _ in range(12):
        await world.clock.sleep(INTERVAL)
        await world.process().reconciler.check_all()
        found.append(world.tasks()[A].hint_id)
    return found


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_a_change_that_dies_costs_the_run_its_place_once_at_the_most(phase: Phase) -> None:
    unharmed = World(None, count := Kill(process="victim"))
    unharmed.run(unharmed.create(A))
    unharmed.run(unharmed.victim(change(unharmed, "high")))
    assert count.calls, "the call makes requests"
    for number in range(1, len(count.calls) + 1):
        world = World(None, Kill(number=number, phase=phase, process="victim"))
        world.is_ordered = False
        world.run(world.create(A))
        world.simulation.outcomes(world.victim(change(world, "high")))
        world.run(forget_what_does_not_count(world))
        (found,) = world.run(hints(world))
        assert len(set(found)) == 1, (number, "after the first check nothing is put again")
        assert in_row(world) == world.tasks()[A].priority, number


def test_changes_that_meet_leave_the_row_as_the_status_row_says_after_a_check() -> None:
    def scenario(simulation: Simulation) -> None:
        world = World(simulation)
        world.is_ordered = False
        world.run(world.create(A))
        world.is_ordered = True
        simulation.outcomes(change(world, "high"), change(world, "highest"))
        world.is_ordered = False
        (found,) = world.run(hints(world))
        assert in_row(world) == world.tasks()[A].priority
        assert len(set(found)) == 1, "after the first check nothing is put again"

    explore_distinct(scenario, in_order=True)
