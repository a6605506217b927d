"""A claim whose transaction takes effect when its message has long been handled, or whose message is lost (design 4).

Then nothing knows of its index row, and the row of the pending run is missing: the run's own message leads to it all
the same, and where that is lost, too, the deadline message.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.queue.tasks.internal_messages import CLAIM_QUEUE
from shared.queue.tasks.messages import pending_queue
from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from tests.simulator import invariants
from tests.simulator.claimer import Once, a_world, is_commit
from tests.simulator.late import TOOK_EFFECT, LateRequest
from tests.simulator.running import SETTLING, TO_THE_END
from tests.simulator.situations import A
from tests.simulator.world import CLAIM_TIMEOUT, POOL, World
from tests.twin.driver import Simulation
from tests.twin.gate import Killed, Phase, as_process

OVER = CLAIM_TIMEOUT.total_seconds() + 5
PENDING = pending_queue(POOL, "lowest")


def _rows(world: World) -> list[str]:
    kinds = [row.key.partition("~")[0] for row in world.rows(keys.POOLS, keys.pool(POOL))]
    return [kind for kind in kinds if kind in ("pending", "claimed")]


def _late_transaction() -> World:
    """The transaction of a claim takes effect ten minutes after takenUntil; its client has had no answer."""
    for number in range(1, 12):
        gate = LateRequest(number)
        world = World(Simulation.scripted([]), gate)
        gate.world = world
        world.is_ordered = False
        world.run(world.create(A))
        world.simulation.outcomes(world.victim(world.claim()))
        if gate.hit is None or gate.hit.target != keys.POOLS:
            continue
        world.run(world.drain(OVER + 600))
        gate.land()
        if gate.outcome == TOOK_EFFECT:
            return world
    raise AssertionError("no transaction of the claim has come so late")


def _lost_message() -> World:
    """A claim dies before its commit, and its message is lost."""
    gate = Once(is_commit, Phase.BEFORE, Killed)
    world = a_world(gate)

    async def story() -> None:
        await world.create(A)
        gate.is_armed = True
        await as_process("claimer", world.claim())

    world.simulation.outcomes(story())
    assert world.messages(CLAIM_QUEUE)
    _lose(world, CLAIM_QUEUE)
    return world


def _lose(world: World, queue: str) -> None:
    world.memory.queues._queues[queue].clear()


@pytest.mark.parametrize("make", [_late_transaction, _lost_message], ids=["late transaction", "lost message"])
@pytest.mark.parametrize("loses_its_own", [False, True], ids=["found", "lost, too"])
def test_run_whose_rows_nobody_puts_right_is_claimed_or_ends_at_its_deadline(
    make: Callable[[], World], loses_its_own: bool
) -> None:
    world = make()
    assert (world.tasks()[A].state, _rows(world)) == (State.PENDING, ["claimed"])
    if loses_its_own:
        _lose(world, PENDING)
    else:
        world.run(world.clock.sleep(OVER))
        (claims,) = world.run(world.claim())
        assert len(claims) == 1
        world.run(world.services.lifecycle.report(A, 0, Resolved.COMPLETED))
    world.run(world.drain(SETTLING), world.drain(TO_THE_END))
    resolved = world.tasks()[A].last_run.reason_resolved
    assert resolved is (Resolved.DEADLINE_EXCEEDED if loses_its_own else Resolved.COMPLETED)
    world.run(world.drain(24 * 3600), world.clean_up())
    invariants.check_finished(world)
    assert _rows(world) == []
