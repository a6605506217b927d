"""The checks of `admin task check` and `admin group check`: silent when all is well, and each damage found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from shared.base.errors import ServiceUnavailable
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.effects import row_of
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE
from shared.queue.tasks.rules import Resolved, Task
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import Create, Delete, Merge, Operation, Receipt, Value
from tests.promises.simulator.invariants import check_settled
from tests.promises.simulator.world import World
from tools.admin.account import Records
from tools.admin.inspection import Finding, group_tasks, inspect_group, inspect_task

HOUR = 3600.0


def records(world: World, *, at_rest: bool = False) -> Records:
    found = Records.of(world.memory.storage, Runtime(now=world.clock.now, sleep=world.clock.sleep))
    return replace(found, settled=timedelta(0)) if at_rest else found


async def texts(world: World, task_id: str) -> list[str]:
    return [finding.text for finding in await inspect_task(records(world), task_id)]


@dataclass
class Cast:
    """A group of tasks, each in another state."""

    group: str
    pending: str
    running: str
    done: str
    blocked: str
    elsewhere: str
    freed: str


async def play(world: World) -> Cast:
    """Creates the tasks and waits until all that follows has happened."""
    group = world.slugid()
    done = await world.create(taskGroupId=group)
    freed = await world.create(taskGroupId=group, dependencies=[done], priority="low")
    await world.claim()
    await world.services.lifecycle.report(done, 0, Resolved.COMPLETED)
    await world.drain(60)
    pending = await world.create(taskGroupId=group, priority="very-low")
    blocked = await world.create(taskGroupId=group, dependencies=[pending])
    elsewhere = await world.create(dependencies=[pending])
    running = await world.create(taskGroupId=group, priority="highest")
    await world.claim()
    await world.drain(16 * 60)
    return Cast(group, pending, running, done, blocked, elsewhere, freed)


def test_nothing_is_found_where_all_is_well() -> None:
    world = World()

    async def story() -> None:
        cast = await play(world)
        check_settled(world)
        for at_rest in (False, True):
            look = records(world, at_rest=at_rest)
            assert sorted([*await group_tasks(look, cast.group), cast.elsewhere]) == sorted(world.tasks())
            assert await inspect_group(look, cast.group) == []
            for task_id in world.tasks():
                assert await inspect_task(look, task_id) == [], task_id
        await world.drain(5 * HOUR)
        assert all(task.is_resolved for task in world.tasks().values())
        assert await inspect_group(records(world), cast.group) == []
        for task_id in world.tasks():
            assert await inspect_task(records(world), task_id) == []

    world.run(story())


Damage = Callable[[World, Cast], Awaitable[str]]
"""Breaks something, and returns the task that it is about."""


async def _write(world: World, table: str, partition: str, operation: Operation) -> None:
    await world.memory.storage.tables.transact(table, partition, [operation])


async def _lose(world: World, queue: str) -> None:
    """Removes every message of a queue, the hidden ones included."""
    queues = world.memory.storage.queues
    held = list(world.memory.queues.messages(queue))
    for message in held:
        receipt = Receipt(message_id=message.message_id, pop_receipt=message.pop_receipt, visible=message.visible)
        await queues.delete_message(queue, receipt)


def _task(world: World, task_id: str) -> Task:
    return world.tasks()[task_id]


async def _no_active_row(world: World, cast: Cast) -> str:
    await _write(world, keys.GROUPS, cast.group, Delete(keys.active(cast.pending, 0)))
    return cast.pending


async def _active_row_of_a_resolved_task(world: World, cast: Cast) -> str:
    await _write(world, keys.GROUPS, cast.group, Create(keys.active(cast.done, 0), {}))
    return cast.done


async def _no_pending_row(world: World, cast: Cast) -> str:
    task = _task(world, cast.pending)
    await _write(world, keys.POOLS, keys.pool(task.task_queue_id), Delete(keys.pending(row_of(task, 0))))
    return cast.pending


async def _no_claimed_row(world: World, cast: Cast) -> str:
    task = _task(world, cast.running)
    await _write(world, keys.POOLS, keys.pool(task.task_queue_id), Delete(keys.claimed(row_of(task, 0))))
    return cast.running


async def _row_of_a_resolved_task(world: World, cast: Cast) -> str:
    task = _task(world, cast.done)
    row = row_of(task, 0)
    await records(world).pools.add_pending(replace(row, started=None))
    return cast.done


async def _no_edge(world: World, cast: Cast) -> str:
    await _write(world, keys.GROUPS, cast.group, Delete(keys.unblocks(cast.pending, cast.blocked)))
    return cast.blocked


async def _no_edge_from_another_group(world: World, cast: Cast) -> str:
    await _write(world, keys.TASKS, cast.pending, Delete(keys.dependent(cast.elsewhere)))
    return cast.elsewhere


async def _without_expiry_row(world: World, cast: Cast) -> str:
    """Removes the row by which the task's group is to be swept."""
    task = _task(world, cast.running)
    for row in world.rows(keys.EXPIRY):
        if row.key == keys.expiring(keys.SWEPT_GROUP, task.task_group_id):
            await _write(world, keys.EXPIRY, row.partition, Delete(row.key))
    return cast.running


async def _no_guard(world: World, cast: Cast) -> str:
    await _write(world, keys.TASKS, cast.pending, Delete(keys.TASK_OPEN))
    return cast.pending


async def _wrong_upload_guard(world: World, cast: Cast) -> str:
    await _write(world, keys.TASKS, cast.done, Create(keys.upload(0), {}))
    return cast.done


async def _guard_of_a_resolved_task(world: World, cast: Cast) -> str:
    await _write(world, keys.TASKS, cast.done, Create(keys.TASK_OPEN, {}))
    return cast.done


async def _no_upload_guard(world: World, cast: Cast) -> str:
    await _write(world, keys.TASKS, cast.running, Delete(keys.upload(0)))
    return cast.running


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        (_no_active_row, "its group does not count it as unresolved"),
        (_active_row_of_a_resolved_task, "its group counts it as unresolved"),
        (_no_pending_row, "its pool does not list it as pending"),
        (_no_claimed_row, "its pool does not list it as running"),
        (_row_of_a_resolved_task, "its pool still lists it"),
        (_no_edge, "would not wake it"),
        (_no_edge_from_another_group, "would not wake it"),
        (_without_expiry_row, "it would never be deleted"),
        (_no_guard, "its guard says otherwise"),
        (_guard_of_a_resolved_task, "its guard says otherwise"),
        (_wrong_upload_guard, "guards are"),
        (_no_upload_guard, "guards are"),
    ],
)
def test_damage_is_found_and_mended(damage: Damage, finding: str) -> None:
    world = World()

    async def story() -> None:
        cast = await play(world)
        task_id = await damage(world, cast)
        (found,) = await inspect_task(records(world), task_id)
        assert finding in found.text
        await _mend([found])
        await world.drain(120)
        assert await texts(world, task_id) == []
        for other in world.tasks():
            assert await texts(world, other) == []
        check_settled(world)

    world.run(story())


def test_what_is_under_way_is_left_alone() -> None:
    world = World()

    async def story() -> None:
        cast = await play(world)
        late = await world.create(taskGroupId=cast.group)
        await _write(world, keys.GROUPS, cast.group, Delete(keys.active(late, 0)))
        assert await texts(world, late) == []
        assert len(await inspect_task(records(world, at_rest=True), late)) == 1
        world.clock.advance(16 * 60)
        assert len(await texts(world, late)) == 1

    world.run(story())


def test_a_dependent_that_was_not_unblocked_and_a_group_that_was_not_announced_are_found() -> None:
    world = World()

    async def story() -> None:
        first = await world.create()
        second = await world.create(dependencies=[first])
        await world.claim()
        await world.services.lifecycle.report(first, 0, Resolved.COMPLETED)
        await _lose(world, RESOLVED_QUEUE)
        assert await texts(world, second) == []
        world.clock.advance(20 * 60)
        found = {finding.text: finding for finding in await inspect_task(records(world), second)}
        assert list(found) == [f"{first} is resolved, and it was not notified"]
        assert {"its group counts it as unresolved", "its pool still lists it"} == set(await texts(world, first))
        await _mend(list(found.values()))
        await world.drain(30)
        assert _task(world, second).state.value == "pending"
        assert await texts(world, first) == []

    world.run(story())


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_group_whose_guards_are_of_a_later_call_than_its_header_works_once_it_is_repaired(is_sealed: bool) -> None:
    """A group whose guards are of a later call than its header works once it is repaired. An export that reads the
    header before a call on the group, and the guards after it, has such a group."""
    world = World()

    async def story() -> None:
        cast = await play(world)
        store = world.process().stores.groups
        before = await store.header(cast.group)
        assert before is not None
        if is_sealed:
            await store.seal(before, world.clock.now())
        counted = await store.count_call(await store.header(cast.group) or before, "cancel")
        earlier: dict[str, Value] = {"number": before.number, "sealed": ""}
        await _write(world, keys.GROUPS, cast.group, Merge(keys.GROUP, earlier, counted.etag))
        await world.process().lifecycle.rerun(await world.services.lifecycle.existing(cast.done))
        with pytest.raises(ServiceUnavailable):
            await world.process().create_task(world.definition(taskGroupId=cast.group))
        found = await inspect_group(records(world, at_rest=True), cast.group)
        assert [finding.text for finding in found] == [f"the guards of group {cast.group} do not agree with its header"]
        assert [finding.text for finding in found] == await texts(world, cast.pending)
        await _mend(found)
        assert await texts(world, cast.pending) == []
        await world.create(taskGroupId=cast.group)
        cancel = GroupJob(task_group_id=cast.group, kind="cancel")
        assert cast.pending in await world.process().group_jobs.call(cancel)

    world.run(story())


async def _mend(findings: list[Finding]) -> None:
    for finding in findings:
        assert finding.repair is not None
        assert await finding.repair()
