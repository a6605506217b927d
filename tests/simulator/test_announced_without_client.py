"""A call has resolved a run and could not announce it, and nobody repeats the call.

The resolution is announced all the same, by the handler that carries it to everybody who waits for it (design 2.5).
That a call died instead, at any of its requests, is in test_crashes.py.
"""

from __future__ import annotations

import pytest

from shared.queue.tasks.internal_messages import EVENTS_QUEUE, RESOLVED_QUEUE
from shared.queue.tasks.rules import Resolved
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.simulator import invariants
from tests.simulator.situations import A, running
from tests.simulator.world import World
from tests.twin.gate import Fail


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
    invariants.check_resolutions_announced(world)
