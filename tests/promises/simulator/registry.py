"""Helpers for workers that call, are quarantined and are forgotten."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.app.services import Services
from shared.base.dates import parse_date
from shared.queue.pools.directory import DirectoryKind
from shared.queue.pools.workers import KnownWorker
from shared.queue.tasks.rules import Worker
from tests.promises.simulator.world import POOL, WORKER, World

MINUTE = 60.0
HOUR = 3600.0
DAY = 24 * HOUR
FOREVER = parse_date("9999-12-31T23:59:59.999Z")
ANOTHER = Worker(worker_group="group", worker_id="another")


async def poll(world: World, services: Services | None = None, worker: Worker = WORKER) -> None:
    """Calls claimWork in vain."""
    assert await (services or world.services).work.claim_work(POOL, worker, 1, 0.5) == []


async def quarantine(world: World, until: datetime, info: str = "why") -> KnownWorker:
    return await world.services.workers.quarantine(POOL, WORKER, until, client_id="somebody", info=info)


async def listed(world: World) -> list[str]:
    entries, _ = await world.services.directory.directory_page(DirectoryKind.TASK_QUEUE, start="", limit=1000)
    return [entry.name for entry in entries]


def after(world: World, seconds: float) -> datetime:
    return world.clock.now() + timedelta(seconds=seconds)


async def expire(world: World) -> None:
    """Runs the timer function of the expiry job in another process."""
    await world.handlers.expiration.run(300)
