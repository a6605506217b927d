"""What cannot be read holds up no listing of something else, and all who wait for it hear of that together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from shared.store import keys
from shared.store.interface import StorageUnavailable
from tests.simulator.situations import A, B
from tests.simulator.world import POOL, World
from tests.twin.gate import Call, Phase

STALL = 8.0
"""Seconds until a request that is throttled again and again is given up (`shared.store.wire`)."""
OTHER_POOL = "p/other"
SEVERAL = 8
"""Tasks of a pool on a page from which on its index vouches for them."""

Listing = Callable[[World, int], Awaitable[object]]


class Stalled:
    """One partition of a table answers nothing, from when `world` is set."""

    def __init__(self, table: str, partition: str) -> None:
        self.world: World | None = None
        self._place = table, partition

    async def __call__(self, call: Call, phase: Phase) -> None:
        if self.world is not None and phase is Phase.BEFORE and (call.target, call.subject) == self._place:
            await self.world.clock.sleep(STALL)
            raise StorageUnavailable("throttled")


def of_group(world: World, limit: int) -> Awaitable[object]:
    return world.services.groups.list(A, start="", limit=limit)


def of_pool(world: World, limit: int) -> Awaitable[object]:
    return world.services.pool_views.pending(POOL, start="", limit=limit)


def counts(world: World, limit: int) -> Awaitable[object]:
    return world.services.pool_views.counts(POOL)


def dependents(world: World, limit: int) -> Awaitable[object]:
    return world.services.batches.dependents(A, start="", limit=limit)


CASES: dict[str, tuple[tuple[str, str], Listing]] = {
    "a group": ((keys.GROUPS, A), of_group),
    "the index that vouches for a group's tasks": ((keys.POOLS, keys.pool(POOL)), of_group),
    "a pool": ((keys.POOLS, keys.pool(POOL)), of_pool),
    "a pool's counts": ((keys.POOLS, keys.pool(POOL)), counts),
    "the edges of a task": ((keys.GROUPS, A), dependents),
}


def stall(table: str, partition: str) -> World:
    """A world with tasks of a group and pool that cannot be read, and of others; statuses are known, but not fresh."""
    stalled = Stalled(table, partition)
    world = World(None, stalled)
    world.is_ordered = False

    async def begin() -> None:
        for number in range(SEVERAL):
            await world.create(A if not number else None, taskGroupId=A)
        await world.create(B, provisionerId="p", workerType="other", taskQueueId=OTHER_POOL)
        await world.services.groups.list(A, start="", limit=1000)
        await world.clock.sleep(10)
        stalled.world = world

    world.run(begin())
    return world


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_read_holds_up_nothing_else(case: str) -> None:
    place, listing = CASES[case]
    world = stall(*place)
    took: list[float] = []

    async def bad(limit: int) -> None:
        for _ in range(3):  # a client that tries again
            with pytest.raises(StorageUnavailable):
                await listing(world, limit)

    async def good() -> None:
        await world.clock.sleep(1)
        began = world.clock.exact()
        await world.services.groups.list(B, start="", limit=1000)
        await world.services.pool_views.pending(OTHER_POOL, start="", limit=1000)
        await world.services.batches.definitions([B])
        took.append((world.clock.exact() - began).total_seconds())

    world.run(*(bad(SEVERAL + number) for number in range(12)), good())
    assert took[0] < STALL
