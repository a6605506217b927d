"""Old and new code side by side, and back again: what a rolling upgrade and a rollback meet."""

from __future__ import annotations

import pytest

from shared.app.assembly import assemble
from shared.app.services import Services
from shared.queue.tasks import codec
from shared.queue.tasks.rules import Resolved
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import Merge, StorageUnavailable, Value
from tests.simulator.topics import Topics
from tests.simulator.world import World, settings
from tests.twin import MemoryStorage
from tests.twin.gate import open_gate


async def _merge(world: World, task_id: str, key: str, values: dict[str, Value]) -> None:
    await world.memory.storage.tables.transact(keys.TASKS, task_id, [Merge(key, values)])


def test_what_is_written_can_be_read() -> None:
    assert codec.SCHEMA in codec.READABLE


def test_a_column_that_the_next_release_adds_is_ignored() -> None:
    world = World()

    async def story() -> None:
        task_id = await world.create()
        for key in (keys.TASK_STATUS, keys.TASK_DEFINITION, keys.TASK_OPEN):
            await _merge(world, task_id, key, {"comesLater": "x"})
        await world.claim(services=world.process())
        await world.process().lifecycle.report(task_id, 0, Resolved.COMPLETED)
        await world.drain(60)
        assert world.tasks()[task_id].state.value == "completed"

    world.run(story())


@pytest.mark.parametrize("key", [keys.TASK_STATUS, keys.TASK_DEFINITION])
async def test_a_row_of_a_later_schema_is_left_to_later_code(key: str) -> None:
    """The old process returns "try again", changes nothing, and keeps the message; the new one goes on from there."""
    memory = MemoryStorage()

    def process() -> Services:
        return assemble(settings(), Runtime(now=memory.clock.now), memory.storage, Topics(open_gate))

    async def rewrite(schema: int) -> None:
        await memory.storage.tables.transact(keys.TASKS, task_id, [Merge(key, {"schema": schema})])

    definition = World().definition()
    task_id = definition.task_id
    await process().create_task(definition)
    await rewrite(codec.SCHEMA + 1)
    before = memory.tables.rows(keys.TASKS)
    old = process()
    with pytest.raises(StorageUnavailable, match="schema 2"):
        await old.lifecycle.cancel(await old.lifecycle.existing(task_id))
    with pytest.raises(StorageUnavailable, match="schema 2"):
        await old.timers.deadline_due(task_id, task_id, "-", memory.clock.now())
    assert memory.tables.rows(keys.TASKS) == before
    await rewrite(codec.SCHEMA)  # as if this were the code that can read it
    new = process()
    cancelled = await new.lifecycle.cancel(await new.lifecycle.existing(task_id))
    assert cancelled.is_resolved


def test_a_process_may_be_replaced_in_the_middle_of_a_tasks_life() -> None:
    """Nothing is kept in a process but what any other finds in storage: each step by another one."""
    world = World()

    async def story() -> None:
        first = await world.create()
        second = await world.create(dependencies=[first])
        await world.claim(services=world.process())
        await world.process().lifecycle.report(first, 0, Resolved.COMPLETED)
        world.handlers = world.process()
        await world.drain(30)
        await world.claim(services=world.process())
        world.handlers = world.process()
        await world.drain(24 * 3600)
        assert world.tasks()[second].is_resolved

    world.run(story())
