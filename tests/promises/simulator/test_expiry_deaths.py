"""Whatever the process of the expiry job dies of is tried less and less often, and everything else is deleted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.queue.expiry.job import STUCK_AFTER
from shared.store import keys
from shared.store.expiring import LAST_RETRY, ExpiryStore
from shared.store.interface import StorageUnavailable
from shared.telemetry.instruments import EXPIRATIONS_FAILED
from tests.parts.twin.gate import Call, Killed, Phase, as_process, process_name
from tests.promises.simulator.expiring import HOUR, JOB, everything, left, scheduled
from tests.promises.simulator.situations import GROUP, A, B, C
from tests.promises.simulator.test_expiry_failures import UNDELETABLE, Chosen, others, writes
from tests.promises.simulator.world import World, unordered


class Deadly:
    """A gate that kills the process of the job at chosen requests, with all that it does side by side."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen = chosen
        self.is_on = True
        self.is_dead = False
        self.deaths = 0

    async def __call__(self, call: Call, phase: Phase) -> None:
        if process_name() != JOB or phase is not Phase.BEFORE:
            return
        if self.is_on and not self.is_dead and self._chosen(call):
            self.is_dead = True
            self.deaths += 1
        if self.is_dead:
            raise Killed


def expire(world: World, gate: Deadly, hours: float) -> None:
    """Runs the job six times an hour, as the timer starts it, each time in the process that is there."""
    for _ in range(int(hours * 6)):
        gate.is_dead = False
        outcomes = world.simulation.outcomes(as_process(JOB, world.handlers.expiration.run(300)))
        assert all(isinstance(outcome, int | Killed | StorageUnavailable) for outcome in outcomes), outcomes
        world.run(world.clock.sleep(600))


@pytest.mark.parametrize("what", ["task", "group", "worker", "upload"])
def test_process_that_dies_of_one_thing_deletes_everything_else(what: str) -> None:
    chosen, may_stay = UNDELETABLE[what]
    gate = Deadly(chosen)
    world = unordered(gate)
    world.run(everything(world))
    world.run(others(world))
    world.run(world.drain(4 * HOUR))
    expire(world, gate, 24 * 6)
    assert gate.deaths >= STUCK_AFTER, "nothing was deadly"
    assert gate.deaths <= 24, "tried without a back-off"  # an upload has two rows: its own, and its task
    assert left(world) <= may_stay
    gate.is_on = False
    expire(world, gate, LAST_RETRY.total_seconds() / HOUR + 4)
    assert left(world) == set()
    assert scheduled(world) == set()


def test_what_was_tried_beside_it_is_tried_apart_from_it() -> None:
    """If the process dies of one of many items that are deleted at once, the next run tries them apart."""
    gate = Deadly(writes(keys.TASKS, keys.TASK_STATUS, A))
    world = unordered(gate)

    async def story() -> None:
        expires = format_date(world.clock.now() + timedelta(hours=4))
        for task_id in (A, B, C):
            await world.create(task_id, taskGroupId=GROUP, expires=expires)
        await world.drain(8 * HOUR)

    world.run(story())
    expire(world, gate, 12)
    assert set(world.tasks()) == {A}
    assert gate.deaths == 5, "of their group with others, of their group alone, of the three, twice of one"
    (again,) = [row for row in world.rows(keys.EXPIRY) if row.key.startswith("task~")]
    assert (again.values["failures"], again.values["deaths"]) == (3, 3)
    failures = world.handlers.runtime.meter.values_of(EXPIRATIONS_FAILED)
    assert failures[("task", "no")] == 5, "A three times, the other two once"


def test_run_that_has_ended_leaves_nothing_to_be_counted_as_a_failure() -> None:
    gate = Deadly(lambda call: False)
    world = unordered(gate)
    world.run(everything(world))
    world.run(world.drain(8 * HOUR))
    expire(world, gate, 1)
    (position,) = world.run(ExpiryStore(world.account.connect(), world.clock.now).position())
    assert (position.bucket, position.first, position.last) == ("", "", "")
