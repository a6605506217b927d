"""A check with repairs beside each kind of call, which falls between any two of its requests: nothing is harmed."""

from __future__ import annotations

from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import Delete, TransactionRefused
from tests.promises.simulator.situations import GROUP, A, B
from tests.promises.simulator.world import World
from tools.admin.account import Records
from tools.admin.inspection import inspect_group, inspect_task

SETTLED = 16 * 60
"""Seconds after which a check examines everything."""


async def cancel(world: World) -> None:
    await world.services.lifecycle.cancel(await world.services.lifecycle.existing(A))


async def claim(world: World) -> None:
    await world.claim()


async def nothing(world: World) -> None:
    """Changes nothing."""


async def _lose(world: World, table: str, partition: str, key: str) -> None:
    try:
        await world.memory.storage.tables.transact(table, partition, [Delete(key)])
    except TransactionRefused:
        raise AssertionError(f"{key} is not there") from None


async def no_active_row(world: World) -> None:
    await _lose(world, keys.GROUPS, GROUP, keys.active(A, 0))


def records(world: World) -> Records:
    return Records.of(world.memory.storage, Runtime(now=world.clock.now, sleep=world.clock.sleep, slugid=world.slugid))


async def check(world: World) -> list[str]:
    """Runs `task check --repair` and `group check --repair`."""
    look = records(world)
    found = [*await inspect_group(look, GROUP), *await inspect_task(look, A), *await inspect_task(look, B)]
    for finding in found:
        if finding.repair is not None:
            await finding.repair()
    return [finding.text for finding in found]


def test_a_repair_of_a_task_that_has_moved_on_does_nothing() -> None:
    world = World()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await world.drain(SETTLED)
        await no_active_row(world)
        (finding,) = await inspect_task(records(world), A)
        assert finding.repair is not None
        await world.claim()
        before = [row.etag for row in world.rows(keys.GROUPS, GROUP)]
        assert not await finding.repair()
        assert [row.etag for row in world.rows(keys.GROUPS, GROUP)] == before

    world.run(story())
