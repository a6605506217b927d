"""The settling of a resolution: final statuses in the member row, whatever row is missing (design 5)."""

from __future__ import annotations

import pytest

from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.interface import Delete
from tests.simulator.orphans import announced, complete, group_rows
from tests.simulator.situations import GROUP, A
from tests.simulator.world import World


def test_listing_shows_a_rerun_task_as_it_is_whatever_was_written_when() -> None:
    """The member row alone says whether a final status is the latest: no row is read beside it."""
    world = World()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await complete(world, A)
        await world.drain(60)
        services = world.services
        for run_id in (1, 2):
            await services.lifecycle.rerun(await services.lifecycle.existing(A))
            assert await _states(world) == ["pending"]
            await world.claim()
            await services.lifecycle.report(A, run_id, Resolved.FAILED)
            assert await _states(world) == ["failed"]
            await world.drain(60)
            assert await _states(world) == ["failed"]
        (member,) = (await services.stores.groups.members(GROUP, None, 10))[0]
        assert member.final is not None
        assert len(member.final["runs"]) == 3

    world.run(story())


async def _states(world: World) -> list[str]:
    _, listed = await world.process().groups.list(GROUP, start="", limit=10)
    return [task.status["state"] for task in listed.tasks]


def test_late_handler_of_an_earlier_generation_stores_no_final_status() -> None:
    world = World()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await complete(world, A)
        services = world.services
        await services.lifecycle.rerun(await services.lifecycle.existing(A))
        await world.drain(60)  # only now comes the resolved message of the first generation
        (row,) = (row for row in world.rows(keys.GROUPS, GROUP) if row.key == keys.member(A))
        assert not any(name.startswith("final") for name in row.values)
        assert group_rows(world, A) == [keys.active(A, 1), keys.member(A)]
        handle = world.tasks()[A].handles.deadline
        assert handle is not None
        assert handle.message_id in {message.message_id for message in world.memory.messages(handle.queue)}

    world.run(story())


@pytest.mark.parametrize("gone", [keys.member(A), keys.GROUP])
def test_resolution_settles_though_a_row_of_the_group_is_missing(gone: str) -> None:
    """A missing member or header is not taken for a resolution that was settled before."""
    world = World()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [Delete(gone)])
        await complete(world, A)
        await world.drain(60)
        assert group_rows(world, A) == [keys.member(A)]
        assert announced(world) == (gone != keys.GROUP)

    world.run(story())
