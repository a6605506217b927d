"""When things expire: hours, prolonged and raised rows, and partitions with more rows than a transaction or a page."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.base.protocol import EXPIRY_GRACE_PERIOD, ROWS_COMPLETE_AFTER
from shared.queue.artifacts.rules import Artifact, StorageType, Upload
from shared.queue.groups.membership import MARGIN
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import Create, Delete, Merge, Row, Upsert
from shared.store.partitions import delete_unchanged, rows_of
from tests.parts.twin import MemoryStorage
from tests.parts.twin.clock import VirtualClock
from tests.parts.twin.gate import Call, Phase, as_process, process_name
from tests.promises.simulator.deletions import members
from tests.promises.simulator.expiring import HOUR, JOB, expire, relay
from tests.promises.simulator.situations import GROUP, A, B, C
from tests.promises.simulator.world import World, unordered


async def resolved(world: World, task_id: str, **changes: object) -> None:
    """Creates a task of the group that is done with."""
    await world.create(task_id, taskGroupId=GROUP, **changes)
    (claim,) = await world.claim()
    await world.services.lifecycle.report(claim.task.task_id, 0, Resolved.COMPLETED)
    await world.drain(60)


@pytest.mark.parametrize("minute", [0, 1, 29, 30, 31, 59])
def test_task_goes_soon_after_its_expiration_and_not_before(minute: int) -> None:
    """A task goes soon after its expiration and not before, whatever the minute of the hour."""
    world = unordered()

    async def story() -> None:
        now = world.clock.now()
        expires = now.replace(minute=minute, second=0, microsecond=0) + timedelta(hours=3)
        await resolved(world, A, expires=format_date(expires), deadline=format_date(now + timedelta(hours=1)))
        gone = None
        for _ in range(6 * 12):
            await as_process(JOB, world.handlers.expiration.run(300))
            if A not in world.tasks():
                gone = world.clock.now()
                break
            await world.clock.sleep(600)
        assert gone is not None
        assert gone >= expires + EXPIRY_GRACE_PERIOD
        hours = timedelta(hours=1) + MARGIN
        assert gone <= expires + EXPIRY_GRACE_PERIOD + hours + ROWS_COMPLETE_AFTER + timedelta(minutes=10)

    world.run(story())


def test_artifact_that_is_prolonged_goes_with_its_latest_expiration() -> None:
    world = unordered()

    async def story() -> None:
        now = world.clock.now()
        await world.create(A, taskGroupId=GROUP, expires=format_date(now + timedelta(days=2)))
        assert await world.claim()
        for hours in (1, 5):
            await relay(world, "public/x", expires=now + timedelta(hours=hours))
        await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
        await world.drain(60)
        await expire(world, 5)
        assert world.account.committed(keys.PUBLIC), "it expires in half an hour"
        await expire(world, 3)
        assert not world.account.committed(keys.PUBLIC)
        assert A in world.tasks()

    world.run(story())


def test_group_goes_an_hour_after_the_last_of_its_tasks() -> None:
    """A group goes an hour after the last of its tasks, although each raise leaves a row to be checked."""
    world = unordered()

    async def story() -> None:
        for task_id, hours in ((A, 2), (B, 6), (C, 30)):
            now = world.clock.now()
            deadline, expires = format_date(now + timedelta(hours=1)), format_date(now + timedelta(hours=hours))
            await resolved(world, task_id, deadline=deadline, expires=expires)
        await world.drain(4 * HOUR)
        await expire(world, 24)
        assert set(world.tasks()) == {C}
        of_group = {keys.DUE, keys.GROUP, keys.number(0), keys.scheduler("-", 0)}
        assert {row.key for row in world.rows(keys.GROUPS, GROUP)} == {*of_group, keys.member(C)}
        await expire(world, 8)
        assert not world.tasks()
        assert not world.rows(keys.GROUPS)

    world.run(story())


@pytest.mark.parametrize(("seconds", "left"), [(-5, {A}), (5, set())])
def test_member_row_stays_for_as_long_as_a_call_may_rely_on_it(seconds: float, left: set[str]) -> None:
    world = unordered()

    async def story() -> None:
        await resolved(world, A, expires=format_date(world.clock.now() + timedelta(hours=4)))
        await world.clock.sleep(20 * HOUR)
        await world.memory.storage.tables.transact(keys.GROUPS, GROUP, [Merge(keys.member(A), {})])
        await world.clock.sleep(ROWS_COMPLETE_AFTER.total_seconds() + seconds)
        await as_process(JOB, world.handlers.expiration.run(300))

    world.run(story())
    assert members(world, GROUP) == left


@pytest.mark.parametrize(("seconds", "left"), [(-5, 1), (5, 0)])
def test_hour_is_worked_off_once_no_call_adds_to_it(seconds: float, left: int) -> None:
    world = unordered()

    async def story() -> None:
        expires = world.clock.now().replace(minute=0, second=0, microsecond=0) + timedelta(hours=2)
        await world.services.expiration._expiry.id_token("fingerprint", expires)
        complete = expires + timedelta(hours=1) + ROWS_COMPLETE_AFTER
        await world.clock.sleep((complete - world.clock.now()).total_seconds() + seconds)
        await as_process(JOB, world.handlers.expiration.run(300))

    world.run(story())
    assert sum(row.key.startswith(keys.EXCHANGED) for row in world.rows(keys.EXPIRY)) == left


def test_row_that_was_young_when_its_task_was_looked_for_stays() -> None:
    """A row that was young when its task was looked for stays, as the task may be new by the time of the read."""

    async def slow(call: Call, phase: Phase) -> None:
        is_look = call.kind is Kind.TABLE_READ and (call.target, call.subject) == (keys.TASKS, A)
        if process_name() == JOB and phase is Phase.AFTER and is_look:
            await world.clock.sleep(20)

    world = unordered(slow)

    async def story() -> None:
        await resolved(world, A, expires=format_date(world.clock.now() + timedelta(hours=4)))
        await world.clock.sleep(20 * HOUR)
        await delete_unchanged(world.memory.storage.tables, keys.TASKS, world.rows(keys.TASKS, A))
        await world.services.stores.tasks.edges.rewrite(A, B)
        await world.clock.sleep(ROWS_COMPLETE_AFTER.total_seconds() - 10)
        await as_process(JOB, world.handlers.expiration.run(300))

    world.run(story())
    assert len(world.rows(keys.TASKS, A)) == 1


async def with_artifacts(world: World, number: int) -> None:
    """Creates A, resolved, with `number` artifacts, all of them with content."""
    await world.create(A, taskGroupId=GROUP)
    assert await world.claim()
    (task,) = world.tasks().values()
    for index in range(number):
        wanted = Artifact(
            name=f"public/{index}",
            storage_type=StorageType.S3,
            content_type="text/plain",
            expires=task.expires,
            upload=Upload.RELAY,
        )
        await world.services.artifacts.creation.create_or_find(A, 0, wanted)
    for row in world.rows(keys.TASKS, A):
        if row.key.startswith("artifact~"):
            path = keys.path(A, 0, str(row.values["name"]), str(row.values["version"]))
            await world.account.connect().blobs.upload(keys.PUBLIC, path, b"x", content_type="text/plain")
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.drain(60)
    await world.clock.sleep(52 * HOUR)


@pytest.mark.parametrize("number", [95, 96, 97, 98, 100, 101, 997, 1001])
def test_task_of_more_rows_than_a_transaction_or_a_page_holds(number: int) -> None:
    world = unordered()

    async def story() -> None:
        await with_artifacts(world, number)
        await as_process(JOB, world.handlers.expiration.run(300))

    world.run(story())
    assert world.rows(keys.TASKS) == []
    assert not world.account.committed(keys.PUBLIC)


def test_run_ends_in_time_and_the_next_one_goes_on() -> None:
    async def slow(call: Call, phase: Phase) -> None:
        if process_name() == JOB and call.kind is Kind.BLOB_WRITE and phase is Phase.BEFORE:
            await world.clock.sleep(1)

    world = unordered(slow)
    world.run(with_artifacts(world, 500))
    runs = 0
    while world.rows(keys.TASKS) and runs < 30:
        started = world.clock.elapsed
        world.run(as_process(JOB, world.handlers.expiration.run(10)))
        assert world.clock.elapsed - started <= 10 + 101
        world.run(world.clock.sleep(HOUR))
        runs += 1
    assert 2 <= runs <= 10


@pytest.fixture
def memory() -> MemoryStorage:
    return MemoryStorage(VirtualClock())


async def numbered(memory: MemoryStorage, number: int) -> list[Row]:
    """Makes `number` rows of one partition, and returns them."""
    for start in range(0, number, 100):
        creations = [Create(f"{index:05d}", {}) for index in range(start, min(start + 100, number))]
        await memory.storage.tables.transact(keys.TASKS, "p", creations)
    return [row async for page in rows_of(memory.storage.tables, keys.TASKS, "p", select=()) for row in page]


async def test_rows_that_have_changed_since_stay_and_all_others_go(memory: MemoryStorage) -> None:
    rows = await numbered(memory, 250)
    tables = memory.storage.tables
    await tables.transact(keys.TASKS, "p", [Upsert("00000", {}), Upsert("00120", {}), Upsert("00249", {})])
    await tables.transact(keys.TASKS, "p", [Delete("00007"), Delete("00199"), Create("00250", {})])
    await delete_unchanged(memory.storage.tables, keys.TASKS, rows)
    assert [row.key for row in memory.rows(keys.TASKS)] == ["00000", "00120", "00249", "00250"]


def test_run_without_time_has_looked_at_nothing() -> None:
    world = unordered()

    async def story() -> None:
        for number in range(3):
            await world.services.expiration._expiry.id_token(f"fingerprint{number}", world.clock.now())
        await world.clock.sleep(3 * HOUR)
        assert await world.handlers.expiration.run(0) == 0
        assert await world.handlers.expiration.run(300) == 3

    world.run(story())


def test_a_task_that_was_resolved_late_is_given_the_time_of_late_timers_from_then_on() -> None:
    """Its resolved message is not handled when the job comes: six hours after its expiration, one after its end."""
    world = unordered()

    async def story() -> None:
        now = world.clock.now()
        times = {"deadline": format_date(now + timedelta(hours=1)), "expires": format_date(now + timedelta(hours=2))}
        await world.create(A, taskGroupId=GROUP, **times)
        await world.clock.sleep(7 * 3600)
        await world.handlers.due.deadline_due(A, GROUP, "-", now)
        await world.clock.sleep(timedelta(hours=1.5).total_seconds())
        await as_process(JOB, world.handlers.expiration.run(300))
        assert A in world.tasks()

    world.run(story())
