"""No group stays for ever, and none goes before its tasks, whatever became of the calls that have made it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.base.errors import InputError
from shared.queue.events.rules import Exchange
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.internal_messages import ResolvedBody
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.parts.twin.driver import Simulation
from tests.parts.twin.gate import Fail, as_process
from tests.parts.twin.reduction import explore_distinct
from tests.promises.simulator.deletions import soon
from tests.promises.simulator.expiring import DAY, HOUR, JOB, expire, left
from tests.promises.simulator.situations import GROUP, A, C
from tests.promises.simulator.world import World, unordered


async def to_the_end(world: World) -> None:
    """Lets everything expire."""
    await world.drain(6 * HOUR)
    for _ in range(4):
        await as_process(JOB, world.handlers.expiration.run(300))
        await world.clock.sleep(DAY)


def test_group_goes_while_a_call_on_all_of_its_tasks_begins() -> None:
    """A group goes even while a call on all of its tasks begins, whose note would be left alone in its partition."""

    def scenario(simulation: Simulation) -> None:
        world = World(simulation, is_ordered=False)

        async def let_the_group_expire() -> None:
            soon = format_date(world.clock.now() + timedelta(hours=3))
            with pytest.raises(InputError):
                await world.create(A, taskGroupId=GROUP, expires=soon, dependencies=[C])
            await world.drain(5.25 * HOUR)

        async def cancel() -> None:
            services = world.process()
            await services.groups.existing(GROUP)
            await services.group_jobs.call(GroupJob(task_group_id=GROUP, kind="cancel"))

        world.run(let_the_group_expire())
        assert world.rows(keys.GROUPS, GROUP), "it was made for a task that was refused"
        world.is_ordered = True
        simulation.outcomes(as_process("cancel", cancel()), as_process(JOB, world.process().expiration.run(300)))
        world.is_ordered = False
        world.run(to_the_end(world))
        assert world.rows(keys.GROUPS) == []

    explore_distinct(scenario, in_order=True)


@pytest.mark.parametrize("is_settled", [False, True], ids=["nothing was done", "its group was not checked"])
def test_task_stays_with_its_group_while_its_resolution_is_late(is_settled: bool) -> None:
    """A task stays with its group while its resolution is late, since the handlers need their rows."""
    fail = Fail(lambda call: call.target == keys.GROUPS and call.kind is Kind.TABLE_READ, times=0)
    world = unordered(fail)

    async def story() -> None:
        end = soon(world, 1)
        await world.create(A, taskGroupId=GROUP, expires=end, deadline=end)
        await world.clock.sleep(HOUR + 90)
        await world.handlers.due.deadline_due(A, GROUP, "-", world.clock.now())
        if is_settled:
            fail.times = 10
            with pytest.raises(StorageUnavailable):
                await world.handlers.resolution.resolved_due(ResolvedBody(task_id=A, run_id=0, put=world.clock.now()))
            fail.times = 0
        await expire(world, 5)
        await world.drain(2 * HOUR)
        assert world.topics.of(Exchange.TASK_GROUP_RESOLVED.value)
        await expire(world, 24 * 2)
        assert left(world) == set()

    world.run(story())
