"""The reconciler costs nothing for unused pools, and no pool keeps it from another one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.base import bounds
from shared.base.dates import format_date
from shared.queue.tasks.messages import pending_queue
from shared.store import keys
from shared.store.counting import counting
from tests.parts.twin.gate import Call, Killed, Phase, as_process, process_name
from tests.promises.simulator.world import World, unordered

RECONCILER = "reconciler"
MANY = 24


async def use_once(world: World, pools: int, prefix: str = "aaa") -> None:
    """Makes `pools` pools, each with a task that nobody claims."""
    now = world.clock.now()
    dates = {"deadline": format_date(now + timedelta(hours=1)), "expires": format_date(now + timedelta(hours=2))}
    for number in range(pools):
        name = f"w{number:03d}"
        pool = {"provisionerId": prefix, "workerType": name, "taskQueueId": f"{prefix}/{name}"}
        await world.create(**pool, **dates, retries=0)
    await world.drain(3700)


def listed(world: World) -> set[str]:
    return {str(row.values["taskQueueId"]) for row in world.rows(keys.DIRECTORY, keys.POOL)}


def test_pools_that_nobody_uses_any_more_cost_nothing() -> None:
    world = unordered()

    async def story() -> None:
        await use_once(world, MANY)
        for _ in range(40):
            await world.clock.sleep(24 * 3600)
            await world.handlers.expiration.run(300)
            await world.handlers.reconciler.check_all()
        with counting() as operations:
            await world.handlers.reconciler.check_all()
        assert operations.total <= 2, "there is nothing but the directory to look at"
        assert listed(world) == set()
        await use_once(world, 1)
        assert listed(world) == {"aaa/w000"}, "the pool is in use again"

    world.run(story())


class Ending:
    """A gate that ends the reconciler's process at one of its requests, or whenever it looks at a certain pool."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.deadly: str | None = None

    async def __call__(self, call: Call, phase: Phase) -> None:
        if process_name() != RECONCILER or phase is not Phase.BEFORE:
            return
        if self.left is not None:
            self.left -= 1
        if call.subject == self.deadly:
            self.left = -1
        if self.left is not None and self.left < 0:
            raise Killed


@pytest.mark.parametrize("room", [30, None])
def test_every_pool_has_its_turn_although_each_run_is_ended(room: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pool has its turn although each run is ended after some requests, or at one pool that it dies of."""
    monkeypatch.setattr(bounds, "RECONCILED_POOLS", 8)
    ending = Ending()
    world = unordered(ending)

    async def prepare() -> str:
        await use_once(world, MANY)
        now = world.clock.now()
        task_id = await world.create(
            provisionerId="zzz",
            workerType="w",
            taskQueueId="zzz/w",
            deadline=format_date(now + timedelta(days=4)),
            expires=format_date(now + timedelta(days=5)),
        )
        hidden = await world.account.connect().queues.get_messages(
            pending_queue("zzz/w", "lowest"), count=32, hidden_for=6 * 24 * 3600.0
        )
        assert len(hidden) == 1, "by somebody who polls by a signed URL"
        return task_id

    world.run(prepare())
    queue = pending_queue("zzz/w", "lowest")
    ended = 0
    for _ in range(24):
        world.run(world.clock.sleep(300))
        ending.left, ending.deadly = room, keys.pool("aaa/w003") if room is None else None
        (outcome,) = world.simulation.outcomes(as_process(RECONCILER, world.process().reconciler.check_all()))
        ended += isinstance(outcome, Killed)
    assert ended >= 10
    assert any(message.visible <= world.clock.exact() for message in world.account.messages(queue))
