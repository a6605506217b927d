"""A process never has more large definitions in hand than it has room for, and no answer has too many."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from shared.app.assembly import assemble
from shared.app.services import Services
from shared.base import bounds
from shared.base.ids import new_slugid
from shared.base.memory import NoRoom
from shared.base.shares import Place
from shared.queue.tasks.definition import Json
from shared.runtime import Runtime
from tests.parts.twin import MemoryStorage
from tests.parts.twin.clock import VirtualClock
from tests.parts.twin.gate import open_gate
from tests.promises.simulator.topics import Topics
from tests.promises.simulator.world import POOL, World, settings

SIZE = 300_000
"""Bytes of a large definition in these tests."""
KEPT = 1_000_000
IN_USE = 2_000_000
ANSWER = 1_000_000


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def memory(clock: VirtualClock) -> MemoryStorage:
    return MemoryStorage(clock)


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets limits that a few definitions reach."""
    monkeypatch.setattr(bounds, "IN_HAND", IN_USE)
    monkeypatch.setattr(bounds, "DEFINITIONS_IN_ANSWER", ANSWER)


def process(memory: MemoryStorage, clock: VirtualClock, **changes: object) -> Services:
    """Returns the services of another process, which has read nothing yet."""
    wanted = settings().model_copy(update={"definition_cache_bytes": KEPT, **changes})
    return assemble(wanted, Runtime(now=clock.now, sleep=clock.sleep), memory.storage, Topics(open_gate))


async def created(memory: MemoryStorage, clock: VirtualClock, number: int, **changes: Any) -> list[str]:
    """Creates tasks with large definitions, each with its own."""
    services, world = process(memory, clock), World()
    made: list[str] = []
    for index in range(number):
        payload = {"text": f"{index:06d}" * (SIZE // 6)}
        definition = world.definition(new_slugid(), **{"payload": payload, **changes})
        await services.create_task(definition)
        made.append(definition.task_id)
        clock.advance(1)
    return made


async def test_call_that_gets_no_room_in_time_is_refused_and_leaves_nothing_taken(
    memory: MemoryStorage, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await created(memory, clock, 2)
    services = process(memory, clock, definition_cache_bytes=0)
    budget = services.memory
    held = await services.lifecycle.existing(first)
    taken = budget.used
    assert SIZE <= taken < 2 * SIZE
    rest = Place(units=IN_USE - taken, share="another")
    assert budget.try_take(rest)
    monkeypatch.setattr(budget, "_longest_wait", 0)
    with pytest.raises(NoRoom):
        await services.lifecycle.existing(second)
    assert budget.used == IN_USE
    monkeypatch.setattr(budget, "_longest_wait", 60)
    waiting = [asyncio.ensure_future(services.lifecycle.existing(second)) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    budget.leave(rest)
    got = await waiting[1]
    assert got.definition.task_id == second
    del held, waiting, got
    await asyncio.sleep(0)  # the loop has the task in hand until then
    assert budget.used == 0


Page = tuple[list[tuple[str, Json]], object]


async def group(services: Services, task_ids: Sequence[str], start: Any) -> Page:
    _, (tasks, resume) = await services.groups.list("aaaaaaaaQaCaaaaaaaaaaA", start=start or "", limit=1000)
    return [(each.definition.task_id, each.task) for each in tasks], resume


async def dependents(services: Services, task_ids: Sequence[str], start: Any) -> Page:
    tasks, resume = await services.batches.dependents("baaaaaaaQaCaaaaaaaaaaA", start=start or "", limit=1000)
    return [(each.definition.task_id, each.task) for each in tasks], resume


async def pending(services: Services, task_ids: Sequence[str], start: Any) -> Page:
    runs, resume = await services.pool_views.pending(POOL, start=start or "", limit=1000)
    return [(each.task.task_id, each.body) for each in runs], resume


async def claimed(services: Services, task_ids: Sequence[str], start: Any) -> Page:
    runs, resume = await services.pool_views.claimed(POOL, start=start or "", limit=1000)
    return [(each.task.task_id, each.body) for each in runs], resume
