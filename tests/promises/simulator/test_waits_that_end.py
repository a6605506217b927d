"""A wait for work whose worker has gone or waits elsewhere is given no claim (contract 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from shared.store.counting import Kind
from tests.parts.twin.gate import Call, as_process
from tests.promises.simulator.claimer import (
    WAIT,
    Once,
    a_world,
    calls_again,
    check_is_pending_again,
    is_commit,
    is_index_row,
)
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import POOL, WORKER


def test_a_new_wait_ends_the_older_one_of_the_same_worker_at_once() -> None:
    world = a_world()
    ends: list[float] = []

    async def older() -> None:
        assert await world.services.work.claim_work(POOL, WORKER, 1, WAIT) == []
        ends.append(world.clock.elapsed)

    async def newer() -> None:
        await world.clock.sleep(5)
        began = world.clock.elapsed
        (claim,) = await calls_again(world, WORKER)
        assert claim.task.task_id == A
        assert ends[0] - began < 0.1

    async def create() -> None:
        await world.clock.sleep(8)
        await world.create(A)

    world.run(older(), newer(), create())


def test_a_worker_that_calls_again_and_again_has_one_wait() -> None:
    world = a_world()

    async def story() -> None:
        waits = [asyncio.ensure_future(world.services.work.claim_work(POOL, WORKER, 1, WAIT))]
        for _ in range(6):
            await world.clock.sleep(WAIT / 2)
            waits.append(asyncio.ensure_future(world.services.work.claim_work(POOL, WORKER, 1, WAIT)))
            await world.clock.sleep(1)
            assert [wait.done() for wait in waits] == [*[True] * (len(waits) - 1), False]
        await waits[-1]

    world.run(story())


@pytest.mark.parametrize("at", [is_commit, is_index_row, lambda call: call.kind is Kind.QUEUE_GET])
def test_a_call_that_is_cancelled_while_it_claims_hands_back(at: Callable[[Call], bool]) -> None:
    gate = Once(at)
    world = a_world(gate)

    async def story() -> None:
        await world.create(A)
        waiting = asyncio.ensure_future(as_process("claimer", world.services.work.claim_work(POOL, WORKER, 1, WAIT)))

        async def cancel() -> None:
            waiting.cancel()
            await asyncio.sleep(0)

        gate.meanwhile, gate.is_armed = cancel, True
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not gate.is_armed

    world.run(story())
    check_is_pending_again(world)
