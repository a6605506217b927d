"""How tasks join groups: how long a group lasts, and which requests are spared by what a process knows of it."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

from shared.base.dates import format_date
from shared.base.errors import RequestConflict
from shared.queue.groups.membership import MemberExists
from shared.queue.groups.rows import Edges, Group
from shared.queue.groups.store import GroupChanged
from shared.queue.tasks.codec import pack_definition
from shared.store import keys
from shared.store.counting import Kind, counting
from shared.store.interface import Refusal, TransactionRefused
from tests.parts.twin.driver import Simulation
from tests.promises.simulator.situations import GROUP, A, B, C
from tests.promises.simulator.world import World


def test_header_of_a_group_is_read_for_its_first_task_only() -> None:
    world = World(Simulation.rounds())

    async def headers_read(task_id: str) -> int:
        with counting() as operations:
            await world.create(task_id, taskGroupId=GROUP)
        return sum(each.kind is Kind.TABLE_READ and each.target == keys.GROUPS for each in operations.requests)

    async def story() -> list[int]:
        return [await headers_read(task_id) for task_id in (A, B)]

    assert world.run(story()) == [[1, 0]]


@pytest.mark.parametrize("is_known", [True, False], ids=["known to the process", "read first"])
def test_group_outlives_the_task_that_made_it_by_an_hour_and_one_that_would_outlive_it(is_known: bool) -> None:
    world = World()
    first = world.clock.now().replace(microsecond=0) + timedelta(days=8)

    async def joined(task_id: str, later: timedelta) -> timedelta:
        if not is_known:
            world.services = world.process()
        await world.create(task_id, taskGroupId=GROUP, expires=format_date(first + later))
        return (await world.services.groups.existing(GROUP)).expires - first

    async def story() -> None:
        hour = timedelta(hours=1)
        assert await joined(A, timedelta(0)) == hour
        assert await joined(B, hour) == hour
        assert await joined(C, 2 * hour) == 3 * hour

    world.run(story())


def test_process_that_knows_a_group_is_told_that_another_one_has_sealed_it() -> None:
    world = World()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        other = world.process()
        await other.groups.seal(await other.groups.existing(GROUP))
        with pytest.raises(RequestConflict, match="sealed"):
            await world.create(B, taskGroupId=GROUP)

    world.run(story())


@pytest.mark.parametrize(
    ("index", "meaning"), [(0, GroupChanged), (1, MemberExists), (2, MemberExists), (3, GroupChanged)]
)
def test_what_it_means_that_a_row_of_a_new_task_is_there(index: int, meaning: type[Exception]) -> None:
    """A refused row of a new task means the right error. An edge that is written elsewhere at the same time is no
    member: Azure may refuse even an upsert then."""
    world = World()
    definition = world.definition(dependencies=[A], taskGroupId=GROUP)
    edges = Edges(required=(A,), guards=(A,))
    group = Group(
        task_group_id=GROUP, scheduler_id="-", expires=definition.expires, sealed=None, number=0, listed="", etag=""
    )

    async def refuse(*_: object) -> None:
        raise TransactionRefused(index, Refusal.EXISTS)

    async def story() -> None:
        membership = world.services.create_task._membership
        with pytest.MonkeyPatch.context() as patch, pytest.raises(meaning):
            patch.setattr(membership, "_tables", SimpleNamespace(transact=refuse))
            await membership._join(definition, await pack_definition(definition), group, edges)

    world.run(story())
