"""The largest tasks that the contract allows (contract 2.1, 3.2) exceed no limit of Azure, in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shared.base.dates import format_date
from shared.queue.tasks.codec import PackedDefinition
from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from shared.store.interface import Delete, Page, StorageUnavailable
from tests.promises.simulator import invariants
from tests.promises.simulator.expiring import HOUR, LARGE, expire
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import World, unordered

LARGEST = 10_000
"""The most dependencies of one task."""


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.large)])
def test_a_task_waits_for_all_that_it_names(count: int) -> None:
    world, _, last = _waiting(count)

    async def life() -> None:
        await _complete(world, count - 1)
        assert (await world.services.lifecycle.status(last)).state is State.UNSCHEDULED
        await _complete(world, 1)
        (claim,) = await world.claim(32)
        assert claim.task.task_id == last

    world.run(life())
    invariants.check(world)


def test_the_largest_definition_takes_more_rows_that_are_read_and_deleted_as_one() -> None:
    """The largest definition, of noise in a body of a mebibyte, takes several rows that are read and deleted as one.
    Each process reads it in another way, and knows nothing."""
    world = unordered()

    async def life() -> None:
        end = format_date(world.clock.now() + timedelta(hours=4))
        await world.create(A, payload=LARGE, deadline=end, expires=end)
        found = await world.process().stores.tasks.find(A)
        assert found is not None
        assert isinstance(found.definition, PackedDefinition)
        assert found.definition.content == b"", "it is read where there is room"
        stored = await world.process().stores.tasks.definition(A)
        assert stored is not None
        assert stored.body["payload"] == (await world.process().lifecycle.definition(A))["payload"] == LARGE
        await world.claim(services=world.process())
        await world.process().lifecycle.report(A, 0, Resolved.COMPLETED)
        seen = await world.process().stores.tasks.surroundings(A, 1)
        assert seen is not None
        assert (seen.loaded.definition.body, seen.edges) == (stored.body, [])
        await world.drain(10)
        await world.clock.sleep(9 * HOUR)
        assert await expire(world, 2) == 0

    world.run(life())
    assert world.rows(keys.TASKS) == []


@pytest.mark.parametrize("new", [{"which": "new"}, {"which": LARGE}], ids=["small", "large"])
@pytest.mark.parametrize("old", [{"which": "old"}, LARGE], ids=["small", "large"])
def test_an_id_that_is_used_again_while_its_rows_are_read_mixes_no_two_definitions(
    monkeypatch: pytest.MonkeyPatch, old: dict[str, Any], new: dict[str, Any]
) -> None:
    world = unordered()

    async def life() -> None:
        await world.create(A, payload=old)
        tables, reader = world.memory.tables, world.process().stores.tasks
        query = tables.query

        async def cut(table: str, partition: str, *, start: str, **options: Any) -> Page:
            rows = (await query(table, partition, start=start, **options)).rows[:-1]
            monkeypatch.undo()
            for each in (keys.TASKS, keys.GROUPS):
                await tables.transact(each, A, [Delete(row.key) for row in world.rows(each, A)])
            await world.process().create_task(world.definition(A, payload=new))
            return Page(rows=rows, resume=f"{rows[-1].key} " if rows else start)

        monkeypatch.setattr(tables, "query", cut)
        with pytest.raises(StorageUnavailable):
            await (reader.definition if "noise" in old else reader.load)(A)
        loaded = await reader.load(A)
        assert loaded is not None
        assert loaded.definition.body["payload"] == new

    world.run(life())


@pytest.mark.large
def test_a_task_may_name_ten_thousand() -> None:
    world, task_ids, last = _waiting(LARGEST)
    some = 40

    async def life() -> None:
        await _complete(world, some)
        task = await world.services.lifecycle.status(last)
        assert task.state is State.UNSCHEDULED
        assert task.satisfied.bit_count() == some
        assert (await world.services.lifecycle.definition(last))["dependencies"] == task_ids

    world.run(life())


def _waiting(count: int) -> tuple[World, list[str], str]:
    """Returns a world with `count` pending tasks, and one that waits for all of them."""
    world = unordered()
    group = world.slugid()
    task_ids = [world.slugid() for _ in range(count)]
    last = world.slugid()

    async def create() -> None:
        for task_id in task_ids:
            await world.create(task_id, taskGroupId=group)
        await world.create(last, taskGroupId=group, dependencies=task_ids)

    world.run(create())
    return world, task_ids, last


async def _complete(world: World, count: int) -> None:
    """Claims and completes `count` tasks, and lets what follows from that happen."""
    while count > 0:
        claims = await world.claim(min(count, 32))
        for claim in claims:
            await world.services.lifecycle.report(claim.task.task_id, 0, Resolved.COMPLETED)
        count -= len(claims)
    await world.drain(10)
