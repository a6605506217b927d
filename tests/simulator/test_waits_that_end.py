"""Waits for work whose worker has gone or waits elsewhere: none is given a claim (contract 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from shared.app.services import Services
from shared.queue.tasks.rules import Worker
from shared.store.counting import Kind
from tests.simulator.claimer import (
    ANOTHER,
    WAIT,
    Once,
    a_world,
    calls_again,
    check_is_pending_again,
    is_commit,
    is_index_row,
)
from tests.simulator.situations import A
from tests.simulator.world import POOL, WORKER, World
from tests.twin.gate import Call, Phase, as_process


async def has_had_work(world: World) -> None:
    """The task queue has a band that is looked at."""
    await world.create()
    assert len(await calls_again(world, Worker(worker_group="group", worker_id="busy"))) == 1


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


def test_a_wait_that_is_over_is_answered_though_another_worker_has_called_meanwhile() -> None:
    """A poll is under way when the last waiter leaves. It does not wait for as long as others then do."""
    slow: list[float] = []

    async def be_slow(call: Call, phase: Phase) -> None:
        if slow and phase is Phase.BEFORE and call.kind is Kind.QUEUE_PEEK:
            await world.clock.sleep(slow[0])

    world = a_world(be_slow)

    async def story() -> None:
        await has_had_work(world)
        began = world.clock.elapsed
        first = asyncio.ensure_future(world.services.work.claim_work(POOL, WORKER, 1, WAIT))
        await world.clock.sleep(WAIT - 1.5)
        slow.append(3)
        await world.clock.sleep(1.8)
        second = asyncio.ensure_future(world.services.work.claim_work(POOL, ANOTHER, 1, WAIT))
        assert await first == []
        assert world.clock.elapsed - began < WAIT + slow[0] + 1
        await second

    world.run(story())


def test_waits_that_overload_has_ended_are_answered_though_others_go_on_calling() -> None:
    async def be_slow(call: Call, phase: Phase) -> None:
        if phase is Phase.BEFORE and call.kind is Kind.QUEUE_PEEK:
            await world.clock.sleep(0.2)

    world = a_world(be_slow)

    def wait() -> asyncio.Task[Any]:
        worker = Worker(worker_group="group", worker_id=world.slugid())
        return asyncio.ensure_future(world.services.work.claim_work(POOL, worker, 1, WAIT))

    async def story() -> None:
        await has_had_work(world)
        waits = [wait() for _ in range(3)]
        await world.clock.sleep(2.3)  # a look is under way
        world.services.end_polls()
        await world.clock.sleep(0.05)
        later = [wait()]
        await world.clock.sleep(1)
        assert all(each.done() for each in waits)
        await asyncio.gather(*waits, *later)

    world.run(story())


def test_waits_of_other_workers_and_in_other_pools_go_on() -> None:
    world = a_world()

    async def wait(worker: Worker, pool: str) -> float:
        began = world.clock.elapsed
        assert await world.services.work.claim_work(pool, worker, 1, WAIT) == []
        return world.clock.elapsed - began

    waits = world.run(wait(WORKER, POOL), wait(ANOTHER, POOL), wait(WORKER, "another/pool"))
    assert min(waits) >= WAIT


@pytest.mark.parametrize("beside", [True, False], ids=["beside one that waits", "alone"])
def test_a_worker_that_does_not_wait_gets_what_is_there(beside: bool) -> None:
    world = a_world()

    async def wait() -> None:
        if beside:
            await world.services.work.claim_work(POOL, ANOTHER, 1, 5)

    async def look() -> None:
        await world.clock.sleep(1)
        began = world.clock.elapsed
        assert await world.services.work.claim_work(POOL, WORKER, 1, 0) == []
        assert world.clock.elapsed - began < 1
        await world.clock.sleep(8)
        await world.create(A)
        (claim,) = await world.services.work.claim_work(POOL, WORKER, 2, 0)
        assert claim.task.task_id == A

    world.run(wait(), look())


def test_a_worker_that_does_not_wait_gets_work_however_often_waits_are_ended() -> None:
    """A process with very much to do ends them with every call: workers get work all the same."""

    async def end_polls(call: Call, phase: Phase) -> None:
        if call.kind is Kind.QUEUE_GET:
            world.services.end_polls()

    world = a_world(end_polls)

    async def story() -> None:
        await world.create(A)
        (claim,) = await world.services.work.claim_work(POOL, WORKER, 1, 0)
        assert claim.task.task_id == A

    world.run(story())


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
def test_a_wait_in_another_process_is_given_nothing_once_the_worker_waits_here(known: bool) -> None:
    """The older process polls first, so that it is the one that takes the message."""
    world = a_world()
    old, new = world.process(), world.process()

    async def older() -> None:
        if known:
            await old.work.claim_work(POOL, WORKER, 1, 0.1)
        assert await old.work.claim_work(POOL, WORKER, 1, WAIT) == []

    async def newer() -> list[str]:
        await world.clock.sleep(1.5)
        return [claim.task.task_id for claim in await calls_again(world, WORKER, services=new)]

    async def create() -> None:
        await world.clock.sleep(3)
        old.stores.pools.queues._bands.pop(POOL)
        await old.create_task(world.definition(A))  # wakes the older process

    _, claimed, _ = world.run(older(), newer(), create())
    assert claimed == [A]
    assert len(world.tasks()[A].runs) == 1
    assert len(world.topics.of("task-running")) == 1


def test_a_worker_that_goes_from_process_to_process_is_given_work_in_each() -> None:
    world = a_world()
    processes: list[Services] = [world.process() for _ in range(3)]

    async def story() -> None:
        for number in range(12):
            services = processes[number % 3]
            assert await services.work.claim_work(POOL, WORKER, 1, 1.0) == []
            task_id = await world.create()
            await world.clock.sleep(11)
            (claim,) = await processes[number * 2 % 3].work.claim_work(POOL, WORKER, 1, 1.5)
            assert (claim.task.task_id, len(claim.task.runs)) == (task_id, 1)

    world.run(story())


def test_a_cancelled_wait_leaves_the_work_to_others() -> None:
    world = a_world()

    async def story() -> None:
        waiting = asyncio.ensure_future(world.services.work.claim_work(POOL, WORKER, 1, WAIT))
        await world.clock.sleep(3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await world.create(A)

    world.run(story())
    check_is_pending_again(world)


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


def cancelled_after(turns: int, at: Callable[[Call], bool], *, beside: bool) -> bool:
    """Cancels a call so many turns of the event loop after such a request of its, at which another one of the pool is
    cancelled, if there is one. Returns whether it was under way; the task is with it or at hand."""
    gate = Once(at, Phase.AFTER)
    world = a_world(gate)

    async def story() -> bool:
        await world.create(A)
        reached = asyncio.Event()

        async def meanwhile() -> None:
            reached.set()

        gate.meanwhile, gate.is_armed = meanwhile, True
        calls = [
            asyncio.ensure_future(as_process("claimer", world.services.work.claim_work(POOL, worker, 1, WAIT)))
            for worker in (WORKER, ANOTHER)[: 1 + beside]
        ]
        await reached.wait()
        if beside:
            calls[1].cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        is_under_way = calls[0].cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        given = [claims for claims in outcomes if not isinstance(claims, BaseException) and claims]
        again = await world.services.work.claim_work(POOL, Worker(worker_group="group", worker_id="third"), 1, 0)
        assert len(given) + len(again) == 1, f"{turns} turns later"
        return is_under_way

    (is_under_way,) = world.run(story())
    return is_under_way


@pytest.mark.parametrize(
    ("at", "beside"),
    [(is_commit, False), (lambda call: call.kind is Kind.QUEUE_GET, True)],
    ids=["once it has claimed", "beside another"],
)
def test_a_call_that_is_cancelled_while_it_waits_for_others_hands_back(
    at: Callable[[Call], bool], beside: bool
) -> None:
    turns = 0
    while turns < 9 and cancelled_after(turns, at, beside=beside):
        turns += 1
    assert turns > 3
