"""Queues of unused pools are deleted, and made again; no message is lost in any order of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shared.base.errors import ApiError
from shared.base.priority import PRIORITIES
from shared.queue.tasks.messages import pending_queue
from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from shared.store.interface import StorageUnavailable
from tests.parts.twin.gate import Call, Kill, Killed, Phase, as_process, process_name
from tests.promises.simulator.situations import A, C
from tests.promises.simulator.world import POOL, WORKER, World, unordered

DAY = 24 * 3600.0
MINUTE = 60.0


def queues(world: World) -> list[str]:
    own = {pending_queue(POOL, band) for band in PRIORITIES}
    return [name for name in world.memory.queues.names() if name in own]


def listed(world: World) -> bool:
    """Whether the reconciler finds the pool."""
    return any(row.key == keys.listed(POOL) for row in world.rows(keys.DIRECTORY, keys.POOL))


async def used_once(world: World) -> None:
    """Lets a task of the pool come and go."""
    await world.create(C, expires="2026-03-01T00:00:00.000Z")
    await world.claim()
    await world.services.lifecycle.report(C, 0, Resolved.COMPLETED)
    await world.drain(30)


async def check(world: World) -> None:
    await world.process().reconciler.check_all()


HELD_UP = 40.0
"""The most seconds that a request may be under way: a try ends after some, and a few tries follow."""


class Between:
    """A gate that begins something else before or after one request of the process that deletes, which is held up."""

    def __init__(self, number: int, phase: Phase) -> None:
        self.number, self.phase = number, phase
        self.seen: list[Call] = []
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None
        self.beside: asyncio.Future[Any] | None = None

    async def __call__(self, call: Call, phase: Phase) -> None:
        if process_name() != "deleter":
            return
        if phase is Phase.BEFORE:
            self.seen.append(call)
        is_it = self.number <= len(self.seen) and self.seen[self.number - 1] is call
        if self.beside is None and self.meanwhile and phase is self.phase and is_it:
            self.beside = asyncio.ensure_future(as_process("creator", self.meanwhile()))
            await asyncio.wait([self.beside], timeout=HELD_UP)


def deleted_beside_a_creation(number: int, phase: Phase, *, warm: bool, of_rows: bool = False) -> bool:
    """Creates and claims a task at that request of a deletion; returns False if there is no such request. `of_rows`
    says that the rows are being deleted that say, for a day, that the queues were deleted."""
    gate = Between(number, phase)
    world = unordered(gate)
    creator = world.process()

    async def create() -> None:
        """Creates the task, sending the call again after a 503."""
        definition = world.definition(A)
        for _ in range(6):
            try:
                await creator.create_task(definition)
            except (StorageUnavailable, ApiError):
                await world.clock.sleep(30)
            else:
                return
        raise AssertionError("the call never succeeds")

    async def script() -> bool:
        await used_once(world)
        if warm:
            await creator.poll_urls.of_pool(POOL)
        await world.clock.sleep(31 * DAY)
        if of_rows:
            await check(world)
            await world.clock.sleep(DAY + MINUTE)
        gate.meanwhile = create
        await as_process("deleter", check(world))
        if gate.beside is None:
            return False
        await gate.beside
        assert len(await world.services.work.claim_work(POOL, WORKER, 1, 1.5)) == 1, gate.seen[number - 1]
        assert listed(world), "the reconciler finds it"
        assert {row.key for row in world.rows(keys.POOLS)} >= {keys.POOL}, "it is noted that it is in use"
        return True

    (was_created,) = world.run(script())
    return was_created


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("of_rows", [True, False])
def test_a_task_that_is_created_at_any_moment_of_a_deletion_is_claimed(phase: Phase, warm: bool, of_rows: bool) -> None:
    """A task that is created at any moment of a deletion is claimed without the help of the reconciler."""
    number = 1
    while deleted_beside_a_creation(number, phase, warm=warm, of_rows=of_rows):
        number += 1
    assert number > (6 if of_rows else 8)


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_nothing_is_left_of_a_pool_that_nobody_uses(phase: Phase) -> None:
    """Nothing is left of a pool that nobody uses, wherever the second part dies: else every name would leave rows."""
    number = 0
    while True:
        number += 1
        kill = Kill(process="deleter")
        world = unordered(kill)

        async def script(world: World = world, kill: Kill = kill, number: int = number) -> None:
            await world.create(C, expires="2026-03-01T00:00:00.000Z")
            await world.services.lifecycle.cancel(await world.services.lifecycle.existing(C))
            await world.drain(30)
            await world.clock.sleep(31 * DAY)
            await check(world)
            assert listed(world), "so that its rows are deleted"
            await world.clock.sleep(DAY + MINUTE)
            kill.number, kill.phase = number, phase
            with pytest.raises(Killed):
                await as_process("deleter", check(world))
                raise Killed("not reached")
            await check(world)
            assert not listed(world)
            assert {row.key for row in world.rows(keys.POOLS)} & {keys.POOL, keys.RETURNED} == set()

        world.run(script())
        if number > len(kill.calls):
            break
    assert number > 5


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_a_deletion_that_is_interrupted_anywhere_is_taken_up_again(phase: Phase) -> None:
    number = 0
    while True:
        number += 1
        kill = Kill(process="deleter")
        world = unordered(kill)

        async def script(world: World = world, kill: Kill = kill, number: int = number) -> None:
            await used_once(world)
            await world.clock.sleep(31 * DAY)
            kill.number, kill.phase = number, phase
            with pytest.raises(Killed):
                await as_process("deleter", check(world))
                raise Killed("not reached")
            for _ in range(3):
                await world.clock.sleep(5 * MINUTE)
                await check(world)
            assert queues(world) == []
            await world.clock.sleep(5 * MINUTE)
            await world.create(A)
            assert len(await world.claim()) == 1
            assert world.tasks()[A].state is State.RUNNING

        world.run(script())
        if number > len(kill.calls):
            break
    assert number > 8
