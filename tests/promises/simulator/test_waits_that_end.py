"""A wait for work whose worker has gone or waits elsewhere is given no claim (contract 5)."""

from __future__ import annotations

import asyncio

import pytest

from shared.store.counting import Kind
from tests.parts.twin.gate import Call, Phase, as_process, process_name
from tests.promises.simulator.claimer import WAIT, calls_again
from tests.promises.simulator.registry import DAY, HOUR, expire
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import POOL, WORKER, unordered


def test_a_worker_that_calls_again_and_again_has_one_wait() -> None:
    world = unordered()

    async def story() -> None:
        waits = [asyncio.ensure_future(world.services.work.claim_work(POOL, WORKER, 1, WAIT))]
        for _ in range(6):
            await world.clock.sleep(WAIT / 2)
            waits.append(asyncio.ensure_future(world.services.work.claim_work(POOL, WORKER, 1, WAIT)))
            await world.clock.sleep(0.1)
            assert [wait.done() for wait in waits] == [*[True] * (len(waits) - 1), False]
        await world.create(A)
        assert len(await calls_again(world, WORKER)) == 1
        assert not any(await asyncio.gather(*waits))

    world.run(story())


@pytest.mark.parametrize("is_noted", [True, False])
def test_an_older_wait_gets_nothing_although_its_worker_was_not_seen_for_a_day(is_noted: bool) -> None:
    """An older wait gets nothing when the worker has called another process, even if the worker was not seen for a day
    before: its row, which says so, is not deleted meanwhile."""
    is_live = asyncio.Event()

    async def be_slow(call: Call, phase: Phase) -> None:
        if process_name() == "claimer" and call.kind is Kind.QUEUE_GET:
            await is_live.wait()

    world = unordered(be_slow)
    claimer, another = world.process(), world.process()

    async def story() -> None:
        await world.services.stores.pools.queues.ensure_band(POOL, "lowest")
        assert await world.claim(1, claimer if is_noted else None) == []
        await world.clock.sleep(DAY + 2 * HOUR)
        older = asyncio.ensure_future(as_process("claimer", claimer.work.claim_work(POOL, WORKER, 1, WAIT)))
        await world.clock.sleep(1)
        await expire(world)
        newer = asyncio.ensure_future(calls_again(world, WORKER, services=another))
        await world.clock.sleep(1)
        await world.create(A)
        is_live.set()
        assert await older == []
        assert len(await newer) == 1

    world.run(story())
