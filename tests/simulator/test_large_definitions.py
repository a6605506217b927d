"""Definitions that do not fit into a row: their blobs go when they expire, whatever became of the call."""

from __future__ import annotations

import base64
import random

import pytest

from shared.app.assembly import assemble
from shared.app.services import Services
from shared.base.errors import InputError
from shared.base.ids import new_slugid
from shared.queue.tasks.definition import Definition
from shared.runtime import Runtime
from shared.store import keys
from tests.simulator.topics import Topics
from tests.simulator.world import World, settings
from tests.twin import MemoryStorage
from tests.twin.clock import VirtualClock
from tests.twin.gate import open_gate

DAYS = 24 * 3600.0
LARGE = {"noise": base64.b64encode(random.Random(7).randbytes(1_500_000)).decode()}
"""Too much for a row even when compressed."""


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def memory(clock: VirtualClock) -> MemoryStorage:
    return MemoryStorage(clock)


def process(memory: MemoryStorage, clock: VirtualClock) -> Services:
    """The services of another process."""
    return assemble(settings(), Runtime(now=clock.now), memory.storage, Topics(open_gate))


def large(**changes: object) -> Definition:
    return World().definition(new_slugid(), payload=LARGE, **changes)


async def blobs(memory: MemoryStorage) -> list[str]:
    return await memory.storage.blobs.list_paths(keys.DEFINITIONS, "")


async def expire(memory: MemoryStorage, clock: VirtualClock) -> None:
    """Hourly runs. The blob's own row may come up before its task is gone, and is looked at again then."""
    clock.advance(3 * DAYS)
    for _ in range(48):
        await process(memory, clock).expiration.run(600)
        clock.advance(3600)


async def test_the_blob_of_a_task_is_deleted_with_it(memory: MemoryStorage, clock: VirtualClock) -> None:
    definition = large()
    await process(memory, clock).create_task(definition)
    assert [path.split("/")[0] for path in await blobs(memory)] == [definition.task_id]
    assert (await process(memory, clock).lifecycle.definition(definition.task_id))["payload"] == LARGE
    await expire(memory, clock)
    assert await blobs(memory) == []
    assert memory.tables.rows(keys.TASKS) == []


async def test_of_a_task_that_was_refused(memory: MemoryStorage, clock: VirtualClock) -> None:
    with pytest.raises(InputError):
        await process(memory, clock).create_task(large(dependencies=[new_slugid()]))
    assert len(await blobs(memory)) == 1
    await expire(memory, clock)
    assert await blobs(memory) == []
