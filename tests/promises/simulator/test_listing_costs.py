"""The costs of listing a group: once, again, and when many watch it (design 6)."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from shared.queue.tasks import known
from shared.queue.tasks import known as group_statuses
from shared.queue.tasks.effects import row_of
from shared.store import keys
from shared.store.counting import Kind
from tests.parts.twin.gate import Call, Phase
from tests.promises.simulator.listing import create, listed, truth
from tests.promises.simulator.world import POOL, WORKER, World, unordered

pytestmark = pytest.mark.usefixtures("rows_vouch_for_few")


class Requests:
    """Counts requests by kind and table."""

    def __init__(self) -> None:
        self.of: Counter[tuple[Kind, str]] = Counter()

    async def __call__(self, call: Call, phase: Phase) -> None:
        if phase is Phase.BEFORE:
            self.of[call.kind, call.target] += 1


def a_group(*, pending: int, unscheduled: int, running: int) -> tuple[World, Requests]:
    """Returns a large group, created in the process of the handlers."""
    requests = Requests()
    world = unordered(requests)

    async def fill() -> None:
        for _ in range(pending + running):
            last = await create(world, world.handlers)
        for _ in range(unscheduled):
            await create(world, world.handlers, dependencies=[last])
        left = running
        while left > 0:
            left -= len(await world.handlers.work.claim_work(POOL, WORKER, min(left, 32), 0))

    world.run(fill())
    requests.of.clear()
    return world, requests


def test_only_running_tasks_are_read_in_later_listings() -> None:
    world, requests = a_group(pending=100, unscheduled=100, running=10)

    async def story() -> None:
        await world.clock.sleep(60)
        assert await listed(world.handlers) == truth(world)

    world.run(story())
    assert requests.of[Kind.TABLE_READ, keys.TASKS] == 10


def test_pool_with_many_tasks_of_others_is_not_read_through() -> None:
    """A pool with many tasks of others is not read through, as reading the tasks of the group is cheaper."""
    world, requests = a_group(pending=8, unscheduled=0, running=0)

    async def story() -> None:
        row = row_of(next(iter(world.tasks().values())), 0)
        for _ in range(5000):
            others = replace(row, task_id=world.slugid(), scheduled=world.clock.now())
            await world.handlers.stores.pools.add_pending(others)
        await world.clock.sleep(60)
        requests.of.clear()
        assert await listed(world.handlers) == truth(world)

    world.run(story())
    assert requests.of[Kind.TABLE_READ, keys.POOLS] <= 8 // group_statuses.TASKS_A_PAGE


WATCHERS = 20
SECONDS = 60


@pytest.mark.parametrize(
    ("tasks", "page"),
    [(200, 40), pytest.param(5000, 1000, marks=[pytest.mark.large, pytest.mark.timeout(900)])],
    ids=["200", "5000"],
)
def test_group_that_many_watch_costs_a_bounded_number_of_requests(tasks: int, page: int) -> None:
    """A group that many watch, as the console does, costs a bounded number of requests (design 11)."""
    running, pages = tasks // 100, tasks // page
    world, requests = a_group(pending=tasks // 2, unscheduled=tasks // 2 - running, running=running)
    services, rest = world.process(), 15.0

    async def watch(number: int) -> None:
        await world.clock.sleep(number * rest / WATCHERS)
        for _ in range(int(SECONDS / rest)):
            await listed(services, page)
            await world.clock.sleep(rest)

    async def story() -> None:
        for _ in range(2):  # a process that has not listed the group before reads its tasks
            await listed(services, page)
            await world.clock.sleep(2)
        requests.of.clear()
        await asyncio.gather(*(watch(number) for number in range(WATCHERS)))

    world.run(story())
    # Header, members, and ETags once more for each page; the index of the pool and its row of returns; tasks that run;
    # every task once in five minutes.
    readings = WATCHERS * pages / rest
    bound = 3 * readings + min(readings, 1) * (tasks / 1000 + 5) + running + tasks / known.VOUCHED_FOR.total_seconds()
    assert requests.of.total() / (SECONDS + rest) <= bound
    if tasks == 5000:
        assert bound <= 100
