"""A call that names a stranger's task in a pool of its own reaches nothing of that task (contract 1.5, design 2.1).

Anybody can write an index row that names any task, by a createTask that dies: what a row says is judged by the status
row, which also says which pool the task is of.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.base.errors import RequestConflict
from shared.base.protocol import OVERDUE
from shared.queue.pools.index import Counts
from shared.queue.tasks.effects import ChangePoolRows, PendingContent, row_of
from shared.queue.tasks.internal_messages import DEADLINE_QUEUE
from shared.queue.tasks.rules import State, Worker
from shared.store import keys
from tests.simulator.situations import A
from tests.simulator.world import WORKER, World
from tests.twin.gate import Kill, Phase

MINE = "mine/pool"
MY_WORKER = Worker(worker_group="mine", worker_id="worker")
INTERVAL = 300.0
"""Seconds between two runs of the reconciler."""


async def a_strangers_task(world: World, *, reclaims: int = 0) -> None:
    """It runs, and its claim was renewed so often; my pool is in use."""
    await world.services.stores.pools.queues.ensure_band(MINE, "lowest")
    await world.create(A)
    await world.claim()
    for _ in range(reclaims):
        await world.clock.sleep(60)
        await world.services.work.reclaim_task(A, 0)


async def name_it_in_my_pool(world: World) -> None:
    """createTask with the stranger's id, by a client that may create tasks in its own pool and group alone."""
    await world.create(A, taskGroupId=world.slugid(), provisionerId="mine", workerType="pool", taskQueueId=MINE)


async def judge(world: World) -> None:
    """All that a caller with scopes for the pool alone may see and do there."""
    views, workers = world.services.pool_views, world.services.workers
    assert await views.claimed(MINE, start="", limit=100) == ([], None)
    assert await views.pending(MINE, start="", limit=100) == ([], None)
    assert (await views.counts(MINE)).claimed == 0
    ended, _ = await workers.removed(MINE, WORKER, start="")
    assert ended == []
    status = await world.services.lifecycle.status(A)
    assert status.state is State.RUNNING
    assert status.last_run_id == 0


def _deaths() -> Iterator[Kill]:
    world = World(None, count := Kill(process="victim"))
    world.run(a_strangers_task(world))
    world.simulation.outcomes(world.victim(name_it_in_my_pool(world)))
    for number in range(1, len(count.calls) + 1):
        for phase in Phase:
            yield Kill(number=number, phase=phase, process="victim")


def test_a_call_that_dies_wherever_it_dies() -> None:
    deaths = list(_deaths())
    assert deaths, "the call makes requests"
    left_rows = 0
    for death in deaths:
        world = World(None, death)
        world.run(a_strangers_task(world))
        world.simulation.outcomes(world.victim(name_it_in_my_pool(world)))
        left_rows += any(row.key.startswith("pending~") for row in world.rows(keys.POOLS, keys.pool(MINE)))

        async def later(world: World = world) -> None:
            for _ in range(4):
                await world.clock.sleep(INTERVAL)
                await world.process().reconciler.check_all()
                assert await world.services.work.claim_work(MINE, MY_WORKER, 1, 1.5) == []
                await judge(world)
            assert await world.services.pool_views.counts(MINE) == Counts(pending=0, claimed=0)

        world.run(later())
    assert left_rows, "some of the deaths leave a row behind"


@pytest.mark.parametrize("reclaims", [0, 6, 7, 8, 20])
def test_a_call_that_is_refused_however_often_the_task_has_changed(reclaims: int) -> None:
    """The status row keeps only the ids of its latest commits. The first one is still known to be another call's."""
    world = World()

    async def story() -> None:
        await a_strangers_task(world, reclaims=reclaims)
        with pytest.raises(RequestConflict):
            await name_it_in_my_pool(world)
        rows = [row.key for row in world.rows(keys.POOLS, keys.pool(MINE)) if row.key.startswith("pending~")]
        assert rows == []

    world.run(story())


def test_an_index_row_of_another_pools_task_shows_nothing_and_ends_nothing() -> None:
    """However it came there."""
    world = World()

    async def story() -> None:
        await a_strangers_task(world)
        task = (await world.services.lifecycle.existing(A)).task
        row = ChangePoolRows(task_queue_id=MINE, add=(row_of(task, 0),))
        await world.services.stores.pools.change([row], MINE)
        await judge(world)

    world.run(story())


@pytest.mark.parametrize("is_remembered", [False, True])
def test_a_message_that_names_another_pools_task_claims_nothing(is_remembered: bool) -> None:
    """Also in the process that has created the task."""
    world = World()

    async def story() -> None:
        await world.services.stores.pools.queues.ensure_band(MINE, "lowest")
        await world.create(A)
        content = PendingContent(task_queue_id=MINE, task_id=A, run_id=0, hint_id=world.tasks()[A].hint_id)
        await world.services.stores.messages.put_pending(content, "lowest", None)
        services = world.services if is_remembered else world.process()
        assert await services.work.claim_work(MINE, MY_WORKER, 1, 1.5) == []
        assert world.tasks()[A].state is State.PENDING

    world.run(story())


def test_an_overdue_row_of_another_pools_task_goes_and_puts_no_deadline_message() -> None:
    world = World()

    async def story() -> None:
        await a_strangers_task(world)
        task = world.tasks()[A]
        await world.services.stores.pools.change([ChangePoolRows(task_queue_id=MINE, add=(row_of(task, 0),))], MINE)
        await world.clock.sleep((task.deadline + 2 * OVERDUE - world.clock.now()).total_seconds())
        assert await world.process().reconciler.check_pool(MINE) == 1

    world.run(story())
    assert not any(A in row.key for row in world.rows(keys.POOLS, keys.pool(MINE)))
    assert len(world.messages(DEADLINE_QUEUE)) == 1
