"""Edges of a group: which are listed, which are written again, and when they go (design 5)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.base.errors import InputError
from shared.queue.groups import rows as group_rows
from shared.queue.groups.rows import EDGES_WITH_MEMBER, MOST_GUARDED
from shared.queue.tasks.codec import pack_definition
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.interface import Merge
from tests.simulator.depending import a_world, complete_tasks, create_tasks
from tests.simulator.situations import GROUP, OTHER_GROUP, A, B, C
from tests.simulator.world import World


@dataclass
class _Listing:
    world: World
    found: list[str] = field(default_factory=list)

    async def walk(self, limit: int) -> list[list[str]]:
        pages: list[list[str]] = []
        start = ""
        while True:
            page = await self.world.services.batches.dependents(A, start=start, limit=limit)
            pages.append([task.status["taskId"] for task in page.tasks])
            if page.resume is None:
                return pages
            start = page.resume


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("inside", [0, 1, 3, 6])
def test_dependents_of_both_places_are_listed_in_order_and_once(limit: int, inside: int) -> None:
    world = a_world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        chance = random.Random(inside)
        places = [GROUP] * inside + [OTHER_GROUP] * (6 - inside)
        chance.shuffle(places)
        made = [await world.create(taskGroupId=group, dependencies=[A]) for group in places]
        twice = made[0]
        await world.services.stores.tasks.edges.rewrite(A, twice)
        await world.services.stores.edges.add(GROUP, twice, [A])
        pages = await _Listing(world).walk(limit)
        assert [task_id for page in pages for task_id in page] == sorted(made)
        assert all(len(page) <= limit for page in pages)

    world.run(story())


def test_edges_go_with_their_group() -> None:
    world = a_world()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await world.create(B, taskGroupId=GROUP, dependencies=[A])
        await world.drain(timedelta(hours=4).total_seconds())
        for _ in range(24 * 4):
            await world.clock.sleep(3600)
            await world.services.expiration.run(600)

    world.run(story())
    assert world.rows(keys.GROUPS) == []
    assert world.messages(RESOLVED_QUEUE) == []


def test_edges_go_with_their_tasks_but_for_those_just_written_and_of_tasks_in_between() -> None:
    """B, between A and C, stays; an edge of a call under way says when the call was made."""
    world = a_world()
    old, young = world.slugid(), world.slugid()

    async def story() -> None:
        for task_id, days in ((A, 1), (B, 9), (C, 1)):
            expires = format_date(world.clock.now() + timedelta(days=days))
            await world.create(task_id, taskGroupId=GROUP, expires=expires)
        await complete_tasks(world, 3)
        await world.drain(30)
        await world.services.stores.edges.add(GROUP, old, [A, B, C])
        await world.clock.sleep(timedelta(days=2).total_seconds())
        await world.services.stores.edges.add(GROUP, young, [A])
        await world.services.expiration.run(600)
        assert world.tasks().keys() == {B}

    world.run(story())
    edges = [row.key for row in world.rows(keys.GROUPS, GROUP) if row.key.startswith(keys.UNBLOCKS)]
    assert edges == [keys.unblocks(A, young), keys.unblocks(B, old)]


def test_repeated_create_writes_the_edges_that_the_call_before_has_not() -> None:
    """The first call has named others, and died: its edges name a task that does not wait for those."""
    world = a_world()

    async def story() -> None:
        first, second = await create_tasks(world, 2)
        dead = world.definition(B, taskGroupId=GROUP, dependencies=[first])
        edges = group_rows.Edges.of(B, [first], [])
        await world.services.create_task._membership.join(dead, await pack_definition(dead), edges)
        await world.create(B, taskGroupId=GROUP, dependencies=[second])
        await complete_tasks(world, 2)
        await world.drain(30)
        assert world.tasks()[B].state is State.PENDING

    world.run(story())


def test_orphan_member_that_is_touched_by_a_group_check_keeps_no_guard() -> None:
    """A row of no task guards nothing: the dependency is looked for before an edge relies on its rows."""
    world = a_world()

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        dead = world.definition(A, taskGroupId=GROUP)
        await world.services.create_task._membership.join(dead, await pack_definition(dead))
        with pytest.raises(InputError, match="do not exist"):
            await world.create(B, taskGroupId=GROUP, dependencies=[A])
        await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [Merge(keys.active(A, 0), {})])

    world.run(story())


def test_edges_with_a_member_fit_into_a_transaction_with_all_that_may_be_beside_them() -> None:
    required = [f"{number:022d}" for number in range(EDGES_WITH_MEMBER + 1)]
    guarded = group_rows.Edges.of(A, required[:MOST_GUARDED], [])
    assert len(guarded.guards) == MOST_GUARDED
    assert len(guarded.first) + len(guarded.guards) + 4 == 100
    assert group_rows.Edges.of(A, required[: MOST_GUARDED + 1], []).guards == ()
    assert group_rows.Edges.of(A, required, required).rest == (required[-1],)
    assert group_rows.Edges.of(A, [A, B, C], [B]).guards == (C,)
