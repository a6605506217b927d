"""Helpers for the index on the simulated deployment: entries, indexed tasks, and runs of the expiry job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shared.index.rules import IndexEntry
from shared.queue.tasks.rules import Resolved
from tests.promises.simulator.world import World


async def complete(world: World, rank: int = 0, path: str = "demo.v2.app", **changes: Any) -> str:
    """Creates, claims and completes a task with a route of the index; its resolved message waits."""
    task_id = await world.create(routes=[f"index.{path}"], extra={"index": {"rank": rank}}, **changes)
    (claim,) = await world.claim()
    await world.services.lifecycle.report(task_id, claim.run_id, Resolved.COMPLETED)
    return task_id


def entry(world: World, path: str, rank: int = 0, days: float = 1, task_id: str | None = None) -> IndexEntry:
    """Returns an entry that a call would store now."""
    now = world.clock.now()
    return IndexEntry(
        path=path, task_id=task_id or world.slugid(), rank=rank, data={}, expires=now + timedelta(days=days), at=now
    )


async def expire_for(world: World, days: int) -> None:
    """Runs the expiry job every hour for some days."""
    for _ in range(24 * days):
        await world.clock.sleep(3600)
        await world.handlers.expiration.run(300)


async def all_namespaces(world: World, namespace: str, limit: int) -> list[list[str]]:
    """Returns every page of the namespaces right below one."""
    pages: list[list[str]] = []
    start: str | None = ""
    while start is not None:
        page, start = await world.services.index.namespaces(namespace, start, limit)
        pages.append([one.path for one in page])
    return pages
