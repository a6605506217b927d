"""What the member rows of a group, and a process's memory, say of dependencies (design 5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shared.base import bounds
from shared.base.dates import format_date
from shared.base.errors import InputError
from shared.queue.groups.rows import Unsettled, settled_state
from shared.queue.tasks.codec import TASK_COLUMNS, encode_task, pack_definition
from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from shared.store.interface import Delete, Row
from tests.simulator.depending import (
    a_world,
    complete_tasks,
    create_tasks,
    fail_and_complete_again,
    handle,
    member_row,
    rerun,
)
from tests.simulator.situations import GROUP, OTHER_GROUP, A, B, C
from tests.simulator.test_short_pages import one_row_a_page
from tests.simulator.world import World


def _member(**values: Any) -> Row:
    return Row(partition=GROUP, key=keys.member(A), values=values, etag="", timestamp=World().clock.now())


@pytest.mark.parametrize(
    ("row", "meaning"),
    [
        (None, Unsettled.UNKNOWN),
        (_member(definition=b"x"), Unsettled.OPEN),
        (_member(state0000="failed"), State.FAILED),
        (_member(state0000="failed", opened0001=True), Unsettled.UNKNOWN),
        (_member(state0000="failed", opened0001=True, state0001="completed"), State.COMPLETED),
        (_member(state0000="failed", opened0001=True, state0001="completed", opened0002=True), Unsettled.UNKNOWN),
        (_member(opened0001=True), Unsettled.UNKNOWN),
        (_member(opened0001=True, opened0002=True, state0001="failed"), Unsettled.UNKNOWN),
        (_member(opened0000=True, state0000="completed"), State.COMPLETED),
    ],
)
def test_state_in_a_member_row_counts_if_no_rerun_may_have_followed(
    row: Row | None, meaning: State | Unsettled
) -> None:
    assert settled_state(row) is meaning


@pytest.mark.parametrize("reruns", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("by_range", [False, True])
@pytest.mark.parametrize("gone", [False, True], ids=["member there", "member made again"])
def test_state_of_any_generation_is_found(reruns: int, by_range: bool, gone: bool) -> None:
    world = a_world()

    async def story() -> None:
        others = await create_tasks(world, 70 if by_range else 1)
        await world.create(A, taskGroupId=GROUP, priority="high")
        for number in range(reruns):
            await complete_tasks(world, 1, Resolved.FAILED)
            await world.drain(30)
            await rerun(world, A)
            if gone and number == reruns - 1:
                await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [Delete(keys.member(A))])
        await complete_tasks(world, 1)
        await world.drain(90)
        await world.create(B, taskGroupId=GROUP, dependencies=[A, *others])
        assert world.tasks()[B].satisfied == 1

    world.run(story())


def test_states_of_members_are_found_wherever_a_page_of_them_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "ROWS_AT_A_TIME", 2)
    world = a_world()

    async def story() -> None:
        ids = await create_tasks(world, 4)
        await complete_tasks(world, 4)
        await world.drain(30)
        one_row_a_page(world)
        states = await world.services.stores.edges.member_states(GROUP, ids)
        assert states.resolved == dict.fromkeys(ids, State.COMPLETED)

    world.run(story())


def test_dependency_that_runs_again_is_open() -> None:
    """Its member row has the state of before, and a mark."""
    world = a_world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await complete_tasks(world, 1)
        await world.drain(90)
        await rerun(world, A)
        await world.create(B, taskGroupId=GROUP, dependencies=[A])
        assert world.tasks()[B].state is State.UNSCHEDULED
        slow = world.services.stores.groups
        await slow.add_active(GROUP, A, 1)  # another rerun, which has read the task before, and rewrites what it finds
        await complete_tasks(world, 1, Resolved.FAILED)
        await world.drain(90)
        await rerun(world, A)
        await slow.add_active(GROUP, A, 1)
        await world.create(C, taskGroupId=GROUP, dependencies=[A], requires="all-resolved")
        assert world.tasks()[C].state is State.UNSCHEDULED

    world.run(story())


def test_late_settling_of_an_earlier_generation_changes_no_later_state() -> None:
    world = a_world()

    async def story() -> None:
        await fail_and_complete_again(world)
        await handle(world, A, 1)
        await handle(world, A, 0)
        row = member_row(world)
        assert (row.values["state0000"], row.values["state0001"]) == ("failed", "completed")
        assert settled_state(row) is State.COMPLETED

    world.run(story())


def test_state_of_an_earlier_generation_is_its_runs_and_not_the_tasks() -> None:
    """The handler may read the task when a rerun has ended in another way."""
    world = a_world()

    async def story() -> None:
        await fail_and_complete_again(world)
        await handle(world, A, 0)
        row = member_row(world)
        assert row.values["state0000"] == "failed"

    world.run(story())


def test_settling_again_writes_the_state_that_is_missing() -> None:
    """An active row that went another way is not taken for a resolution that was settled."""
    world = a_world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await complete_tasks(world, 1)
        await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [Delete(keys.active(A, 0))])
        await handle(world, A)
        row = member_row(world)
        assert settled_state(row) is State.COMPLETED

    world.run(story())


def test_columns_of_the_status_row_are_all_that_is_written() -> None:
    world = a_world()
    world.run(world.create(A))
    assert set(encode_task(world.tasks()[A])) == set(TASK_COLUMNS)


# Memory


def test_caller_is_not_refused_on_the_word_of_the_memory() -> None:
    """An id that was used again after its task had expired is read again."""
    world = a_world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP, expires=_later(world, 4), deadline=_later(world, 3))
        await world.clock.sleep(timedelta(hours=5).total_seconds())
        with pytest.raises(InputError, match="expire before"):
            await world.create(B, taskGroupId=OTHER_GROUP, dependencies=[A])
        for row in world.rows(keys.TASKS, A):
            await world.memory.storage.tables.transact(keys.TASKS, A, [Delete(row.key)])
        await world.process().create_task(world.definition(A, taskGroupId=OTHER_GROUP))
        await world.create(B, taskGroupId=OTHER_GROUP, dependencies=[A])
        edges = [row.key for row in world.rows(keys.GROUPS, OTHER_GROUP) if row.key.startswith(keys.UNBLOCKS)]
        assert edges == [keys.unblocks(A, B)], "its group is the one that it has now"

    world.run(story())


def test_group_of_a_task_is_told_by_its_status_and_not_by_a_member_row() -> None:
    """A call that died has added A to GROUP; A is of another group, and an edge in GROUP would not be followed."""
    world = a_world()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await world.create(A, taskGroupId=OTHER_GROUP)
        dead = world.definition(A, taskGroupId=GROUP)
        await world.services.create_task._membership.join(dead, await pack_definition(dead))
        await world.process().create_task(world.definition(B, taskGroupId=GROUP, dependencies=[A], priority="low"))
        await world.services.lifecycle.cancel(await world.services.lifecycle.existing(C))
        await complete_tasks(world, 1)
        await world.drain(30)
        assert world.tasks()[B].state is State.PENDING

    world.run(story())


def _later(world: World, hours: int) -> str:
    return format_date(world.clock.now() + timedelta(hours=hours))
