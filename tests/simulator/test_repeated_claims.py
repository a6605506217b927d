"""claimTask that is repeated while the first call hands its claim back: the run is given to one worker only."""

from __future__ import annotations

import asyncio

import pytest

from shared.app.services import Services
from shared.base.retrying import LOST_RACE
from shared.queue.claims.work import Claim
from shared.queue.tasks.rules import State
from shared.store.interface import StorageUnavailable
from tests.simulator import invariants
from tests.simulator.claimer import Once, is_commit
from tests.simulator.running import finish
from tests.simulator.situations import A, pending
from tests.simulator.world import WORKER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Phase, as_process
from tests.twin.reduction import explore_distinct


@pytest.mark.parametrize("later", [0.0, 0.5 * LOST_RACE.first], ids=["at once", "when the first call has noticed"])
def test_a_claim_that_a_repeat_has_given_to_its_worker_is_not_handed_back(later: float) -> None:
    """The claim's commit got no answer, so the claim is about to be given back when its worker repeats the call."""
    ends: set[tuple[bool, State]] = set()

    async def claim(services: Services) -> Claim:
        return await services.work.claim_task(await services.work.found_for_claim(A), 0, WORKER)

    def scenario(simulation: Simulation) -> None:
        gate = Once(is_commit, Phase.AFTER, StorageUnavailable)
        world = World(simulation, gate)
        world.is_ordered = False
        world.run(pending(world))
        is_committed = asyncio.Event()

        async def committed() -> None:
            world.clock.advance(1)  # two claims of a run are never made in the same millisecond
            world.is_ordered = True
            is_committed.set()

        async def repeat() -> Claim:
            await is_committed.wait()
            await world.clock.sleep(later)
            return await claim(world.process())

        gate.meanwhile, gate.is_armed = committed, True
        first = as_process("claimer", claim(world.process()))
        outcomes = simulation.outcomes(first, as_process("repeat", repeat()))
        world.is_ordered = False
        given = any(isinstance(outcome, Claim) for outcome in outcomes)
        ends.add((given, world.tasks()[A].state))
        invariants.check(world)
        finish(world, is_acknowledged=False, settles=False)

    explore_distinct(scenario, in_order=True)
    assert (True, State.PENDING) not in ends
    assert (True, State.RUNNING) in ends
