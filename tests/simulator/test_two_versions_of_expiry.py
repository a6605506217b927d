"""The expiry job and createTask beside those of code from before groups were swept, and after a rollback to it.

That code gives each task a row of its own in the Expiry table, and its job deletes the members with their group.
"""

from __future__ import annotations

from datetime import datetime

import pytest

from shared.app.services import Services
from shared.base.dates import parse_date
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.expiring import Expiring, ExpiryStore, is_over
from shared.store.interface import Merge
from shared.store.partitions import delete_unchanged, rows_of
from tests.simulator import invariants
from tests.simulator.deletions import members, soon
from tests.simulator.expiring import HOUR, expire, left, scheduled
from tests.simulator.situations import GROUP, A, B, C
from tests.simulator.world import World
from tests.twin.driver import Simulation

LATER = 24 * 4
"""Hours until everything that is due has been deleted, back-offs included."""


class Older:
    """A process of that code, as far as it differs."""

    def __init__(self, world: World) -> None:
        self._tables = world.account.connect().tables
        self._now = world.clock.now
        self._expiry = ExpiryStore(world.account.connect(), world.clock.now)
        self.services = world.process()
        by_kind = dict(self.services.expiration._by_kind)
        del by_kind[keys.SWEPT_GROUP]
        self.services.expiration._by_kind = {**by_kind, "group": self._group, "task": self._task}

    async def create(self, world: World, task_id: str, expires: str) -> None:
        """A task, in a group that has no mark if this makes it."""
        definition = world.definition(task_id, taskGroupId=GROUP, expires=expires, deadline=soon(world, 1))
        before = await self._tables.get(keys.GROUPS, GROUP, keys.GROUP)
        await self._expiry.task(task_id, GROUP, definition.expires)
        await self.services.create_task(definition)
        header = await self._tables.get(keys.GROUPS, GROUP, keys.GROUP)
        assert header is not None
        if before is None:
            await self._tables.transact(keys.GROUPS, GROUP, [Merge(keys.GROUP, {"swept": False})])
            rows = [row for row in world.rows(keys.EXPIRY) if row.key == keys.expiring(keys.SWEPT_GROUP, GROUP)]
            await delete_unchanged(self._tables, keys.EXPIRY, rows)
            await self._expiry.group(GROUP, parse_date(str(header.values["expires"])), is_swept=False)

    async def _group(self, expiring: Expiring, until: datetime) -> datetime | None:
        """The header first, and then all other rows."""
        header = await self._tables.get(keys.GROUPS, GROUP, keys.GROUP)
        if header is not None:
            expires = parse_date(str(header.values["expires"]))
            if not is_over(expires, self._now()):
                return expires
            await delete_unchanged(self._tables, keys.GROUPS, [header])
        async for page in rows_of(self._tables, keys.GROUPS, GROUP):
            await delete_unchanged(self._tables, keys.GROUPS, page)
        return None

    async def _task(self, expiring: Expiring, until: datetime) -> datetime | None:
        """The member row first, and then the task."""
        task_id = expiring.words[0]
        status = await self._tables.get(keys.TASKS, task_id, keys.TASK_STATUS)
        if status is not None and not is_over(parse_date(str(status.values["expires"])), self._now()):
            return None
        member = await self._tables.get(keys.GROUPS, GROUP, keys.member(task_id))
        await delete_unchanged(self._tables, keys.GROUPS, [] if member is None else [member])
        async for page in rows_of(self._tables, keys.TASKS, task_id):
            await delete_unchanged(self._tables, keys.TASKS, page)
        return None


def open_world() -> World:
    world = World(Simulation.scripted([]))
    world.is_ordered = False
    return world


async def newer(world: World, task_id: str, expires: str) -> None:
    """A task of this code."""
    await world.create(task_id, taskGroupId=GROUP, expires=expires, deadline=soon(world, 1))


async def finish(world: World, number: int) -> None:
    for _ in range(number):
        for claim in await world.claim():
            await world.services.lifecycle.report(claim.task.task_id, claim.run_id, Resolved.COMPLETED)
    await world.drain(60)


async def pass_hours(world: World, jobs: list[Services], hours: int) -> None:
    """The jobs take turns; at no time is a task forgotten."""
    for number in range(hours):
        await expire(world, 1, jobs[number % len(jobs)])
        invariants.check(world)


@pytest.mark.parametrize("turns", ["older", "newer", "both"])
def test_group_that_older_code_has_made_goes_with_the_tasks_of_both(turns: str) -> None:
    world = open_world()

    async def story() -> None:
        older = Older(world)
        await older.create(world, A, soon(world, 4))
        await newer(world, B, soon(world, 4))
        await newer(world, C, soon(world, 9))
        own = {row.key for row in world.rows(keys.EXPIRY) if row.key.startswith("task~")}
        assert own == {keys.expiring("task", each, GROUP) for each in (A, B, C)}, "older code deletes the group"
        assert keys.SWEPT_GROUP not in scheduled(world)
        await finish(world, 3)
        jobs = {"older": [older.services], "newer": [world.handlers], "both": [older.services, world.handlers]}
        await pass_hours(world, jobs[turns], LATER)
        assert (left(world), scheduled(world)) == (set(), set())

    world.run(story())


def test_group_that_newer_code_has_made_outlasts_a_rollback_and_goes_after_the_next_upgrade() -> None:
    world = open_world()

    async def story() -> None:
        older = Older(world)
        await newer(world, A, soon(world, 4))
        await older.create(world, B, soon(world, 4))
        await finish(world, 2)
        await pass_hours(world, [older.services], 24 * 3)
        assert set(world.tasks()) == {A} == members(world, GROUP), "that of older code has gone by its own row"
        await pass_hours(world, [world.handlers], LATER)
        assert (left(world), scheduled(world)) == (set(), set())

    world.run(story())


@pytest.mark.parametrize("hours", [2, 6])
def test_older_and_newer_jobs_take_turns_at_a_group_of_newer_code(hours: int) -> None:
    """As during an upgrade, when C outlives the group; older code leaves it for later."""
    world = open_world()

    async def story() -> None:
        older = Older(world)
        await newer(world, A, soon(world, hours))
        await older.create(world, B, soon(world, hours))
        await newer(world, C, soon(world, 9))
        await finish(world, 3)
        await world.clock.sleep(HOUR / 2)
        await pass_hours(world, [older.services, world.handlers], LATER)
        assert (left(world), scheduled(world)) == (set(), set())

    world.run(story())
