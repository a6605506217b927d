"""A call dies after it has resolved a run, and its client dies with it: nobody repeats the call.

The resolution is announced all the same, by the handler that carries it to everybody who waits for it (design 2.5).
"""

from __future__ import annotations

import pytest

from shared.queue.events.rendering import render
from shared.queue.events.rules import TaskEvent, resolved
from shared.queue.tasks.internal_messages import EVENTS_QUEUE, RESOLVED_QUEUE
from shared.queue.tasks.rules import Resolved
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.simulator.running import attempt, requests
from tests.simulator.scenarios import SCENARIOS, Scenario
from tests.simulator.situations import A, running
from tests.simulator.world import World
from tests.twin.gate import Fail, Kill, Phase

RESOLVING = [each for each in SCENARIOS if each.name.startswith(("report", "cancel"))]


@pytest.mark.parametrize("phase", [Phase.BEFORE, Phase.AFTER], ids=["before", "after"])
@pytest.mark.parametrize("scenario", RESOLVING, ids=lambda each: each.name)
def test_every_resolution_is_announced_though_nobody_repeats_the_call(scenario: Scenario, phase: Phase) -> None:
    for number in range(1, len(requests(scenario)) + 1):
        world = attempt(scenario, Kill(number=number, phase=phase, process="victim")).world
        world.run(world.drain(60))
        missing = unannounced(world)
        assert not missing, f"request {number}: {missing}"


def test_a_resolution_that_could_not_be_announced_is_announced_by_the_handler_in_the_same_process() -> None:
    """Only what was sent, or has a pointer, counts as announced there."""
    world = World(None, Fail(lambda call: call.kind is Kind.QUEUE_PUT and call.target == EVENTS_QUEUE))
    world.is_ordered = False

    async def story() -> None:
        await running(world)
        world.topics.is_down = True
        with pytest.raises(StorageUnavailable):
            await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
        world.topics.is_down = False
        ((body, _),) = world.messages(RESOLVED_QUEUE)
        await world.resolved_due_here(body)

    world.run(story())
    assert unannounced(world) == []


def unannounced(world: World) -> list[tuple[str, int]]:
    """Resolved tasks whose last run's resolution no message tells of."""
    sent = world.topics.ids()
    return [
        (task.task_id, task.last_run_id)
        for task in world.tasks().values()
        if task.is_resolved and message_id(world, resolved(task, task.last_run_id)) not in sent
    ]


def message_id(world: World, event: TaskEvent) -> str:
    """The id by which repeats of an event are recognised."""
    task = world.tasks()[event.task_id]
    return render(event, world.definition(event.task_id), task, 256_000).message_id
