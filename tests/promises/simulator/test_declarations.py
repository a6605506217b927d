"""Task queues and provisioners as they are declared, also by many at once (contract 8)."""

from __future__ import annotations

from shared.queue.pools.directory import Declaration, DirectoryKind
from tests.promises.simulator.registry import DAY, after, poll
from tests.promises.simulator.world import POOL, WORKER, World


def test_declared_expirations_only_move_forward(world: World) -> None:
    async def story() -> None:
        directory, workers = world.services.directory, world.services.workers
        until = after(world, 10 * DAY)
        assert (await workers.declare(POOL, WORKER, until)).record.expires == until
        earlier = Declaration(expires=after(world, DAY), description="some", stability="stable")
        entry = await directory.declare_task_queue(POOL, earlier)
        assert (entry.expires, entry.description, entry.stability) == (until, "some", "stable")
        assert (await workers.declare(POOL, WORKER, after(world, DAY))).record.expires == until
        entry = await directory.declare_task_queue(POOL, Declaration(stability="deprecated"))
        assert (entry.expires, entry.description, entry.stability) == (until, "some", "deprecated")
        assert (await directory.find_listed(DirectoryKind.PROVISIONER, "provisioner")).expires == until
        await poll(world)
        assert (await directory.find_listed(DirectoryKind.TASK_QUEUE, POOL)).description == "some", (
            "being seen leaves what was declared"
        )

    world.run(story())
