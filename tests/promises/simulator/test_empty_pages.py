"""A page of no entries is empty and the last one: storage knows no such page (contract 13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shared.queue.pools.directory import DirectoryKind as Kind
from tests.promises.simulator.situations import GROUP, A, B
from tests.promises.simulator.world import POOL, World

PAGES: dict[str, Callable[[World, int], Awaitable[Any]]] = {
    "artifacts": lambda world, limit: world.services.artifacts.reading.artifact_page(A, 0, start="", limit=limit),
    "tasks of a group": lambda world, limit: world.services.groups.list(GROUP, start="", limit=limit),
    "dependents": lambda world, limit: world.services.batches.dependents(A, start="", limit=limit),
    "groups": lambda world, limit: world.services.recent_groups.group_page(start="", limit=limit),
    "pending runs": lambda world, limit: world.services.pool_views.pending(POOL, start="", limit=limit),
    "claimed runs": lambda world, limit: world.services.pool_views.claimed(POOL, start="", limit=limit),
    "task queues": lambda world, limit: world.services.directory.directory_page(Kind.TASK_QUEUE, start="", limit=limit),
    "provisioners": lambda world, limit: world.services.directory.directory_page(
        Kind.PROVISIONER, start="", limit=limit
    ),
    "workers": lambda world, limit: world.services.workers.worker_page(POOL, start="", limit=limit),
}


@pytest.mark.parametrize("listing", PAGES)
def test_limit_of_zero_is_an_empty_page_and_the_last(listing: str) -> None:
    world = World()

    async def story() -> Any:
        await world.create(A, taskGroupId=GROUP)
        await world.create(B, taskGroupId=GROUP, dependencies=[A])
        await world.claim()
        return await PAGES[listing](world, 0)

    found = world.run(story())[0]
    if isinstance(found[1], tuple):
        found = found[1]
    assert found == ([], None)
