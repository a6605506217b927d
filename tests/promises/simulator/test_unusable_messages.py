"""Messages that lead to no claim keep no worker from the run behind them, whatever it asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from shared.base.ids import new_slugid
from shared.base.protocol import ORPHAN_AFTER
from shared.queue.tasks.effects import PendingContent
from shared.queue.tasks.messages import pending_queue
from shared.store.limits import MAX_MESSAGES
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import POOL, WORKER, World, unordered

MANY = MAX_MESSAGES - 1


async def forged(world: World) -> None:
    """Puts messages as somebody with the account's key, or with a poll URL that allows it, may."""
    await world.account.connect().queues.put_message(pending_queue(POOL, "lowest"), "e30=")


async def orphaned(world: World) -> None:
    """Puts the message of a task whose creation has died."""
    content = PendingContent(task_queue_id=POOL, task_id=new_slugid(), run_id=0, hint_id=new_slugid())
    await world.services.stores.messages.put_pending(content, "lowest", None)


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("wait", [0.0, 1.5])
@pytest.mark.parametrize("put", [forged, orphaned])
def test_the_run_behind_them_is_claimed_by_the_same_call(
    put: Callable[[World], Awaitable[None]], wait: float, count: int
) -> None:
    world = unordered()

    async def story() -> None:
        await world.services.stores.pools.queues.ensure_band(POOL, "lowest")
        for _ in range(MANY):
            await put(world)
        await world.clock.sleep((ORPHAN_AFTER + timedelta(seconds=1)).total_seconds())
        await world.create(A)
        (claim,) = await world.services.work.claim_work(POOL, WORKER, count, wait)
        assert claim.task.task_id == A
        assert len(world.messages(pending_queue(POOL, "lowest"))) == 1, "its own"

    world.run(story())
