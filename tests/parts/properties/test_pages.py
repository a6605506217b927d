"""Listings page by page, around the end of a page: each entry once and in order, and no page for nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.app.services import Services
from shared.base.dates import format_date
from shared.queue.pools.directory import DirectoryKind
from shared.store import keys
from shared.store.interface import MAX_OPERATIONS, MAX_PAGE, Create, Value
from tests.parts.twin import MemoryStorage
from tests.promises.simulator.situations import GROUP, A
from tests.promises.simulator.world import POOL, World, unordered

Page = tuple[Sequence[str], str | None]
Turn = Callable[[Services, str | None, int], Awaitable[Page]]
POOL_PARTITION = keys.pool(POOL)
LATER = format_date(World().clock.now() + timedelta(days=9))


def _id(number: int) -> str:
    """Returns a task's id that sorts as the number does."""
    return f"A{number:020d}A"


async def _members(services: Services, start: str | None, limit: int) -> Page:
    members, resume = await services.stores.groups.members(GROUP, start, limit)
    return [member.task_id for member in members], resume


async def _edges(services: Services, start: str | None, limit: int) -> Page:
    edges, uploads, resume = await services.stores.tasks.edges.task_edge_page(A, start=start, limit=limit)
    assert uploads == []
    return [edge.dependent for edge in edges], resume


async def _pending(services: Services, start: str | None, limit: int) -> Page:
    rows, resume = await services.stores.pools.runs(POOL, limit, start or "")
    return [row.task_id for row in rows], resume


async def _pools(services: Services, start: str | None, limit: int) -> Page:
    return await services.stores.pools.page_of_all(start, limit)


LISTINGS: dict[str, tuple[str, str, Callable[[int], tuple[str, dict[str, Value]]], Turn]] = {
    "members of a group": (keys.GROUPS, GROUP, lambda n: (keys.member(_id(n)), {}), _members),
    "dependents of a task": (keys.TASKS, A, lambda n: (keys.dependent(_id(n)), {}), _edges),
    "pending runs": (
        keys.POOLS,
        POOL_PARTITION,
        lambda n: (f"pending~{LATER}~{_id(n)}~0000", {"scheduled": LATER, "priority": "lowest", "deadline": LATER}),
        _pending,
    ),
    "task queues": (keys.DIRECTORY, DirectoryKind.TASK_QUEUE, lambda n: (_id(n), {"taskQueueId": _id(n)}), _pools),
}


async def _write(memory: MemoryStorage, listing: str, count: int) -> None:
    table, partition, row, _ = LISTINGS[listing]
    rows = [Create(*row(number)) for number in range(count)]
    for start in range(0, count, MAX_OPERATIONS):
        await memory.storage.tables.transact(table, partition, rows[start : start + MAX_OPERATIONS])


def _walk(listing: str, count: int, limit: int) -> None:
    world = unordered()
    *_, turn = LISTINGS[listing]

    async def story() -> None:
        await _write(world.memory, listing, count)
        pages: list[Sequence[str]] = []
        at: str | None = None
        while not pages or at is not None:
            found, at = await turn(world.services, at, limit)
            pages.append(found)
        assert [name for page in pages for name in page] == [_id(number) for number in range(count)]
        assert [len(page) for page in pages[:-1]] == [limit] * (max(count - 1, 0) // limit)

    world.run(story())


@pytest.mark.parametrize("listing", LISTINGS)
@settings(max_examples=15)
@given(st.integers(1, 12), st.integers(0, 3), st.integers(-1, 1))
def test_each_entry_is_on_one_page(listing: str, limit: int, pages: int, more: int) -> None:
    _walk(listing, max(limit * pages + more, 0), limit)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_header_of_a_group_comes_with_its_active_rows_where_they_are_fewer_than_asked_for(more: int) -> None:
    """If a group has fewer active rows than were asked for, they come with its header in one snapshot: the check for
    the last active row must never see one without the other."""
    world = unordered()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        limit = 5
        rows = [Create(keys.active(f"B{_id(number)}", 0), {}) for number in range(limit + more - 1)]
        await world.memory.storage.tables.transact(keys.GROUPS, GROUP, rows)
        active, _, header = await world.services.stores.groups.active(GROUP, limit=limit)
        assert len(active) == min(limit, limit + more)
        assert (header is not None) == (more < 0)

    world.run(story())


@pytest.mark.parametrize("count", [0, 1, MAX_PAGE - 1, MAX_PAGE, MAX_PAGE + 1])
def test_what_is_due_in_an_hour_is_all_done(count: int) -> None:
    """One run of the job handles everything that is due in an hour, also more than a transaction or a page holds."""
    world = unordered()

    async def story() -> None:
        hour = keys.hour(world.clock.now())
        rows = [Create(keys.expiring(keys.EXCHANGED, _id(number)), {}) for number in range(count)]
        for start in range(0, count, MAX_OPERATIONS):
            await world.memory.storage.tables.transact(keys.EXPIRY, hour, rows[start : start + MAX_OPERATIONS])
        await world.clock.sleep(2 * 3600)
        assert await world.services.expiration.run(600) == count

    world.run(story())
    assert [row.key for row in world.rows(keys.EXPIRY) if row.key != "cursor"] == []
