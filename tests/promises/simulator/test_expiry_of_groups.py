"""No group stays for ever, whatever became of the calls that have made or raised it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.base.errors import InputError
from shared.base.protocol import EXPIRY_GRACE_PERIOD, LATE_TIMERS
from shared.queue.events.rules import Exchange
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.internal_messages import ResolvedBody
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.parts.twin.driver import Simulation
from tests.parts.twin.gate import Fail, Gate, Kill, Killed, Phase, as_process
from tests.parts.twin.reduction import explore_distinct
from tests.promises.simulator.deletions import soon
from tests.promises.simulator.expiring import DAY, HOUR, JOB, expire, left
from tests.promises.simulator.situations import GROUP, OTHER_GROUP, A, C
from tests.promises.simulator.world import World

MOST = 40


def open_world(*gates: Gate) -> World:
    world = World(Simulation.scripted([]), *gates)
    world.is_ordered = False
    return world


async def to_the_end(world: World) -> None:
    """Lets everything expire."""
    await world.drain(6 * HOUR)
    for _ in range(4):
        await as_process(JOB, world.handlers.expiration.run(300))
        await world.clock.sleep(DAY)


async def a_group_that_ends_early(world: World) -> None:
    """Creates GROUP with a task that expires in four hours."""
    await world.create(C, taskGroupId=GROUP, expires=format_date(world.clock.now() + timedelta(hours=4)))


@pytest.mark.parametrize("is_repeated", [True, False], ids=["repeated", "not repeated"])
@pytest.mark.parametrize("is_raised", [True, False], ids=["raised", "made"])
@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_group_goes_after_a_call_that_died(phase: Phase, is_raised: bool, is_repeated: bool) -> None:
    for number in range(1, MOST):
        kill = Kill(number=number, phase=phase, process="victim")
        world = open_world(kill)
        if is_raised:
            world.run(a_group_that_ends_early(world))
        definition = world.definition(A, taskGroupId=GROUP)
        (outcome,) = world.simulation.outcomes(world.victim(world.services.create_task(definition)))
        if not isinstance(outcome, Killed):
            break
        if is_repeated:
            world.run(world.process().create_task(definition))
        world.run(to_the_end(world))
        assert world.rows(keys.GROUPS) == [], f"killed {phase.value} {kill.calls[number - 1]}"
        assert world.rows(keys.DIRECTORY, keys.GROUP) == [], f"killed {phase.value} {kill.calls[number - 1]}"
        assert world.tasks() == {}
    assert 5 < number < MOST - 1


def test_group_goes_while_a_call_on_all_of_its_tasks_begins() -> None:
    """A group goes even while a call on all of its tasks begins, whose note would be left alone in its partition."""

    def scenario(simulation: Simulation) -> None:
        world = World(simulation)
        world.is_ordered = False

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
    world = open_world(fail)

    async def story() -> None:
        end = soon(world, 1)
        await world.create(A, taskGroupId=GROUP, expires=end, deadline=end)
        await world.clock.sleep(HOUR + 90)
        await world.handlers.timers.deadline_due(A, GROUP, "-", world.clock.now())
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


@pytest.mark.parametrize(("seconds", "left"), [(-5, {A}), (5, set())])
def test_task_whose_resolution_is_not_handled_stays_for_six_hours(seconds: float, left: set[str]) -> None:
    """A task whose resolution is not handled stays for six hours, after which its messages must be lost."""
    world = open_world()

    async def story() -> None:
        end = soon(world, 1)
        await world.create(A, taskGroupId=GROUP, expires=end, deadline=end)
        await world.services.lifecycle.cancel(await world.services.lifecycle.existing(A))
        given_up = world.tasks()[A].expires + EXPIRY_GRACE_PERIOD + LATE_TIMERS
        await world.clock.sleep((given_up - world.clock.now()).total_seconds() + seconds)
        await as_process(JOB, world.handlers.expiration.run(300))

    world.run(story())
    assert world.tasks().keys() == left


def test_row_that_leads_to_a_task_of_another_group_deletes_nothing() -> None:
    """A row that leads to a task of another group, as of an earlier task of this id, deletes nothing: only its own
    group knows what waits for the task."""
    world = open_world()

    async def story() -> None:
        end = soon(world, 1)
        await world.create(A, taskGroupId=OTHER_GROUP, expires=end, deadline=end)
        await world.services.lifecycle.cancel(await world.services.lifecycle.existing(A))
        await world.services.expiration._expiry.tasks(GROUP, [], [A])
        await expire(world, 4)

    world.run(story())
    assert A in world.tasks()
    assert not any(row.key == keys.expiring("task", A, GROUP) for row in world.rows(keys.EXPIRY))
