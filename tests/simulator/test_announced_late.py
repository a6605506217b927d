"""A call dies, a worker claims what it has made pending, and only then the client repeats the call.

The answer to the repeat acknowledges the transition, so that by then all of it is announced (design 2.4, 2.5), also
what is over already: a run that became pending, and runs by now.
"""

from __future__ import annotations

import pytest

from shared.queue.tasks.rules import Resolved
from tests.simulator import invariants
from tests.simulator.running import READS, attempt, requests
from tests.simulator.scenarios import SCENARIOS, Scenario
from tests.simulator.situations import Step
from tests.simulator.world import World
from tests.twin.gate import Kill, Phase


async def _claim(world: World) -> None:
    await world.claim(32, world.process())


async def _claim_and_complete(world: World) -> None:
    services = world.process()
    for claim in await world.claim(32, services):
        await services.lifecycle.report(claim.task.task_id, claim.run_id, Resolved.COMPLETED)


@pytest.mark.parametrize("company", [_claim, pytest.param(_claim_and_complete, marks=pytest.mark.large)])
@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.is_idempotent], ids=lambda each: each.name)
def test_what_a_repeat_acknowledges_is_announced_although_a_worker_was_faster(
    scenario: Scenario, company: Step
) -> None:
    for number, call in enumerate(requests(scenario), 1):
        if call.kind in READS:
            continue  # the same as a death after what came before it
        world = attempt(scenario, Kill(number=number, phase=Phase.AFTER, process="victim")).world
        world.run(company(world))
        world.services = world.process()
        (outcome,) = world.simulation.outcomes(scenario.act(world))
        world.run(world.drain(60))
        # Another rerun of a task that is completed by now is no repeat.
        if outcome is None and not (scenario.name.startswith("rerun") and company is _claim_and_complete):
            invariants.check_announced(world)
