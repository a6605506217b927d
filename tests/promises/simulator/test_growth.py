"""The cost of a call does not depend on how many tasks are pending, in how many task queues, or in its group."""

from __future__ import annotations

import cProfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from shared.queue.tasks.rules import Resolved, Worker
from shared.store.counting import counting
from tests.promises.simulator.world import World, unordered
from tools.bench.calls_inside import by_layer

CALLS = 6
ROOM = 1.1
"""Factor by which the number of calls of functions may grow."""


@dataclass(frozen=True)
class Sample:
    """A task that was created, with what was stored for it."""

    task_id: str
    rows: list[Any]
    messages: list[Any]


async def sample(world: World, pool: str, group: str) -> Sample:
    """Creates a task. It reads all that is stored, so it is called before anything is piled up."""
    tables, queues = world.memory.tables._tables, world.memory.queues._queues
    before = {id(each) for each in _stored(tables)} | {id(each) for each in _stored({"": queues})}
    task_id = await world.create(taskQueueId=pool, taskGroupId=group)
    rows = [(table, row) for table in tables for row in _stored({"": tables[table]}) if id(row) not in before]
    messages = [(queue, each) for queue in queues.values() for each in queue.values() if id(each) not in before]
    return Sample(task_id, rows, messages)


def pile_up(world: World, of: Sample, count: int) -> None:
    """Puts copies of a task's rows and messages under other ids beside them."""
    for _ in range(count - 1):
        new = world.slugid()
        for table, row in of.rows:
            partition, key = row.partition.replace(of.task_id, new), row.key.replace(of.task_id, new)
            values = {name: _renamed(value, of.task_id, new) for name, value in row.values.items()}
            copied = replace(row, partition=partition, key=key, values=values)
            world.memory.tables._tables[table].setdefault(partition, {})[key] = copied
        for queue, message in of.messages:
            queue[message.message_id + new] = replace(message, message_id=message.message_id + new)


def _stored(tables: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Any]:
    return [each for table in tables.values() for partition in table.values() for each in partition.values()]


def _renamed(value: Any, old: str, new: str) -> Any:
    return value.replace(old, new) if isinstance(value, str) else value


async def costs(world: World, pool: str, group: str) -> dict[str, tuple[int, float]]:
    """Returns for each call the requests to storage, and the calls of our functions."""
    services, found = world.services, dict[str, tuple[int, float]]()

    async def measured(name: str, call: Callable[[Any], Awaitable[Any]], items: list[Any]) -> list[Any]:
        profile, results = cProfile.Profile(), []
        with counting() as operations:
            for item in items:
                profile.enable()
                results.append(await call(item))
                profile.disable()
        layers = by_layer(profile, len(items)).items()
        found[name] = operations.total, sum(count for layer, (count, _) in layers if layer.startswith("shared"))
        return results

    workers = [Worker(worker_group="group", worker_id=world.slugid()) for _ in range(CALLS)]
    await measured("createTask", lambda _: world.create(taskQueueId=pool, taskGroupId=group), workers)
    taken = await measured("claimWork", lambda worker: services.work.claim_work(pool, worker, 1, 0.0), workers)
    runs = [(claim.task.task_id, claim.run_id) for claims in taken for claim in claims]
    assert len(runs) == CALLS
    await measured("reclaimTask", lambda run: services.work.reclaim_task(*run), runs)
    await measured("reportCompleted", lambda run: services.lifecycle.report(run[0], run[1], Resolved.COMPLETED), runs)
    await measured("status", lambda run: services.lifecycle.status(run[0]), runs)
    return found


def found_with(tasks: int, pools: int, group: int) -> dict[str, tuple[int, float]]:
    """Returns the costs with `tasks` pending tasks in `pools` task queues, `group` of them in the calls' group."""
    world = unordered()

    async def story() -> dict[str, tuple[int, float]]:
        own = world.slugid()
        for _ in range(3 * CALLS):
            await world.create(taskQueueId="prov/pool-0", taskGroupId=own)
        await costs(world, "prov/pool-0", own)
        in_group = await sample(world, "prov/pool-0", own)
        others = [await sample(world, f"prov/pool-{number}", world.slugid()) for number in range(pools)]
        pile_up(world, in_group, group)
        for each in others:
            pile_up(world, each, max((tasks - group) // pools, 1))
        return await costs(world, "prov/pool-0", own)

    (found,) = world.run(story())
    return found


@pytest.mark.parametrize(
    ("tasks", "pools", "group"),
    [
        (3_000, 1, 1),
        (3_000, 100, 1),
        (3_000, 1, 2_900),
        *(
            pytest.param(tasks, pools, group, marks=pytest.mark.large)
            for tasks in (10_000, 50_000)
            for pools in (1, 500)
            for group in (1, tasks // 2)
        ),
    ],
)
def test_calls_cost_the_same_however_much_is_there(tasks: int, pools: int, group: int) -> None:
    few, many = found_with(10, 1, 1), found_with(tasks, pools, group)
    for call, (requests, calls) in many.items():
        assert requests <= few[call][0], call
        assert calls <= ROOM * few[call][1], call
