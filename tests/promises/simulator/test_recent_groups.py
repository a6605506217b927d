"""The list of task groups: complete and without groups that never came to be, whatever became of the calls."""

from __future__ import annotations

from datetime import timedelta

from shared.app.services import Services
from shared.base.errors import RequestConflict
from shared.base.ids import new_slugid
from shared.queue.groups.recent import RecentGroup
from shared.store import keys
from tests.parts.twin.gate import Call, Kill, Phase, Resent
from tests.promises.simulator.situations import GROUP, A
from tests.promises.simulator.world import unordered


async def listed(services: Services, limit: int = 1000) -> list[RecentGroup]:
    """Returns all groups, page by page."""
    found: list[RecentGroup] = []
    start: str | None = ""
    while start is not None:
        page, start = await services.recent_groups.group_page(start=start, limit=limit)
        found.extend(page)
    return found


def test_pages_in_order_of_time() -> None:
    world = unordered()
    groups = []
    for _ in range(5):
        world.clock.advance(1)
        groups.append(new_slugid())
        world.run(world.create(None, taskGroupId=groups[-1]))
        world.run(world.create(None, taskGroupId=groups[0]))
    (found,) = world.run(listed(world.services, limit=2))
    assert [header.task_group_id for _, header, _ in found] == groups[::-1]
    assert [found[index][0].created - found[index + 1][0].created for index in range(4)] == [timedelta(seconds=1)] * 4


def test_a_group_that_never_came_to_be_is_not_listed() -> None:
    """A group is listed if and only if it has a header, and once, whichever request its call is killed at."""
    for number in range(1, 40):
        kill = Kill(number=number, phase=Phase.AFTER, process="victim")
        world = unordered(kill)
        definition = world.definition(A, taskGroupId=GROUP)
        world.simulation.outcomes(world.victim(world.services.create_task(definition)))
        headers = [row.partition for row in world.rows(keys.GROUPS) if row.key == keys.GROUP]
        (found,) = world.run(listed(world.process()))
        assert [header.task_group_id for _, header, _ in found] == headers
        world.run(world.process().create_task(definition))
        (found,) = world.run(listed(world.process()))
        assert [header.task_group_id for _, header, _ in found] == [GROUP]
        if kill.calls[-1:] and len(kill.calls) < number:
            break
    assert number < 39


def test_a_group_is_listed_though_its_first_task_was_refused() -> None:
    """A group is listed once though its first task, which exists in another group, was refused."""
    world = unordered()
    world.run(world.create(A))
    definition = world.definition(A, taskGroupId=GROUP)
    for _ in range(2):
        (outcome,) = world.simulation.outcomes(world.process().create_task(definition))
        assert isinstance(outcome, RequestConflict)
    (found,) = world.run(listed(world.services))
    assert {header.task_group_id for _, header, _ in found} == {A, GROUP}
    assert len(world.rows(keys.DIRECTORY, keys.GROUP)) == 2
    assert [row.key for row in world.rows(keys.GROUPS, GROUP)] == [
        keys.DUE,
        keys.GROUP,
        keys.number(0),
        keys.scheduler("-", 0),
    ]


def test_a_group_is_listed_though_each_of_its_writes_is_sent_twice() -> None:
    """A group is listed though each of its writes is sent twice, and the second one refused."""
    seen: list[Call] = []

    async def twice(call: Call, phase: Phase) -> None:
        if phase is Phase.AFTER and call.target == keys.GROUPS and all(call is not each for each in seen):
            seen.append(call)
            raise Resent

    world = unordered(twice)
    world.simulation.outcomes(world.services.create_task(world.definition(A, taskGroupId=GROUP)))
    (found,) = world.run(listed(world.process()))
    assert [header.task_group_id for _, header, _ in found] == [GROUP]
